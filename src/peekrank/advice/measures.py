"""Advice on learning a measure: how fast regret must grow, which learner to use, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, NamedTuple

from peekrank._util.text import pluralize
from peekrank._util.validate import check_int
from peekrank.advice import benchmarks
from peekrank.advice.choice import (
    Choice,
    Problem,
    choose,
    for_stable,
    growth,
    informative_from_round,
    is_informative,
    least,
    mean_loss,
)
from peekrank.games.rate import Rate, Verdict
from peekrank.learners.champion import Champion
from peekrank.measures import (
    DCG,
    ERR,
    NDCG,
    RBP,
    AUCLoss,
    AveragePrecision,
    Hit,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
)
from peekrank.measures import measure as measure_named
from peekrank.measures.sanity import prefers_relevant_first
from peekrank.spec import format_spec
from peekrank.types import Learner, Measure

_LONGEST = 10**12  # the longest horizon that learners accept


class Change(NamedTuple):
    """Another problem close by that is easier, and what it brings.

    The bound is None where no learner has one or where it says nothing.
    """

    what: str
    rate: Rate | None
    bound: float | None
    measure: str
    k: int
    horizon: int | None

    def __str__(self) -> str:
        bound = "" if self.bound is None else f", regret at most {_number(self.bound)}"
        return f"{self.what}: rate {self.rate or 'unknown'}{bound}"


class Evidence(NamedTuple):
    """What was measured of a learner that is advised, and whether its items may come and go.

    `lost` is what it lost per round after 100,000 rounds of stationary streams of ten items, by stream, and `few`
    per visit of the tutorial's setting, by the share of visitors who answer. They are empty where it was not
    measured. `measure` and `k` are those it was measured with: for other numbers of items and answers they tell
    which learner loses less rather than how much.
    """

    learner: str
    measure: str
    k: int
    lost: dict[str, float]
    few: dict[float, float]
    items_come_and_go: bool


@dataclass(frozen=True)
class Advice:
    """What to expect of a problem, and what to do; made by `advise`.

    Parameters
    ----------
    measure, m, k, horizon, grades
        The problem; no horizon where the number of rounds is not known.
    verdict
        The rate at which the regret of the best learner grows, on which basis, and why.
    learner
        Specification of the learner to take where relevance may change at will, or None if no learner fits: of
        those with the best guaranteed rate, the one that lost least on stationary streams.
    stable
        That of the learner to take where relevance is stable: what lost least there, of all that have a theorem.
    undecided
        That of a champion made of the two, where it is not known which to take; None where they cannot be one.
        It has no bound of its own.
    guarantee
        Growth of the bound of `learner`.
    bound
        That learner's bound on the expected regret after `horizon` rounds.
    worst
        The largest regret that any learner can have: `horizon` times the largest difference of two rankings.
    informative_from
        Horizon from about which the bound is below `worst`, in two digits; None: never.
    evidence
        What was measured of `stable` and of `learner`.
    changes
        What would help where the answer is bad.
    """

    measure: str
    m: int
    k: int
    horizon: int | None
    grades: int
    verdict: Verdict
    learner: str | None = None
    stable: str | None = None
    undecided: str | None = None
    guarantee: Rate | None = None
    bound: float | None = None
    worst: float | None = None
    informative_from: int | None = None
    evidence: tuple[Evidence, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing, being no smaller than the largest regret there can be."""
        return self.bound is not None and not is_informative(self.bound, self.worst)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should not be overlooked, in plain words."""
        rate, said = self.verdict.rate, []
        if rate is None:
            said.append("it is not known how fast regret must grow here")
        elif rate is Rate.LINEAR:
            said.append("hopeless: whatever the learner, regret can grow by a constant in every round")
        elif rate is Rate.ZERO:
            said.append("all rankings are worth the same: show any")
        if self.learner is None and rate not in (Rate.LINEAR, Rate.ZERO):
            said.append(f"no learner here fits {self.measure} at k = {self.k:,}")
        if rate and self.guarantee and self.guarantee.exponent > rate.exponent:
            said.append(f"the game allows {rate}, but this learner guarantees {self.guarantee} only")
        if self.vacuous and self.worst is not None:
            said.append(f"the bound says nothing here, as nobody can lose more than {_number(self.worst)}")
            said.append(
                f"it says something from about {pluralize(self.informative_from, 'round')} on"
                if self.informative_from
                else "it never does"
            )
        return tuple(said)

    def as_dict(self) -> dict[str, Any]:
        """All of it in numbers, texts, lists and dictionaries, for JSON."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "verdict": self.verdict._asdict(),
            "vacuous": self.vacuous,
            "notes": list(self.notes),
            "evidence": [found._asdict() for found in self.evidence],
            "changes": [change._asdict() for change in self.changes],
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """All of it in words: a label and what belongs to it, line by line."""
        rounds = "" if self.horizon is None else f", {pluralize(self.horizon, 'round')}"
        size = f"m = {pluralize(self.m, 'item')}, k = {self.k:,} revealed{rounds}"
        rate, basis, reason = self.verdict
        told = [
            ("problem", f"{self.measure}, {size}, grades 0 to {self.grades - 1}"),
            ("rate", f"{rate or 'unknown'} ({basis}): {reason}"),
            *self._learners(),
        ]
        if self.learner is not None:
            told.append(("certain", self._certain()))
        told += [(label, text) for label, text in (("usual", self._usual()), ("few answers", self._few())) if text]
        told += [("note", note) for note in self.notes]
        return told + [("change", str(change)) for change in self.changes]

    def _learners(self) -> Iterator[tuple[str, str]]:
        """Which one where."""
        when = ("where relevance is stable", "where it may change at will")
        if self.stable is None or self.stable == self.learner:
            when = ("", "whatever happens")
        items = {found.learner: found.items_come_and_go for found in self.evidence}
        how = ("items may come and go", "items may come and go at random")
        for name, where, changing in zip((self.stable, self.learner), when, how, strict=True):
            if name is not None and where:
                yield "learner", f"{name} {where}; {changing if items[name] else 'fixed items'}"
        if self.undecided is not None:
            yield (
                "learner",
                f"{self.undecided} where that is not known: switches on proof, has no bound; fixed items",
            )
        if self.learner is None:
            yield "learner", "none"

    def _certain(self) -> str:
        """The promise of the learner that has one."""
        most = "regret grows at most as"
        if self.bound is not None and self.worst is not None:
            most = f"regret at most {_number(self.bound)} of {_number(self.worst)} possible, growing as"
        kept = f"whatever happens, {most} {self.guarantee}"
        if self.stable is None or self.stable == self.learner:
            return kept
        return f"{kept} ({_name(self.learner)}); {_name(self.stable)} has a theorem for stable relevance only"

    def _usual(self) -> str:
        """What was lost on streams."""
        shown = [found for found in self.evidence if found.lost]
        if not shown:
            return ""
        problem = f"{shown[0].measure} lost per round, m = {evidence.ITEMS}, k = {shown[0].k}"
        streams = f"100,000 stationary rounds of {', '.join(shown[0].lost)}"
        figures = "; ".join(f"{_name(found.learner)} {evidence.figures(found.lost.values())}" for found in shown)
        return f"{problem}, {streams}: {figures} (experiments/choosing.py)"

    def _few(self) -> str:
        """What was lost where few answer."""
        shown = [found for found in self.evidence if found.few]
        if not shown:
            return ""
        shares = ", ".join(f"{share:.0%}".replace("%", " %") for share in shown[0].few)
        figures = "; ".join(f"{_name(found.learner)} {evidence.figures(found.few.values())}" for found in shown)
        return f"dcg lost per visit, 50,000 visits, {shares} answered: {figures}"

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows)


