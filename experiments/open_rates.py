"""Compute the minimax rates of NDCG, AP and AUC for k >= 2, which the papers leave open.

Three ways to the same numbers: from the definitions (cells, neighbours, observability), by the expansion of loss
differences over sets of items, and by the theorems of docs/games/rates.md. Any disagreement is an error.

    python experiments/open_rates.py                      write records/open-rates.json (a minute or two)
    python experiments/open_rates.py --check              exit 1 if the record is not what would be written
    python experiments/open_rates.py --check --max-m 4    the same for its rows up to four items, in seconds
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import records

from peekrank.games.analysis import analyse
from peekrank.games.cells import Cells
from peekrank.games.certificate import adversaries
from peekrank.games.interactions import interaction_order
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.measures import measure

RECORD = records.FOLDER / "open-rates.json"
MEASURES = ("ndcg", "ap", "aucloss")
DEFINITIONS = {2: 6, 3: 4}  # grades: largest m
GAPS = {2: 5, 3: 3}
EXPANSIONS = {2: 10, 3: 7}
CUT_OFFS = ("ndcg@2", "ndcg@3", "ndcg@4")
MOST = 10

GAPS_MEAN = (
    "For every hopeless cell there are two adversaries that no feedback distinguishes. The regrets of any learner "
    "on the two add up to at least this much per round, in expectation: certified, not the largest possible."
)
EXPANSIONS_MEAN = (
    "The number of items in the largest term of a loss difference, which is the smallest k with a rate below T "
    "(Theorem 1). This needs no cells, and reaches further."
)


def definition_rows(measure_name: str, grades: int, max_m: int, say: Callable[[str], object]) -> Iterator[str]:
    """Compute the rates for k = 1, ..., m from the definitions, and compare them with the theorems."""
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
    """Compute the cost per round of the two adversaries of a hopeless cell together, a row for each m."""
    largest = GAPS[grades]
    for m in range(2, min(largest, max_m) + 1):
        hopeless = [k for k in range(1, m) if rate_by_theorem(measure_name, m, k, grades) == Rate.LINEAR]
        gaps = [f"{adversaries(analyse(ranking_game(measure_name, m, k, grades))).gap:.4f}" for k in hopeless]
        say(f"adversaries: {measure_name}, {grades} grades, m = {m} done")
        if gaps:
            yield row(f"`{measure_name}`", m, *gaps, *[""] * (largest - 1 - len(gaps)))


def expansion_rows(grades: int, max_m: int, say: Callable[[str], object]) -> Iterator[str]:
    """Compute the number of items in the largest term, the least k with a rate below T, a row for each m."""
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


def generate(max_m: int = MOST, say: Callable[[str], object] = lambda _: None) -> list[records.Table]:
    """Return the tables of the record, without rows for more than `max_m` items."""
    tables = []
    for grades, largest in DEFINITIONS.items():
        lines = heading("measure", "m", *(f"k = {k}" for k in range(1, largest + 1)), "arithmetic")
        for name in MEASURES:
            lines += definition_rows(name, grades, max_m, say)
        tables.append(records.parse_table(f"From the definitions, {words(grades)}", lines))
    for grades, largest in GAPS.items():
        lines = heading("measure", "m", *(f"k = {k}" for k in range(1, largest)))
        for name in MEASURES:
            lines += gap_rows(name, grades, max_m, say)
        text = [GAPS_MEAN] if grades == 2 else []
        tables.append(records.parse_table(f"How hopeless, {words(grades)}", lines, text))
    for grades in EXPANSIONS:
        lines = heading("m", *(f"`{name}`" for name in (*MEASURES, *CUT_OFFS)))
        lines += expansion_rows(grades, max_m, say)
        text = [EXPANSIONS_MEAN] if grades == 2 else []
        tables.append(records.parse_table(f"By expansion, {words(grades)}", lines, text))
    return tables


def rate_by_theorem(name: str, m: int, k: int, grades: int) -> Rate | None:
    """Return the rate by the theorems of docs/games/rates.md."""
    return theorem_of(measure(name), m, k, grades).rate


def agree(what: str, computed: object, proved: object) -> None:
    """Exit if computation and theorem differ."""
    if computed != proved:
        raise SystemExit(f"{what}: computed {computed}, but by theorem {proved}")


def words(grades: int) -> str:
    """Name a number of grades."""
    return {2: "binary relevance", 3: "three grades"}[grades]


def heading(*names: str) -> list[str]:
    """Return the head of a table."""
    return [row(*names), "|" + "---|" * len(names)]


def row(*entries: object) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(map(str, entries)) + " |"


def differs(recorded: records.Record, tables: Sequence[records.Table], *, partly: bool) -> str:
    """Return the first row that the record lacks. With `partly`, the record may have more rows."""
    there = {table.title: table.rows for table in recorded.tables}
    for table in tables:
        rest = iter(there.get(table.title, []))
        for cells in table.rows:
            if cells not in rest:  # goes on to the row after it
                return f"{table.title}: {cells}"
        if not partly and len(there[table.title]) != len(table.rows):
            return f"{table.title}: the record has rows of its own"
    return ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or check the record."""
    parser = argparse.ArgumentParser(description="Minimax rates of NDCG, AP and AUC for every k.")
    parser.add_argument("--check", action="store_true", help="compare with the record instead of writing it")
    parser.add_argument(
        "--max-m", type=int, default=MOST, help="leave out more items than that; with --check only"
    )
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    if options.max_m < MOST and not options.check:
        parser.error("--max-m needs --check: the tables are always written as a whole")
    tables = generate(options.max_m, lambda text: sys.stderr.write(text + "\n"))
    if not options.check:
        records.update(options.record, tables)
    elif wrong := differs(records.read(options.record), tables, partly=options.max_m < MOST):
        sys.exit(f"{options.record} is not what would be written, from: {wrong}")


if __name__ == "__main__":
    main()
