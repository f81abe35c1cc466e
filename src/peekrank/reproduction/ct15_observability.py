"""CT15's claims on observability with one answer, from the definitions."""

from __future__ import annotations

from collections.abc import Iterator

from peekrank.games.classify import Analysis, analyse
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.reproduction.record import Claim, How, Made, Table, count

STRICT = ("sumloss", "pairwiseloss", "dcg")
PRECISION = ("p@1", "p@2", "p@3")
HOPELESS = {"ndcg": 3, "ap": 3, "auc": 4}  # items in the paper's proofs
MOST = {True: 4, False: 5}  # items, quick or not

Found = dict[tuple[str, int], Analysis]


def make(how: How) -> Made:
    """Analyse every measure at k = 1."""
    sizes = range(2, MOST[how.quick] + 1)
    cases = [(name, m) for m in sizes for name in (*STRICT, *PRECISION, *HOPELESS)]
    found: Found = {}
    for n, (name, m) in enumerate(cases):
        found[name, m] = analyse(ranking_game(name, m, k=1), progress=how.part(n, len(cases)).progress)
    names = (*STRICT, *PRECISION, *HOPELESS)
    rows = [(f"`{name}`", *(str(found[name, m].rate) for m in sizes)) for name in names]
    return Made(list(claims(found)), {"rates": Table(("k = 1", *(f"m = {m}" for m in sizes)), rows)})


def claims(found: Found) -> Iterator[Claim]:
    """What the paper says, with and without a word on the number of objects."""
    sizes = sorted({m for _, m in found})
    span = f"m = {sizes[0]} to {sizes[-1]}"
    easy = [(name, m) for name in (*STRICT, *PRECISION) for m in sizes]
    yield _all(
        found, "Theorem 1: SumLoss, PairwiseLoss, DCG and Prec@k are globally observable", span, easy, "global"
    )
    three = [(name, 3) for name in STRICT]
    yield _none(
        found, "Theorem 4: SumLoss, PairwiseLoss and DCG are not locally observable", "m = 3", three, "local"
    )
    every = [(name, m) for name in STRICT for m in sizes]
    yield _none(found, "abstract, Result 1: the same, with no word on m", span, every, "local")
    proofs = list(HOPELESS.items())
    yield _none(
        found, "Lemma 11: NDCG, MAP and AUC are not globally observable", "m = 3, AUC m = 4", proofs, "global"
    )
    every = [(name, m) for name in HOPELESS for m in sizes]
    yield _none(found, "abstract, Result 3: the same, with no word on m", span, every, "global")
    yield _all(found, "appendix 15.1: AUC is globally observable", "m = 3", [("auc", 3)], "global")
    game = found["p@1", 3].game
    told = tells_all(game)
    yield Claim(
        "section 3: top-1 feedback for Prec@1 is full information, m = 3",
        "the answer tells the loss of every ranking",
        "it does" if told else "it tells that of the shown one, not of others",
        told,
    )


def tells_all(game: Game) -> bool:
    """Whether what any action shows determines the loss of every action.

    >>> tells_all(ranking_game("p@1", m=3, k=1)), tells_all(ranking_game("p@1", m=3, k=3))
    (False, True)
    """
    for row in game.signals:
        for symbol in set(row.tolist()):
            losses = game.loss[:, row == symbol]
            if (losses != losses[:, :1]).any():
                return False
    return True


def _all(found: Found, what: str, span: str, cases: list[tuple[str, int]], kind: str) -> Claim:
    wrong = [case for case in cases if not _observable(found[case], kind)]
    return _claim(what, span, f"{kind} observability in all games", cases, wrong, "have it")


def _none(found: Found, what: str, span: str, cases: list[tuple[str, int]], kind: str) -> Claim:
    wrong = [case for case in cases if _observable(found[case], kind) is not False]
    return _claim(what, span, f"{kind} observability in no game", cases, wrong, "lack it")


def _observable(found: Analysis, kind: str) -> bool | None:
    return found.globally_observable if kind == "global" else found.locally_observable


def _claim(
    what: str, span: str, expected: str, cases: list[tuple[str, int]], wrong: list[tuple[str, int]], verb: str
) -> Claim:
    here = f"{count(len(cases) - len(wrong), len(cases))} {verb}"
    if wrong:
        here += "; not " + ", ".join(f"{name} at m = {m}" for name, m in wrong)
    return Claim(f"{what}, {span}", expected, here, not wrong)
