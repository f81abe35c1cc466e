"""ZT's classification: cells, neighbours and rates of its measures for every k, by `analyse`.

The rate determines local observability: it holds for sqrt(T) and 0, and fails for T^(2/3) and T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.papers.definitions import MAX_ITEMS, STRICT, adjacent_swaps, all_pareto, exchanges
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

LINEAR = ("aucloss", "ap", "ndcg")

Found = dict[tuple[str, int], list[Analysis]]  # by measure and m: for k = 1, 2, ..., m


def printed_rate(name: str, m: int, k: int) -> Rate | None:
    """Return the rate that ZT states for a measure, or None if ZT leaves it open.

    >>> str(printed_rate("dcg", 5, 3)), str(printed_rate("p@2+sum", 5, 1)), printed_rate("ndcg", 5, 2)
    ('T^(2/3)', 'sqrt(T)', None)
    """
    if name.startswith("p@"):
        return Rate.SQRT
    if name in STRICT:
        return Rate.SQRT if k >= m - 1 else Rate.TWO_THIRDS
    return Rate.LINEAR if k == 1 else None


def analyses(options: Options) -> Found:
    """Analyse every measure for every m and k, and NDCG, AP and AUC for k = 1, the only case that ZT states."""
    found: Found = {}
    sizes = range(2, MAX_ITEMS[options.quick] + 1)
    cases = [(name, m) for m in sizes for name in (*STRICT, *(f"p@{n}+sum" for n in range(1, m + 1)), *LINEAR)]
    for n, (name, m) in enumerate(cases):
        progress = options.part(n, len(cases)).progress
        for k in range(1, (1 if name in LINEAR else m) + 1):
            known = found[name, m][0].cells if k > 1 else None
            found.setdefault((name, m), []).append(analyse(ranking_game(name, m, k), known, progress))
    return found


def reproduce(options: Options) -> Results:
    """Classify everything."""
    found, max_m = analyses(options), MAX_ITEMS[options.quick]
    rows = [
        (f"`{name}`", m, *(str(a.rate) for a in games), *[""] * (max_m - len(games)))
        for (name, m), games in found.items()
    ]
    heads = ("measure", "m", *(f"k = {k}" for k in range(1, max_m + 1)))
    data = pl.DataFrame(
        [
            {"measure": name, "m": m, "k": k, "printed": _text(printed_rate(name, m, k)), "here": str(a.rate)}
            for (name, m), games in found.items()
            for k, a in enumerate(games, 1)
        ]
    )
    return Results(list(claims(found)), {"rates": Table(heads, rows)}, data={"rates": data})


def claims(found: Found) -> Iterator[Claim]:
    """Yield claims on rates, then on cells and neighbours."""
    sizes = sorted({m for _, m in found})
    span = f"m = {sizes[0]} to {sizes[-1]}"
    for where, name in (("Corollary 7", "sumloss"), ("equation 5", "pairwiseloss"), ("Corollary 8", "dcg")):
        yield _rates(
            found, f"Theorem 6, {where}, section 4 (1): `{name}`, {span}, every k",
            "T^(2/3) for k <= m - 2, where local observability fails, sqrt(T) for k = m - 1, m, where it holds",
            [(name, m) for m in sizes],
        )  # fmt: skip
    yield _rates(
        found, f"Theorem 12, section 4 (2): P@n, n < m, {span}, every k", "sqrt(T): local observability holds",
        [(f"p@{n}+sum", m) for m in sizes for n in range(1, m)],
    )  # fmt: skip
    yield _rates(
        found,
        f"section 4 (2), no word on n: n = m, {span}, every k",
        "sqrt(T)",
        [(f"p@{m}+sum", m) for m in sizes],
    )
    yield _rates(
        found, "section 1: AUC, NDCG and AP at k = 1, m = 4", "T", [(name, 4) for name in LINEAR], only_first=True
    )
    yield _rates(
        found, f"section 1: the same with no word on m, {span}", "T",
        [(name, m) for m in sizes for name in LINEAR], only_first=True,
    )  # fmt: skip
    strict = [(name, m) for m in sizes for name in STRICT]
    precise = [(f"p@{n}+sum", m) for m in sizes for n in range(1, m)]
    yield _cells(
        found, "Lemmas 3 and 9: each action is Pareto-optimal", "all", [*strict, *precise],
        lambda _, __, a: all_pareto(a),
    )  # fmt: skip
    yield _cells(
        found, "Lemmas 4 and 5: SumLoss, PairwiseLoss, DCG: neighbours swap two adjacent items, N+ is the two",
        "m - 1 neighbours, N+ of 2", strict, lambda _, m, a: adjacent_swaps(a, m),
    )  # fmt: skip
    yield _cells(
        found, "Lemmas 10 and 11: P@n: neighbours exchange one of the first n, N+ is their two classes",
        "C(m, n) classes, n (m - n) neighbours, N+ of 2 n! (m - n)!", precise,
        lambda name, m, a: exchanges(a, m, int(name.removeprefix("p@").removesuffix("+sum"))),
    )  # fmt: skip


def _rates(
    found: Found, what: str, expected: str, cases: list[tuple[str, int]], *, only_first: bool = False
) -> Claim:
    wrong, right = [], 0
    for name, m in cases:
        for k, analysis in enumerate(found[name, m][: 1 if only_first else None], 1):
            if analysis.rate == printed_rate(name, m, k):
                right += 1
            else:
                wrong.append(f"{name} at m = {m}, k = {k}: {_text(analysis.rate)}")
    here = f"{count(right, right + len(wrong))} games" + (f"; {_some(wrong)}" if wrong else "")
    return Claim(what, expected, here, not wrong)


def _cells(
    found: Found,
    what: str,
    expected: str,
    cases: list[tuple[str, int]],
    test: Callable[[str, int, Analysis], bool],
) -> Claim:
    wrong = [f"{name} at m = {m}" for name, m in cases if not test(name, m, found[name, m][0])]
    here = f"{count(len(cases) - len(wrong), len(cases))} games" + (f"; not {_some(wrong)}" if wrong else "")
    return Claim(what, expected, here, not wrong)


def _some(wrong: list[str]) -> str:
    return ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")


def _text(rate: Rate | None) -> str:
    return "open" if rate is None else str(rate)
