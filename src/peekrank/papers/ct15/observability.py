"""CT15's claims on observability with one answer: global of every pair of actions, local as `analyse` finds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.papers.definitions import MOST, STRICT, adjacent_swaps, all_pareto, globally_observable
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

PRECISION = ("p@1+sum", "p@2+sum", "p@3+sum")
HOPELESS = {"ndcg": 3, "ap": 3, "aucloss": 4}  # items in the paper's proofs
GRADED = {"dcg": Rate.TWO_THIRDS, "ndcg": Rate.LINEAR}
GRADES, GRADED_ITEMS = 3, 3


class ObservabilityResult(NamedTuple):
    """A game, and whether all feedback spans the loss difference of every pair of actions."""

    analysis: Analysis
    globally: bool


Found = dict[tuple[str, int], ObservabilityResult]


def reproduce(options: Options) -> Results:
    """Ask the definitions of every measure at k = 1."""
    sizes = range(2, MOST[options.quick] + 1)
    names = (*STRICT, *PRECISION, *HOPELESS)
    cases = [(name, m, 2) for m in sizes for name in names] + [(name, GRADED_ITEMS, GRADES) for name in GRADED]
    asked = {}
    for n, (name, m, grades) in enumerate(cases):
        found = analyse(ranking_game(name, m, 1, grades), progress=options.part(n, len(cases)).progress)
        asked[name, m, grades] = ObservabilityResult(found, globally_observable(found.game))
    binary = {(name, m): asked[name, m, 2] for m in sizes for name in names}
    graded = {name: asked[name, GRADED_ITEMS, GRADES] for name in GRADED}
    rows = [(f"`{name}`", *(str(binary[name, m].analysis.rate) for m in sizes)) for name in names]
    table = Table(("k = 1", *(f"m = {m}" for m in sizes)), rows)
    data = pl.DataFrame(
        [
            {"measure": name, "m": m, "grades": grades, "globally": a.globally,
             "locally": a.analysis.locally_observable, "rate": str(a.analysis.rate)}
            for (name, m, grades), a in asked.items()
        ]
    )  # fmt: skip
    return Results([*claims(binary), *graded_claims(graded)], {"rates": table}, data={"observability": data})


def claims(found: Found) -> Iterator[Claim]:
    """What the paper says, with and without a word on the number of objects."""
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
    told = tells_all(game)
    yield Claim(
        "section 3: top-1 feedback for Prec@1 is full information, m = 3",
        "the answer tells the loss of every ranking",
        "it does" if told else "it tells that of the shown one, not of others",
        told,
    )


def graded_claims(found: dict[str, ObservabilityResult]) -> Iterator[Claim]:
    """The claims that more grades change nothing."""
    for name, rate in GRADED.items():
        asked = found[name]
        yield Claim(
            f"Result 4: more grades do not change the rate of `{name}`, m = {GRADED_ITEMS}, {GRADES} grades",
            f"{rate}: {'globally, not locally' if rate is Rate.TWO_THIRDS else 'not globally'} observable",
            f"{asked.analysis.rate}: {'' if asked.globally else 'not '}globally, "
            f"{'' if asked.analysis.locally_observable else 'not '}locally observable",
            asked.globally == (rate is not Rate.LINEAR) and asked.analysis.rate == rate,
        )


def tells_all(game: Game) -> bool:
    """Whether what any action shows determines the loss of every action.

    >>> tells_all(ranking_game("p@1+sum", m=3, k=1)), tells_all(ranking_game("p@1+sum", m=3, k=3))
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
