"""CT15's claims on observability with one answer: global for every pair of actions, local by `analyse`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.papers.definitions import MAX_ITEMS, STRICT, adjacent_swaps, all_pareto, globally_observable
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

PRECISION = ("p@1+sum", "p@2+sum", "p@3+sum")
HOPELESS = {"ndcg": 3, "ap": 3, "aucloss": 4}  # items in the paper's proofs
GRADED = {"dcg": Rate.TWO_THIRDS, "ndcg": Rate.LINEAR}
GRADES, GRADED_ITEMS = 3, 3


class ObservabilityResult(NamedTuple):
    """An analysis, and whether all feedback spans the loss difference of every pair of actions."""

    analysis: Analysis
    globally: bool


Found = dict[tuple[str, int], ObservabilityResult]


def reproduce(options: Options) -> Results:
    """Apply the definitions to every measure at k = 1."""
    sizes = range(2, MAX_ITEMS[options.quick] + 1)
    names = (*STRICT, *PRECISION, *HOPELESS)
    cases = [(name, m, 2) for m in sizes for name in names] + [(name, GRADED_ITEMS, GRADES) for name in GRADED]
    results = {}
    for n, (name, m, grades) in enumerate(cases):
        analysis = analyse(ranking_game(name, m, 1, grades), progress=options.part(n, len(cases)).progress)
        results[name, m, grades] = ObservabilityResult(analysis, globally_observable(analysis.game))
    binary = {(name, m): results[name, m, 2] for m in sizes for name in names}
    graded = {name: results[name, GRADED_ITEMS, GRADES] for name in GRADED}
    rows = [(f"`{name}`", *(str(binary[name, m].analysis.rate) for m in sizes)) for name in names]
    table = Table(("k = 1", *(f"m = {m}" for m in sizes)), rows)
    data = pl.DataFrame(
        [
            {"measure": name, "m": m, "grades": grades, "globally": a.globally,
             "locally": a.analysis.locally_observable, "rate": str(a.analysis.rate)}
            for (name, m, grades), a in results.items()
        ]
    )  # fmt: skip
    return Results([*claims(binary), *graded_claims(graded)], {"rates": table}, data={"observability": data})


def claims(found: Found) -> Iterator[Claim]:
    """Yield the paper's claims, for the sizes of its proofs and for all sizes."""
    sizes = sorted({m for _, m in found})
    span = f"m = {sizes[0]} to {sizes[-1]}"
    yield _all(found, "Theorem 1: SumLoss is globally observable", span, [("sumloss", m) for m in sizes])
    others = [(name, m) for name in (*STRICT[1:], *PRECISION) for m in sizes]
    yield _all(found, "section 8, equation 2: so are DCG, Prec@k and PairwiseLoss", span, others)
    strict = [(name, m) for name in STRICT for m in sizes]
    for what, test in (
        ("Lemma 2: each action of SumLoss is Pareto-optimal; DCG, PairwiseLoss too", lambda a, _: all_pareto(a)),
        ("Lemma 3: neighbours of the same swap two objects, one just before the other", adjacent_swaps),
    ):
        right = [test(found[case].analysis, case[1]) for case in strict]
        yield Claim(f"{what}, {span}", "in all games", f"in {count(sum(right), len(right))}", all(right))
    yield _none(found, "Theorem 4: SumLoss is not locally observable", "m = 3", [("sumloss", 3)], "local")
    also = [(name, 3) for name in STRICT[1:]]
    yield _none(found, "14.1.1, equation 2: nor are DCG and PairwiseLoss", "m = 3", also, "local")
    yield _none(found, "Result 1: T^(2/3) for all three, with no word on m", span, strict, "local")
    proofs = list(HOPELESS.items())
    yield _none(
        found, "Lemma 11: NDCG, MAP and AUC are not globally observable", "m = 3, AUC m = 4", proofs, "global"
    )
    every = [(name, m) for name in HOPELESS for m in sizes]
    yield _none(found, "Result 3: the same, with no word on m", span, every, "global")
    yield _all(found, "appendix 15.1: AUC is globally observable", "m = 3", [("aucloss", 3)])
    game = found["p@1+sum", 3].analysis.game
    full = reveals_all(game)
    yield Claim(
        "section 3: top-1 feedback for Prec@1 is full information, m = 3",
        "the answer determines the loss of every ranking",
        "it does" if full else "it determines that of the shown ranking only",
        full,
    )


def graded_claims(found: dict[str, ObservabilityResult]) -> Iterator[Claim]:
    """Yield the claims that more grades change nothing."""
    for name, rate in GRADED.items():
        result = found[name]
        yield Claim(
            f"Result 4: more grades do not change the rate of `{name}`, m = {GRADED_ITEMS}, {GRADES} grades",
            f"{rate}: {'globally, not locally' if rate is Rate.TWO_THIRDS else 'not globally'} observable",
            f"{result.analysis.rate}: {'' if result.globally else 'not '}globally, "
            f"{'' if result.analysis.locally_observable else 'not '}locally observable",
            result.globally == (rate is not Rate.LINEAR) and result.analysis.rate == rate,
        )


def reveals_all(game: Game) -> bool:
    """Return whether the feedback of any action determines the loss of every action.

    >>> reveals_all(ranking_game("p@1+sum", m=3, k=1)), reveals_all(ranking_game("p@1+sum", m=3, k=3))
    (False, True)
    """
    for row in game.signals:
        for symbol in set(row.tolist()):
            losses = game.loss[:, row == symbol]
            if (losses != losses[:, :1]).any():
                return False
    return True


def _all(found: Found, what: str, span: str, cases: list[tuple[str, int]]) -> Claim:
    wrong = [case for case in cases if not found[case].globally]
    return _claim(what, span, "global observability in all games", cases, wrong, "have it")


def _none(found: Found, what: str, span: str, cases: list[tuple[str, int]], kind: str) -> Claim:
    wrong = [
        case
        for case in cases
        if (found[case].globally if kind == "global" else found[case].analysis.locally_observable is not False)
    ]
    return _claim(what, span, f"{kind} observability in no game", cases, wrong, "lack it")


def _claim(
    what: str, span: str, expected: str, cases: list[tuple[str, int]], wrong: list[tuple[str, int]], verb: str
) -> Claim:
    here = f"{count(len(cases) - len(wrong), len(cases))} {verb}"
    if wrong:
        here += "; not " + ", ".join(f"{name} at m = {m}" for name, m in wrong)
    return Claim(f"{what}, {span}", expected, here, not wrong)
