"""The contracts of pyproject.toml, which say what may import what."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def modules_of(command):
    """What a command had imported when it ended."""
    program = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from onlooker.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_a_plan_does_without_what_only_trains_or_draws(path):
    """Torch alone takes longer to import than most plans to make."""
    found = modules_of(["plan", str(path)])
    assert "dp_accounting" in found
    assert not found & {"torch", "plotly", "jinja2", "sklearn", "pandas", "opacus"}


@pytest.mark.parametrize("name", ["digits_silos", "ms_pafl_digits"])
def test_what_trains_imports_torch_and_not_its_compiler(name, tmp_path):
    """`torch._dynamo`, which optimizers and `torch.func.grad` import on first use, takes as long as torch itself."""
    path = ROOT / "examples" / f"{name}.toml"
    found = modules_of(["run", str(path), "--set", "task.rounds=1", "--out", str(tmp_path / "run")])
    assert {"torch", "plotly"} <= found
    assert not found & {"torch._dynamo", "sympy", "sklearn"}
