"""Advice on learning a measure: the growth of regret, the learner to use, and changes that would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil, inf
from typing import Any, NamedTuple

from peekrank._util.extras import MissingExtraError
from peekrank._util.text import pluralize
from peekrank._util.validate import check_int
from peekrank.advice import benchmarks
from peekrank.advice.changes import MAX_HORIZON, Change, changes, number_text
from peekrank.advice.choice import (
    Problem,
    choose,
    choose_for_stationary,
    growth,
    informative_from_round,
    is_informative,
    mean_loss,
)
from peekrank.games.ceilings import factor_ceiling
from peekrank.games.feedback import MEANINGS as FEEDBACK
from peekrank.games.feedback import Feedback, check_feedback
from peekrank.games.lower_bounds import lower_bound
from peekrank.games.rates import Rate, Verdict
from peekrank.learners.champion import Champion
from peekrank.learners.doubtsort import DoubtSort
from peekrank.learners.mixed.learner import Mixed
from peekrank.measures import measure as measure_named
from peekrank.measures.sanity import prefers_relevant_first
from peekrank.spec import format_spec
from peekrank.types import Learner, Measure

_ALL = 0.9999  # a larger share of the best is not worth a sentence
_SMALL = 4  # items: learners of finite games take their 24 rankings as actions


class Evidence(NamedTuple):
    """Benchmarks of an advised learner, and whether it supports items that come and go.

    `loss_by_stream` is its loss per round over 100,000 rounds of stationary streams of ten items.
    `loss_by_response_rate` is its loss per visit in the tutorial's setting, by the share of visitors who answer.
    Both are empty if not measured. `measure` and `k` are those of the benchmark: for other numbers of items and
    answers, the figures show which learner loses less rather than how much.
    """

    learner: str
    measure: str
    k: int
    loss_by_stream: dict[str, float]
    loss_by_response_rate: dict[float, float]
    items_come_and_go: bool


@dataclass(frozen=True)
class Advice:
    """Advice on a problem, as returned by `advise`.

    Parameters
    ----------
    measure, m, k, horizon, grades
        The problem. The horizon is None if the number of rounds is unknown.
    verdict
        Growth rate of the best possible regret, its basis and the reason.
    learner
        Specification of the learner to use if relevance may change arbitrarily, or None if no learner fits: among
        those with the best guaranteed rate, the one with the smallest loss on stationary streams.
    stationary
        Specification of the learner to use if relevance is stationary: the one with the smallest loss there, among
        all that have a theorem.
    hedged
        Specification of a champion of the two, to use if you do not know which case applies. It has no bound of
        its own. None if the two cannot form a champion.
    scored
        Specification of mixed, to use if the app has a score for each item, or None if it does not fit.
    guarantee
        Growth rate of the bound of `learner`.
    bound
        Bound of `learner` on the expected regret after `horizon` rounds.
    max_regret
        Largest possible regret of any learner: `horizon` times the largest difference of two rankings.
    informative_from
        Approximate horizon from which the bound is below `max_regret`, in two digits. None if it never is.
    evidence
        Benchmarks of `stationary` and of `learner`.
    changes
        Similar problems that are easier.
    factor_ceiling
        A share of the best ranking's value that no learner can exceed, if the rate is T and a share is known.
        Queries without relevant items are skipped.
    lower_bound
        Expected regret that no learner can avoid on some i.i.d. relevance, if a theorem gives it for `horizon`.
    feedback
        Kind of feedback on the first k items.
    """

    measure: str
    m: int
    k: int
    horizon: int | None
    grades: int
    verdict: Verdict
    learner: str | None = None
    stationary: str | None = None
    hedged: str | None = None
    scored: str | None = None
    guarantee: Rate | None = None
    bound: float | None = None
    max_regret: float | None = None
    informative_from: int | None = None
    evidence: tuple[Evidence, ...] = ()
    changes: tuple[Change, ...] = ()
    factor_ceiling: float | None = None
    lower_bound: float | None = None
    feedback: Feedback = "answers"

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the largest possible regret."""
        return self.bound is not None and not is_informative(self.bound, self.max_regret)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the rate, the learner and the bound."""
        rate, notes = self.verdict.rate, []
        if rate is None:
            notes.append("the growth of regret in this game is unknown")
        elif rate is Rate.LINEAR:
            notes.append("hopeless: for every learner, regret can grow by a constant in every round")
            if self.factor_ceiling is not None:
                share = f"{ceil(self.factor_ceiling * 10_000) / 100:.2f} %"
                notes.append(
                    f"{self.measure} cannot be learned from {self.k:,} of {self.m:,} answers: no learner can "
                    f"promise more than {share} of the best (queries without relevant items are skipped)"
                )
        elif rate is Rate.ZERO:
            notes.append("all rankings have the same value: show any")
        if self.feedback in ("sum", "any") and self.k > 1 and rate is not Rate.ZERO:
            notes.append(f"one number for all {self.k:,} items is not an answer for each: do not copy it to them")
        if self.feedback != "answers" and self.learner is None and rate not in (Rate.LINEAR, Rate.ZERO):
            small = "; learners of finite games can use this feedback (docs/games/feedback.md)"
            notes.append(f"all learners need an answer for each item{small if self.m <= _SMALL else ''}")
        elif self.learner is None and rate not in (Rate.LINEAR, Rate.ZERO):
            notes.append(f"no learner of this package fits {self.measure} at k = {self.k:,}")
        if rate and self.guarantee and self.guarantee.exponent > rate.exponent:
            notes.append(f"the game allows {rate}, but this learner guarantees only {self.guarantee}")
        if self.vacuous and self.max_regret is not None:
            notes.append(f"the bound is vacuous: no learner can lose more than {number_text(self.max_regret)}")
            notes.append(
                f"it is informative from about {pluralize(self.informative_from, 'round')} on"
                if self.informative_from
                else "it is vacuous at every horizon"
            )
        return tuple(notes)

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as a dictionary for JSON."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "verdict": self.verdict._asdict(),
            "vacuous": self.vacuous,
            "notes": list(self.notes),
            "evidence": [evidence._asdict() for evidence in self.evidence],
            "changes": [change._asdict() for change in self.changes],
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Lines of the advice in words, each a label and a text."""
        rounds = "" if self.horizon is None else f", {pluralize(self.horizon, 'round')}"
        size = f"m = {pluralize(self.m, 'item')}, k = {self.k:,} revealed{rounds}"
        rate, basis, reason = self.verdict
        lines = [
            ("problem", f"{self.measure}, {size}, grades 0 to {self.grades - 1}"),
            *([("feedback", FEEDBACK[self.feedback])] if self.feedback != "answers" else []),
            ("rate", f"{rate or 'unknown'} ({basis}): {reason}"),
            *self._learners(),
        ]
        if self.learner is not None:
            lines.append(("guarantee", self._guarantee_text()))
        if self.lower_bound is not None:
            lowest = number_text(self.lower_bound)
            lines.append(("limit", f"no learner can guarantee less than {lowest} (docs/theory/lower-bounds.md)"))
        measured = (("benchmark", self._stream_text()), ("few answers", self._response_rate_text()))
        lines += [(label, text) for label, text in measured if text]
        lines += [("note", note) for note in self.notes]
        return lines + [("change", str(change)) for change in self.changes]

    def _learners(self) -> Iterator[tuple[str, str]]:
        """Yield a line for each learner, with the case it is for."""
        cases = ("if relevance is stationary", "if relevance may change arbitrarily")
        if self.stationary is None or self.stationary == self.learner:
            cases = ("", "in every case")
        flexible = {evidence.learner: evidence.items_come_and_go for evidence in self.evidence}
        items = ("items may come and go", "items may come and go at random")
        for name, case, changing in zip((self.stationary, self.learner), cases, items, strict=True):
            if name is not None and case:
                yield "learner", f"{name} {case}; {changing if flexible[name] else 'fixed items'}"
        if self.hedged is not None:
            yield (
                "learner",
                f"{self.hedged} if you do not know which; no bound of its own; fixed items",
            )
        if self.scored is not None:
            yield "learner", f"{self.scored} if your app has a score to start from"
        if self.learner is None:
            yield "learner", "none"

    def _guarantee_text(self) -> str:
        """Describe the bound of the learner."""
        limit = "regret grows at most as"
        if self.bound is not None and self.max_regret is not None:
            most, possible = number_text(self.bound), number_text(self.max_regret)
            limit = f"regret at most {most} of {possible} possible, growing as"
        guarantee = f"in every case, {limit} {self.guarantee}"
        if self.stationary is None or self.stationary == self.learner:
            return guarantee
        other = f"{_name(self.stationary)} has a theorem for stationary relevance only"
        return f"{guarantee} ({_name(self.learner)}); {other}"

    def _stream_text(self) -> str:
        """Describe the losses on streams."""
        measured = [(_name(one.learner), one.loss_by_stream) for one in self.evidence if one.loss_by_stream]
        if not measured:
            return ""
        first = next(one for one in self.evidence if one.loss_by_stream)
        problem = f"{first.measure} lost per round, m = {benchmarks.ITEMS}, k = {first.k}"
        streams = f"100,000 stationary rounds of {', '.join(first.loss_by_stream)}"
        figures = "; ".join(f"{name} {benchmarks.figures(losses.values())}" for name, losses in measured)
        return f"{problem}, {streams}: {figures} (experiments/choosing.py)"

    def _response_rate_text(self) -> str:
        """Describe the losses by response rate."""
        measured = [(_name(e.learner), e.loss_by_response_rate) for e in self.evidence if e.loss_by_response_rate]
        if not measured:
            return ""
        shares = ", ".join(f"{share:.0%}".replace("%", " %") for share in measured[0][1])
        figures = "; ".join(f"{name} {benchmarks.figures(losses.values())}" for name, losses in measured)
        return f"dcg lost per visit, 50,000 visits, {shares} answered: {figures}"

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows)


