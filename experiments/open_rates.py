"""The table that the papers leave open: minimax rates of NDCG, AP and AUC when k >= 2 answers are seen.

Three ways to the same numbers: from the definitions (cells, neighbours, observability), by the expansion of loss
differences over sets of items, and by the theorems of docs/games/rates.md. Any disagreement is an error.

    python experiments/open_rates.py                      write docs/games/open-rates.md (a minute or two)
    python experiments/open_rates.py --check              exit 1 if the page is not what would be written
    python experiments/open_rates.py --check --max-m 4    the same for its rows up to four items, in seconds
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from peekrank.games.analysis import analyse
from peekrank.games.cells import Cells
from peekrank.games.certificate import adversaries
from peekrank.games.interactions import interaction_order
from peekrank.games.ranking import ranking_game
from peekrank.games.rate import Rate
from peekrank.games.theorems import theorem_of
from peekrank.measures import measure

PAGE = Path(__file__).resolve().parent.parent / "docs" / "games" / "open-rates.md"
MEASURES = ("ndcg", "ap", "aucloss")
DEFINITIONS = {2: 6, 3: 4}  # grades: largest m
GAPS = {2: 5, 3: 3}
EXPANSIONS = {2: 10, 3: 7}
CUT_OFFS = ("ndcg@2", "ndcg@3", "ndcg@4")
MOST = 10

HEAD = """# The table that the papers leave open

*Written by `python experiments/open_rates.py`, every number and every rate below; `--check` compares.*

How fast must regret grow for NDCG, average precision and AUC when the answers for the first k >= 2 of m items are
seen? The papers answer for k = 1 and leave the rest open:

- CT15 (Lemma 11, Theorem 12) shows that k = 1 is hopeless: for three items under NDCG and AP, for four under AUC.
- CT16, after Theorem 5.2, on surrogates that are calibrated for NDCG: "Minimax regret for the problem setting with
  top-k feedback, with k >= 2 remains an open question."
- ZT section 1: "One of the open questions, as described in Chaudhuri and Tewari [2017], is to find the minimax
  regret rates for k > 1 for the six ranking measures." ZT settles pairwise loss, DCG and P@n for binary relevance.
  NDCG, AP and AUC remain.

They are settled here, for all m, all k and any number of grades. CT16's question, which is about surrogates, has
the same answer where the game of NDCG is hopeless: regret in a calibrated surrogate grows as T there, by Theorem
2(d) of [surrogates](../surrogates/index.md). For k = m - 1 and binary relevance it depends on the surrogate
(Theorem 3 there).

| measure | relevance | hopeless: T | T^(2/3) | sqrt(T) | theorem of [rates](rates.md) |
|---|---|---|---|---|---|
| `ndcg`, m >= 3 | binary | k <= m - 2 | k = m - 1 | k = m | 5 |
| `ap`, m >= 3 | any | k <= m - 2 | k = m - 1 | k = m | 7 |
| `aucloss`, m >= 4 even | binary | k <= m - 2 | k = m - 1 | k = m | 6 |
| `aucloss`, m >= 5 odd | binary | k <= m - 3 | k = m - 2, m - 1 | k = m | 6 |
| `ndcg`, m >= 2 | 3 or more grades | k <= m - 1 | | k = m | 8 |
| `aucloss`, m >= 2 | 3 or more grades | k <= m - 1 | | k = m | 9 |

For m = 2, `ap` and the binary games of `ndcg` and `aucloss` have sqrt(T) for both k. The binary game of `aucloss` with
m = 3 is half the pairwise loss: T^(2/3) for k = 1, sqrt(T) for k >= 2 (Theorem 3).

## What is proved, what is certified, what is conjectured

**Proved** is the table above, for all m. The proofs for AP, for AUC, and for binary NDCG are on paper from end to
end. The proof for NDCG with grades (Theorem 8) ends in four coefficients that are computed; the cut-offs `ndcg@n`,
which are not in the table above, need a few more numbers (Theorems 5 and 8). `tests/games/test_theorems.py`
computes all of them again, the delicate ones in balls. That four rates are all there are, and what decides between
them, is the classification theorem of the literature (Bartok et al. 2014; Lattimore & Szepesvari 2019).

**Certified** are the tables below, cell by cell, without the theorems. "From the definitions" means: all m!
rankings, all outcomes, their cells, neighbours and signal matrices. *Exact*: losses are rational, and so is all
arithmetic (AP, AUC). *Balls*: losses are irrational (NDCG); what is equal is equal term by term in whole numbers,
what is not is certified by ball arithmetic. No cell is undecided, and none contradicts a theorem: the script would
stop. [Certificates](index.md) let others check a cell.