def advise(measure: str | Measure, m: int, k: int, horizon: int | None = None, grades: int = 2) -> Advice:
    """What to expect of learning a ranking, which learner to use, and what to change.

    Learners are chosen by proof and by evidence: the best guaranteed rate first, then what was lost on stationary
    streams (`peekrank.advice.benchmarks`), which is why they are not told the horizon where they lose less without.

    Parameters
    ----------
    measure
        What rankings are judged by, or its name.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    horizon
        Number of rounds; None if it is not known. Bounds are numbers only where it is.
    grades
        Number of relevance grades, 0 to grades - 1.

    >>> advice = advise("dcg", m=10, k=1, horizon=100_000)
    >>> advice.stable, advice.learner, round(advice.bound), advice.vacuous
    ('doubtsort:measure=dcg', 'marginftrl:measure=dcg', 12099, False)

    References
    ----------
    The bounds are those of the learners' pages; the rates are those of `peekrank.games`.
    """
    judge = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1, 10**8)
    check_int("k", k, 1, m)
    if horizon is not None:
        check_int("horizon", horizon, 1, _LONGEST)
    check_int("grades", grades, 2, 256)
    if not prefers_relevant_first(judge, int(m), int(grades) - 1):
        raise ValueError(
            f"{judge} rewards a ranking that does not have the most relevant items on top, where learners put "
            "them: its weights must not rise from position to position, nor its gains fall with relevance"
        )
    p = Problem(judge, int(m), int(k), horizon if horizon is None else int(horizon), int(grades))
    advice = Advice(str(judge), p.m, p.k, p.horizon, p.grades, p.verdict)
    choice = choose(p)
    if choice is not None:
        stable = None if p.verdict.rate is Rate.ZERO else for_stable(p)
        advised = dict.fromkeys(found for found in (stable, choice.learner) if found is not None)
        advice = replace(
            advice,
            learner=text_of(choice.learner),
            stable=None if stable is None else format_spec(stable),
            undecided=_champion(tuple(advised), p),
            guarantee=growth(choice.learner, p.shape),
            bound=choice.bound,
            worst=None if p.horizon is None else p.horizon * choice.difference,
            informative_from=informative_from_round(choice, p),
            evidence=tuple(_evidence(found, p) for found in advised),
        )
    return replace(advice, changes=tuple(_changes(p, advice)))