def advise(
    measure: str | Measure,
    m: int,
    k: int,
    horizon: int | None = None,
    grades: int = 2,
    feedback: Feedback = "answers",
) -> Advice:
    """Predict how regret grows for a problem, choose a learner, and suggest changes that would help.

    The choice rests on proofs and measurements: the best guaranteed rate first, then the smallest loss on
    stationary streams (`peekrank.advice.benchmarks`). The advice omits the horizon if a learner loses less without
    it.

    Parameters
    ----------
    measure
        Measure of a ranking, or its name.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    horizon
        Number of rounds, or None if it is unknown. The bound is a number only if the horizon is known.
    grades
        Number of relevance grades, 0 to grades - 1.
    feedback
        Kind of feedback on the first k items: "answers", "order", "choice", "first", "sum" or "any".

    >>> advice = advise("dcg", m=10, k=1, horizon=100_000)
    >>> advice.stationary, advice.learner, round(advice.bound), advice.vacuous
    ('doubtsort:measure=dcg', 'marginftrl:measure=dcg', 12099, False)

    References
    ----------
    The bounds are those of the learners' pages; the rates are those of `peekrank.games`.
    """
    parsed = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1, 10**8)
    check_int("k", k, 1, m)
    if horizon is not None:
        check_int("horizon", horizon, 1, MAX_HORIZON)
    check_int("grades", grades, 2, 256)
    if not prefers_relevant_first(parsed, int(m), int(grades) - 1):
        raise ValueError(
            f"{parsed} rewards rankings without the most relevant items on top, where all learners put them: its "
            "weights must not increase with the position, and its gains must not decrease with relevance"
        )
    rounds = horizon if horizon is None else int(horizon)
    p = Problem(parsed, int(m), int(k), rounds, int(grades), check_feedback(feedback))
    advice = Advice(str(parsed), p.m, p.k, p.horizon, p.grades, p.verdict, factor_ceiling=_ceiling(p))
    advice = replace(advice, feedback=p.feedback)
    choice = choose(p)
    if choice is not None:
        stationary = None if p.verdict.rate is Rate.ZERO else choose_for_stationary(p)
        advised = dict.fromkeys(one for one in (stationary, choice.learner) if one is not None)
        advice = replace(
            advice,
            learner=format_spec(choice.learner),
            stationary=None if stationary is None else format_spec(stationary),
            hedged=_champion(tuple(advised), p),
            scored=_scored(stationary, p),
            guarantee=growth(choice.learner, p.shape),
            bound=choice.bound,
            lower_bound=None if p.horizon is None else lower_bound(p.measure, p.m, p.k, p.horizon, p.grades),
            max_regret=None if p.horizon is None else p.horizon * choice.difference,
            informative_from=informative_from_round(choice, p),
            evidence=tuple(_evidence(one, p) for one in advised),
        )
    return replace(advice, changes=tuple(changes(p, advice)))


