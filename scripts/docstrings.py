"""Griffe extension: the examples of our docstrings, which stand in no section of their own, get one."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Put the heading that numpydoc wants above every example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = with_examples(obj.docstring.value)


def with_examples(docstring: str) -> str:
    r"""Return a docstring with a heading above each paragraph that begins with a prompt.

    >>> with_examples("Two.\n\n>>> 1 + 1\n2")
    'Two.\n\nExamples\n--------\n>>> 1 + 1\n2'
    """
    return re.sub(r"(^|\n\n)(?=>>> )", r"\1Examples\n--------\n", docstring)
