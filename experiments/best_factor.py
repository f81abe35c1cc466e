"""Bound how much of the best NDCG, AP and AUC a learner can guarantee, and check every certificate.

python experiments/best_factor.py --record            write records/best-factor.json (hours)
python experiments/best_factor.py --only ap,3,1       print the row of one game
python experiments/best_factor.py --only ap,3,1,50    the same with at most 50 linear programs
"""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Sequence
from math import ceil, floor
from pathlib import Path

import records

from peekrank.games.best_factor import best_factor
from peekrank.games.ceilings import factor_ceiling

CHECKER = Path(__file__).parents[1] / "examples" / "check_best_factor.py"
GAMES = {  # and the largest number of linear programs
    ("ndcg", 3, 1): 1_200, ("ndcg", 4, 1): 1_500, ("ndcg", 4, 2): 4_000,
    ("ndcg", 5, 1): 60, ("ndcg", 5, 2): 60,
    ("ap", 3, 1): 400, ("ap", 4, 1): 400, ("ap", 4, 2): 4_000, ("ap", 5, 1): 60, ("ap", 5, 2): 60,
    ("aucloss", 4, 1): 400, ("aucloss", 4, 2): 2_000, ("aucloss", 5, 1): 60, ("aucloss", 5, 2): 60,
}  # fmt: skip
CEILINGS, SIZES, KS = ("ndcg", "ap", "aucloss"), (3, 4, 8, 10, 20, 50), (1, 2, 3, 5)
COLUMNS = ["measure", "m", "k", "lower", "upper", "upper, exactly", "linear programs"]
MEANING = (
    "A learner can guarantee the lower bound times the best ranking's value, up to o(T), and no learner more than "
    "the upper bound. Queries without relevant items are skipped; for `aucloss`, whose value is 1 - aucloss, also "
    "those without irrelevant ones. Certificates prove both, in floating point unless a fraction is given. Bounds "
    "for fewer answers hold for more as well."
)
ANY = (
    "No learner can guarantee more, by adversaries with two blocks of items that look alike (floating point, "
    "rounded up). What can be guaranteed may be less. An empty cell has no ceiling below 1."
)


def bounds(name: str, m: int, k: int, programs: int) -> list[records.Cell]:
    """Return the row of a game, after checking its certificate. Bounds are rounded outwards."""
    found = best_factor(name, m, k, programs=programs)
    lower, upper = runpy.run_path(str(CHECKER))["check"](found.certificate)
    exact = str(found.exact_upper) if found.exact_upper else None
    return [f"`{name}`", m, k, floor(lower * 1e5) / 1e5, ceil(upper * 1e5 - 1e-4) / 1e5, exact, found.programs]


def ceilings(name: str, m: int) -> list[records.Cell]:
    """Return the row of ceilings of a measure."""
    found = [factor_ceiling(name, m, k) if k < m - 1 else None for k in KS]
    return [f"`{name}`", m, *(None if one is None else ceil(one * 1e4 - 1e-3) / 1e4 for one in found)]


def tables(rows: list[list[records.Cell]]) -> list[records.Table]:
    """Return the tables of the record."""
    above = [ceilings(name, m) for name in CEILINGS for m in SIZES]
    return [
        records.Table("Both bounds, binary relevance", [MEANING], COLUMNS, rows),
        records.Table("Ceilings for more items", [ANY], ["measure", "m", *(f"k = {k}" for k in KS)], above),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or record the bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one game: measure,m,k or measure,m,k,programs")
    records.add_option(parser, "best-factor")
    options = parser.parse_args(arguments)
    games = GAMES
    if options.only:
        name, m, k, *programs = options.only.split(",")
        games = {(name, int(m), int(k)): int(programs[0]) if programs else GAMES[name, int(m), int(k)]}
    rows = []
    for game, programs in games.items():
        rows.append(bounds(*game, programs))
        print(*rows[-1], flush=True)
    if options.record and not options.only:
        records.update(options.record, tables(rows))


if __name__ == "__main__":
    main()