**Conjectured** is nothing. Beyond the tables below, the theorems stand alone.
"""

GAPS_MEAN = [
    "For every hopeless cell there are two adversaries that no feedback tells apart. The regrets of *any* learner",
    "on the two add up to this much per round at least, in expectation: certified, not the largest possible.",
    "",
]
EXPANSIONS_MEAN = [
    "The number of items in the largest term of a loss difference, which is the least k with a rate below T",
    "(Theorem 1). This needs no cells, and reaches further.",
    "",
]


def definition_rows(measure_name: str, grades: int, max_m: int, say: Callable[[str], object]) -> Iterator[str]:
    """One row for each m: the rates for k = 1, ..., m, from the definitions; they must agree with the theorems."""
    largest = DEFINITIONS[grades]
    for m in range(2, min(largest, max_m) + 1):
        known: Cells | None = None
        rates: list[str] = []
        for k in range(1, m + 1):
            game = ranking_game(measure_name, m, k, grades)
            found = analyse(game, known)
            known = found.cells
            agree(
                f"{measure_name}, m = {m}, k = {k}, {grades} grades",
                found.rate,
                rate_by_theorem(measure_name, m, k, grades),
            )
            rates.append(str(found.rate))
        say(f"definitions: {measure_name}, {grades} grades, m = {m} done")
        how = "exact" if ranking_game(measure_name, m, 1, grades).rational else "balls"
        yield row(f"`{measure_name}`", m, *rates, *[""] * (largest - m), how)


def gap_rows(measure_name: str, grades: int, max_m: int, say: Callable[[str], object]) -> Iterator[str]:
    """One row for each m: how much the two adversaries of a hopeless cell cost, per round and taken together."""
    largest = GAPS[grades]
    for m in range(2, min(largest, max_m) + 1):
        hopeless = [k for k in range(1, m) if rate_by_theorem(measure_name, m, k, grades) == Rate.LINEAR]
        gaps = [f"{adversaries(analyse(ranking_game(measure_name, m, k, grades))).gap:.4f}" for k in hopeless]
        say(f"adversaries: {measure_name}, {grades} grades, m = {m} done")
        if gaps:
            yield row(f"`{measure_name}`", m, *gaps, *[""] * (largest - 1 - len(gaps)))


def expansion_rows(grades: int, max_m: int, say: Callable[[str], object]) -> Iterator[str]:
    """One row for each m: the number of items in the largest term, which is the least k with a rate below T."""
    for m in range(2, min(EXPANSIONS[grades], max_m) + 1):
        found = []
        for name in (*MEASURES, *CUT_OFFS):
            order = interaction_order(name, m, grades)
            rates = [rate_by_theorem(name, m, k, grades) for k in range(1, m + 1)]
            least = next(k for k, rate in enumerate(rates, 1) if rate != Rate.LINEAR)
            agree(f"order of {name}, m = {m}, {grades} grades", order, least)
            found.append(order)
        say(f"expansion: {grades} grades, m = {m} done")
        yield row(m, *found)


def generate(max_m: int = MOST, say: Callable[[str], object] = lambda _: None) -> list[str]:
    """The lines of the page, without those for more than `max_m` items."""
    lines = HEAD.splitlines()
    for grades, largest in DEFINITIONS.items():
        lines += ["", f"## From the definitions, {words(grades)}", ""]
        lines += heading("measure", "m", *(f"k = {k}" for k in range(1, largest + 1)), "arithmetic")
        for name in MEASURES:
            lines += definition_rows(name, grades, max_m, say)
    for grades, largest in GAPS.items():
        lines += ["", f"## How hopeless, {words(grades)}", "", *(GAPS_MEAN if grades == 2 else [])]
        lines += heading("measure", "m", *(f"k = {k}" for k in range(1, largest)))
        for name in MEASURES:
            lines += gap_rows(name, grades, max_m, say)
    for grades in EXPANSIONS:
        lines += ["", f"## By expansion, {words(grades)}", "", *(EXPANSIONS_MEAN if grades == 2 else [])]
        lines += heading("m", *(f"`{name}`" for name in (*MEASURES, *CUT_OFFS)))
        lines += expansion_rows(grades, max_m, say)
    return lines


def rate_by_theorem(name: str, m: int, k: int, grades: int) -> Rate | None:
    """What docs/games/rates.md says."""
    return theorem_of(measure(name), m, k, grades).rate


def agree(what: str, computed: object, proved: object) -> None:
    """Stop where computation and theorem differ."""
    if computed != proved:
        raise SystemExit(f"{what}: computed {computed}, but by theorem {proved}")


def words(grades: int) -> str:
    """A name for a number of grades."""
    return {2: "binary relevance", 3: "three grades"}[grades]


def heading(*names: str) -> list[str]:
    """The head of a table."""
    return [row(*names), "|" + "---|" * len(names)]


def row(*entries: object) -> str:
    """A row of a table."""
    return "| " + " | ".join(map(str, entries)) + " |"


def differs(page: Sequence[str], lines: Sequence[str], *, partly: bool) -> str:
    """The first line that should be on the page and is not, in order; `partly`: the page may have others too."""
    rest = iter(page)
    for line in lines:
        if line not in rest:  # goes on to the line after it
            return line
    return "" if partly or len(page) == len(lines) else "the page has lines of its own"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Minimax rates of NDCG, AP and AUC for every k.")
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    parser.add_argument(
        "--max-m", type=int, default=MOST, help="leave out more items than that; with --check only"
    )
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    if options.max_m < MOST and not options.check:
        parser.error("--max-m goes with --check: the page is always written as a whole")
    lines = generate(options.max_m, lambda text: sys.stderr.write(text + "\n"))
    if not options.check:
        options.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif wrong := differs(
        options.page.read_text(encoding="utf-8").splitlines(), lines, partly=options.max_m < MOST
    ):
        sys.exit(f"{options.page} is not what would be written, from: {wrong}")


if __name__ == "__main__":
    main()
