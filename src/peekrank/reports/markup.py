r"""Tables for pages and papers, in Markdown and in LaTeX.

Entries are literal text, except for links and for text between backticks, which is set as code, like the names of
learners. `code` puts any text between backticks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SPAN = re.compile(r"(?<!`)(?P<fence>`+)(?!`)(?P<code>.+?)(?<!`)(?P=fence)(?!`)")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}", "±": r"$\pm$", "–": "--",
    "[": "{[}", "*": "{*}",  # at the start of a row they would belong to the end of the one before
}  # fmt: skip


class Table(NamedTuple):
    r"""A table for reading.

    The LaTeX needs ``\usepackage{booktabs}``. Columns of numbers are aligned on the right.

    >>> print(Table(("learner", "regret"), [("`ftpl`", "10 ± 2")]).latex())
    \begin{tabular}{lr}
    \toprule
    learner & regret \\
    \midrule
    \texttt{ftpl} & 10 $\pm$ 2 \\
    \bottomrule
    \end{tabular}
    """

    heads: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def markdown(self) -> list[str]:
        """Return the lines of the table in Markdown."""
        return [row(*self.heads), "|" + "---|" * len(self.heads), *(row(*entries) for entries in self.rows)]

    def latex(self) -> str:
        """Return the table as a LaTeX tabular."""
        lines = [" & ".join(map(_latex, entries)) + r" \\" for entries in (self.heads, *self.rows)]
        sides = "".join("r" if all(map(_is_number, column)) else "l" for column in zip(*self.rows, strict=True))
        sides = sides or "l" * len(self.heads)
        lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def code(text: str) -> str:
    """Put a text between as many backticks as necessary.

    >>> code("rtop1f:order=fixed"), code("a`b"), code("`")
    ('`rtop1f:order=fixed`', '``a`b``', '`` ` ``')
    """
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    if not text.strip() or text[0] in "` " or text[-1] in "` ":
        text = f" {text} "  # Markdown strips one space on each side
    return fence + text + fence


def row(*entries: object) -> str:
    r"""Format a row of a Markdown table.

    >>> print(row("a|b", "two_words_*", "`p_1`", 2))
    | a\|b | two\_words\_\* | `p_1` | 2 |
    """
    return "| " + " | ".join(map(_markdown, entries)) + " |"


def _is_number(entry: object) -> bool:
    return re.match(r"[-+<]? ?\d|[–-]?$", str(entry)) is not None


def _markdown(entry: object) -> str:
    return "".join(_span(text) if is_code else _literal(text) for text, is_code in _parts(entry))


def _span(text: str) -> str:
    """Format code. A pipe between backticks would end the cell, and some renderers print its escape: use a tag."""
    if "|" not in text:
        return code(text)
    return "<code>" + re.sub(r"[&<|\\`*_\[]", lambda match: f"&#{ord(match[0])};", text) + "</code>"


def _literal(text: str) -> str:
    escaped = re.sub(r"[\\`*_|]", r"\\\g<0>", text)
    escaped = re.sub(r"&(?=#?\w+;)", "&amp;", escaped)  # some renderers print a backslash before it
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", escaped)


def _latex(entry: object) -> str:
    parts = (("".join(_LATEX.get(letter, letter) for letter in text), is_code) for text, is_code in _parts(entry))
    return "".join(rf"\texttt{{{text}}}" if is_code else _with_rates(text) for text, is_code in parts)


def _with_rates(text: str) -> str:
    """Typeset the rates of games as formulas."""
    return text.replace(r"T\textasciicircum{}(2/3)", "$T^{2/3}$").replace("sqrt(T)", r"$\sqrt{T}$")


def _parts(entry: object) -> Iterator[tuple[str, bool]]:
    """Yield the parts of an entry, joined to one line, each with whether it is code. Backticks are removed."""
    text, end = re.sub(r"\s*[\r\n]+\s*", " ", str(entry)), 0
    for span in _SPAN.finditer(text):
        yield text[end : span.start()], False
        inner = span["code"]
        padded = len(inner) > 2 and inner[0] == inner[-1] == " "
        yield inner[1:-1] if padded else inner, True
        end = span.end()
    yield text[end:], False
