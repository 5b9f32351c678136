"""The contracts of pyproject.toml, which say what may import what."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def contracts(*options, cwd=ROOT):
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, *options]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_rooms_import_downward_only():
    result = contracts()
    assert result.returncode == 0, result.stdout


def test_a_room_that_imports_upward_is_caught(tmp_path):
    """The contracts can fail: turn the layers round and they do."""
    settings = (ROOT / "pyproject.toml").read_text()
    turned = settings.replace('"onlooker.cli",\n  "onlooker.display"', '"onlooker.display",\n  "onlooker.cli"')
    assert turned != settings
    (tmp_path / "pyproject.toml").write_text(turned)
    result = contracts("--config", str(tmp_path / "pyproject.toml"))
    assert result.returncode == 1 and "Rooms import downward only BROKEN" in result.stdout, result.stdout
