"""One process run alone: what it says, what it leaves behind, and whose processor time is foreign."""

import os
import subprocess
import sys

import pytest

from benchmarks import machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="load is read from /proc")

BURN = "import time; end = time.process_time() + {0}\nwhile time.process_time() < end: pass"


def run_alone(code, folder, longest=60.0):
    return machine.run_alone([sys.executable, "-c", code], dict(os.environ), folder, longest)


def test_it_says_what_was_printed_and_how_it_ended(tmp_path):
    ran = run_alone("import sys; print('told'); sys.exit(3)", tmp_path)
    assert ran.output.strip() == "told" and ran.status == 3


def test_what_takes_too_long_is_ended(tmp_path):
    assert run_alone("import time; time.sleep(600)", tmp_path, longest=0.5).status < 0


def test_an_orphan_is_ended_too(tmp_path):
    code = (
        "import subprocess, sys; "
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True).pid)"
    )
    orphan = int(run_alone(code, tmp_path).output)
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)


def test_what_was_there_before_is_left_alone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as earlier:
        run_alone("pass", tmp_path)
        assert earlier.poll() is None
        earlier.kill()


def test_processor_time_of_grandchildren_is_not_foreign(tmp_path):
    before = machine._own()
    run_alone(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(0.5)!r}])", tmp_path)
    assert machine._own() - before >= 0.5


def test_processor_time_of_others_is_foreign(tmp_path):
    with subprocess.Popen([sys.executable, "-c", BURN.format(600)]) as other:
        ran = run_alone("import time; time.sleep(1)", tmp_path)
        assert ran.foreign > 0.1
        other.kill()
