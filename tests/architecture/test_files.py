"""Rules of the house that a tool can count: sizes, and that the project speaks of itself alone."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.end_lineno - node.body[0].lineno
            if isinstance(node.body[0], ast.Expr) and len(node.body) > 1:  # the docstring does not count
                body = node.end_lineno - node.body[1].lineno
            assert body < 50, f"{node.name} has {body + 1} lines"


def test_every_method_of_the_configuration_has_its_page_of_trust():
    from onlooker.config.kinds import KINDS

    threats = (ROOT / "THREATS.md").read_text()
    assert all(f"`{name}`" in threats for name in KINDS)
