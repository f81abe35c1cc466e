"""Docstrings stand alone: each begins with a sentence or a noun phrase, not with the rest of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.scripts import ROOT

FILES = sorted((ROOT / "src" / "peekrank").rglob("*.py")) + sorted((ROOT / "examples").rglob("src/**/*.py"))
# What follows these words is about something that the reader has to guess: "Of P@n.", "For JSON.", "As a table."
_FRAGMENT = re.compile(r"(Of|For|As|That|Than|Over|By|At|On|From|Into|Also|And|Or|But|Likewise|In a word)\b")
_PARAMETER = re.compile(r"^ {4}((?:Of|In a word)\b.*)$", re.M)


def fragments(source: str) -> Iterator[str]:
    """First lines of docstrings, and descriptions of parameters, that do not stand alone."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node) or ""
        if _FRAGMENT.match(text):
            yield text.splitlines()[0]
        yield from _PARAMETER.findall(text)


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings_stand_alone(file: Path) -> None:
    assert list(fragments(file.read_text(encoding="utf-8"))) == []