def _ceiling(p: Problem) -> float | None:
    """Return a share of the best value that no learner can exceed, or None if none below 1 is known."""
    if p.verdict.rate is not Rate.LINEAR:
        return None
    try:
        found = factor_ceiling(p.measure, p.m, p.k)
    except MissingExtraError:
        return None
    return found if found is not None and found < _ALL else None


def _scored(stationary: Learner | None, p: Problem) -> str | None:
    """Return mixed where it explores as the learner for stationary relevance does, and positions do not tie."""
    if not isinstance(stationary, DoubtSort) or p.benchmark[0] != "dcg":
        return None
    return format_spec(Mixed(stationary.measure, high=float(p.grades - 1)))


def _champion(members: tuple[Learner, ...], p: Problem) -> str | None:
    """Return a champion of the advised learners, if there are two and both can be members."""
    try:
        if len(members) < 2:
            return None
        return format_spec(Champion(p.measure, members, p.grades - 1))  # type: ignore[arg-type]
    except ValueError:
        return None


def _evidence(learner: Learner, p: Problem) -> Evidence:
    come_and_go, name = learner.kernels.set_items is not None, format_spec(learner)
    if mean_loss(learner, p) == inf or p.verdict.rate is Rate.ZERO:
        return Evidence(name, str(p.measure), p.k, {}, {}, come_and_go)
    game, knows_horizon = p.benchmark, learner.horizon is not None
    by_stream = benchmarks.loss_by_stream(learner.name, *game, knows_horizon=knows_horizon)
    has_rates = game == ("dcg", 1) and not knows_horizon
    by_response_rate = benchmarks.loss_by_response_rate(learner.name) if has_rates else {}
    return Evidence(name, *game, by_stream, by_response_rate, come_and_go)


def _name(spec: str | None) -> str:
    """Return the name in a specification, without the parameters."""
    return (spec or "").partition(":")[0]
