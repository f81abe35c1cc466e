"""Tables: whatever an entry holds, Markdown shows it as it is, in one cell, and LaTeX has nothing special left."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from markdown import markdown
from markdown_it import MarkdownIt

from peekrank.reports.markup import Table, code, row

STRANGE = [
    "plain", "a|b", "a_b_c", "_a_", "*x*", "**x**", "<b>x</b>", "a < b", "&amp;", "back\\slash", "a\\|b", "\\*",
    "`", "tick`tock", "``", "a `b", "|`|", "~", "$x$ #1 50 % {a}^b",
]  # fmt: skip


def cells(html: str) -> list[list[str]]:
    table = ElementTree.fromstring(html[html.index("<table>") : html.index("</table>") + 8])  # noqa: S314
    return [["".join(cell.itertext()) for cell in line] for line in table.iter("tr")]


def shown_by_site(lines: list[str]) -> list[list[str]]:
    return cells(markdown("\n".join(lines), extensions=["tables"]))


def shown_elsewhere(lines: list[str]) -> list[list[str]]:
    return cells(MarkdownIt().enable("table").render("\n".join(lines)))


@pytest.mark.parametrize("shown", [shown_by_site, shown_elsewhere])
def test_markdown_shows_what_an_entry_holds(shown: Callable[[list[str]], list[list[str]]]) -> None:
    table = Table(("as text", "as code"), [(text, code(text)) for text in STRANGE])
    assert shown(table.markdown())[1:] == [[text, text] for text in STRANGE]


def test_what_is_between_backticks_is_code_and_the_rest_is_not() -> None:
    html = markdown(
        "\n".join(Table(("x",), [("a_b of `rtop1f:a_b` and ``c`d``",)]).markdown()), extensions=["tables"]
    )
    assert "<td>a_b of <code>rtop1f:a_b</code> and <code>c`d</code></td>" in html
    assert row("a `b") == r"| a \`b |"


def test_lines_become_one() -> None:
    assert row("a\nb", code("c\r\n  d"), 3) == "| a b | `c d` | 3 |"
    assert r"a b & \texttt{c d} \\" in Table(("x", "y"), [("a\nb", code("c\nd"))]).latex()


def test_links_stay_links() -> None:
    assert row("[here](#here)") == "| [here](#here) |"


def test_latex_has_no_special_character_left() -> None:
    (line,) = re.findall(r"^.*50.*$", Table(("x",), [(r"50 % & $ # _ { } ~ ^ \ < > | ` [1] *",)]).latex(), re.M)
    assert line == (
        r"50 \% \& \$ \# \_ \{ \} \textasciitilde{} \textasciicircum{} \textbackslash{} \textless{} "
        r"\textgreater{} \textbar{} \textasciigrave{} {[}1] {*} \\"
    )
    assert (
        r"\texttt{p@2+sum\_\textbar{}} & 3 $\pm$ 1 \\" in Table(("a", "b"), [(code("p@2+sum_|"), "3 ± 1")]).latex()
    )


def test_latex_has_rates_as_formulas() -> None:
    table = Table(("k = 1", "k = 2"), [("T^(2/3)", "sqrt(T)"), ("2^m", code("sqrt(T)"))])
    assert r"$T^{2/3}$ & $\sqrt{T}$ \\" in table.latex()
    assert r"2\textasciicircum{}m & \texttt{sqrt(T)} \\" in table.latex()


def test_latex_is_for_booktabs_with_numbers_on_the_right() -> None:
    text = Table(("learner", "regret", "bound"), [("`a`", "-1.5 ± 2", "–"), ("`b`", "<0.1", "3")]).latex()
    assert text.splitlines()[:2] == [r"\begin{tabular}{lrr}", r"\toprule"]
    assert text.splitlines()[3] == r"\midrule"
    assert r"\hline" not in text
