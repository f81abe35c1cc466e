"""Conventions that ruff does not check: tests do not import each other, and docstrings are no fragments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
# A docstring that begins with such a word continues a sentence that is not there: "Of P@n.", "As a table."
_FRAGMENT = re.compile(r"(Of|For|As|That|Than|Over|By|At|On|From|Into|Also|And|Or|But|Likewise|In a word)\b")
_PARAMETER = re.compile(r"^ {4}((?:Of|In a word)\b.*)$", re.M)


def imported_names(source: str) -> set[str]:
    """Return the parts of all names that a source imports."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {part for name in names for part in name.split(".")}


def fragments(source: str) -> Iterator[str]:
    """Yield first lines of docstrings, and descriptions of parameters, that do not stand alone."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node) or ""
        if _FRAGMENT.match(text):
            yield text.splitlines()[0]
        yield from _PARAMETER.findall(text)


def test_no_test_file_imports_another() -> None:
    files = sorted(TESTS.rglob("*.py"))
    others = {file.stem for file in files if file.parent.name != "helpers"}
    imports = {str(file.relative_to(TESTS)): imported_names(file.read_text()) & others for file in files}
    assert {file: names for file, names in imports.items() if names} == {}
    assert imported_names("from learners.test_ftpl import show\ndef f():\n    import test_jit as t") == {
        "learners", "test_ftpl", "show", "test_jit",
    }  # fmt: skip


def test_docstrings_stand_alone() -> None:
    files = [*(ROOT / "src" / "peekrank").rglob("*.py"), *(ROOT / "examples").rglob("src/**/*.py")]
    offenders = {str(file.relative_to(ROOT)): list(fragments(file.read_text(encoding="utf-8"))) for file in files}
    assert len(files) > 100
    assert {file: lines for file, lines in offenders.items() if lines} == {}


def test_fragments_are_found() -> None:
    source = '''
def one():
    """Of P@n."""
def two(x):
    """Twice a number.

    Parameters
    ----------
    x
        Of the ball.
    """
def three():
    """Official constants of P@n, for the bound."""
'''
    assert list(fragments(source)) == ["Of P@n.", "Of the ball."]