def _champion(members: tuple[Learner, ...], p: Problem) -> str | None:
    """A champion made of the learners that are advised, if there are two and they can be members."""
    try:
        return format_spec(Champion(p.measure, members, p.grades - 1)) if len(members) > 1 else None  # type: ignore[arg-type]
    except ValueError:
        return None


def _evidence(learner: Learner, p: Problem) -> Evidence:
    come_and_go, name = learner.kernels.set_items is not None, format_spec(learner)
    if mean_loss(learner, p) == inf or p.verdict.rate is Rate.ZERO:
        return Evidence(name, str(p.measure), p.k, {}, {}, come_and_go)
    game, told = p.measured, learner.horizon is not None
    few = evidence.few(learner.name) if game == ("dcg", 1) and not told else {}
    return Evidence(name, *game, evidence.lost(learner.name, *game, told=told), few, come_and_go)


def _changes(p: Problem, advice: Advice) -> Iterator[Change]:
    """What would help: more answers, another measure, more rounds."""
    rate, ks = advice.verdict.rate, set()
    if rate in (None, Rate.LINEAR, Rate.TWO_THIRDS):
        wanted = Rate.SQRT if rate is Rate.TWO_THIRDS else Rate.TWO_THIRDS
        ks.add(least(p.k + 1, p.m, lambda k: _at_most(p._replace(k=k).verdict.rate, wanted)))
    if advice.vacuous:
        ks.add(least(p.k + 1, p.m, lambda k: _telling(choose(p._replace(k=k)), p.horizon) is not None))
    for k in sorted(k for k in ks if k):
        yield _change(p._replace(k=k), f"reveal k = {k:,}")
    if advice.learner is None and rate is not Rate.ZERO:
        for measure in _stand_ins(p):
            yield _change(p._replace(measure=measure), f"learn {measure}")
    elif rate is Rate.TWO_THIRDS and isinstance(p.measure, DCG | RBP):
        shorter = replace(p.measure, cutoff=p.k)
        yield _change(p._replace(measure=shorter), f"learn {shorter}")
    if advice.vacuous and advice.informative_from and advice.informative_from <= _LONGEST:
        yield _change(
            p._replace(horizon=advice.informative_from), f"play {pluralize(advice.informative_from, 'round')}"
        )


def _change(p: Problem, what: str) -> Change:
    choice = choose(p)
    if choice is not None:
        what += f" with {format_spec(choice.learner)}"
    return Change(what, p.verdict.rate, _telling(choice, p.horizon), str(p.measure), p.k, p.horizon)


def _telling(choice: Choice | None, horizon: int | None) -> float | None:
    """The bound, if it says something."""
    return (
        choice.bound if choice and horizon and is_informative(choice.bound, horizon * choice.difference) else None
    )


def _stand_ins(p: Problem) -> tuple[Measure, ...]:
    """The closest measures that can be learned item by item."""
    match p.measure:
        case NDCG(cutoff=n, gains=gains):
            return (DCG(n, gains),)
        case AveragePrecision():
            return (DCG(), Precision(p.k, mean=False)) if p.k < p.m else (DCG(),)
        case AUCLoss() | PairwiseLoss():
            return (PairwiseLoss() if p.grades == 2 else SumLoss(),)
        case ReciprocalRank(n) | ERR(n):
            return (DCG(n),)
        case Recall(n) | Hit(n):
            return (Precision(n, mean=False),)
    return ()


def _at_most(rate: Rate | None, wanted: Rate) -> bool:
    return rate is not None and rate.exponent <= wanted.exponent


def _name(spec: str | None) -> str:
    """The name of a learner, without its parameters."""
    return (spec or "").partition(":")[0]


def _number(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.3g}"
