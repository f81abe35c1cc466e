"""Tests share helpers, not each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.py"))


def imported(source: str) -> set[str]:
    """The parts of the names of all that a source imports."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return {part for name in found for part in name.split(".")}


def test_imports_are_seen() -> None:
    assert imported("from learners.test_ftpl import show\ndef f():\n    import test_jit as t") == {
        "learners", "test_ftpl", "show", "test_jit",
    }  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HERE)))
def test_no_test_file_imports_another(file: Path) -> None:
    others = {other.stem for other in FILES if other.parent.name != "helpers"}
    assert not imported(file.read_text()) & others
