"""The learner class of mixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor, isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_int
from peekrank.kernels.exploration import doubt_space
from peekrank.kernels.pair_table import PairTable, check_pair_table, pair_table
from peekrank.kernels.quantiles import check_recent, recent_numbers
from peekrank.kernels.sorting import sort_space
from peekrank.kernels.triangular import BLOCK, aligned, panel, row_ends, whole_blocks
from peekrank.learners._shared import check_counts, check_numbers, discount_of
from peekrank.learners.mixed.fit import HIGHEST, LOWEST, LU_PLAIN, LV_START, renew_score
from peekrank.learners.mixed.posterior import PRIOR_SLOPE, SCORE_PRIOR
from peekrank.learners.mixed.ranking import (
    component,
    fill_effects,
    fill_scores,
    mixture,
    off_policy,
    propensities,
    rank,
    set_items,
    set_key,
    update,
)
from peekrank.learners.mixed.score import RING, set_scores
from peekrank.learners.mixed.state import (
    CELL_LAST,
    CENTRED,
    CLOCK,
    HELD,
    ITEMS,
    LAST,
    LISTS,
    LU,
    LV,
    NUMBER,
    OWN_COLUMNS,
    REFIT,
    RENEW,
    SCORED,
    SQUARES,
    MixedState,
    Model,
    n_columns,
)
from peekrank.measures import DCG, learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Explanation, Features, Floats, Ints, Kernels, LinearMeasure, Shape

MAX_COLUMNS = 2003  # each item that was asked about keeps a row of them
_MAX_CELLS = 2**24
_MAX_KEY = 2**62
_MEMORY = 0.998  # factor of the twin's sums at each answer
_UNKEYED = Kernels(
    rank,
    update,
    propensities,
    set_items,
    counts_rounds=True,
    off_policy=off_policy,
    set_scores=set_scores,
    renew_score=renew_score,
    mixture=mixture,
    component=component,
)
_KEYED = _UNKEYED._replace(set_key=set_key)
_MODEL = ("R", "ends", "z", "w", "prior", "raw", "cross", "rows", "base", "cells", "sums")


@dataclass(frozen=True)
class Mixed:
    """Start from the app's score, and learn from answers with a Bayesian linear mixed model.

    The model of an answer is ``w . x + u_item + v_(key, item)`` plus noise. x holds a constant, the rank of the
    score in its list, its quantile among recent scores (both as normal quantiles), and features. Items and cells
    (a key and an item) are integrated out exactly, and their variances are fitted by marginal likelihood. Before
    the first answer, lists are in the app's order, except for exploration.

    An item below position k is moved to position k with probability ``0.25/n u_i D_i / cost`` (see doubtsort). If
    the list has a score, exploration may cost at most ``floor`` plus the share ``earned`` of what the order gains
    over the app's, by the means; up to four times as much if the list's items are in nearly all lists. If all
    answers follow the model, this bounds the expected loss against the app's order in every round.

    A twin of the model with a memory of 500 answers predicts each answer as well. If it proves better, its sums
    replace those of the model.

    Parameters
    ----------
    measure
        Its discount gives the weights of positions, and its gain the value of an answer; must be separable.
    low, high
        Range of the answers, which may be any numbers in it.
    floor
        What exploration may cost a list, as a share of the largest gain at position 1.
    earned
        Share of the gain over the app's order that exploration may cost as well.
    safe
        Whether the floor is spent at the cost that items would have if they were worth nothing.
    cells
        Largest number of pairs of a key and an item to remember. With 0, lists have no keys.

    >>> from peekrank import Agent
    >>> agent = Agent(Mixed(), m=4, k=1, seed=0)
    >>> agent.rank(scores=[0.2, 0.9, 0.1, 0.5]).ranking
    array([1, 3, 0, 2])
    """

    measure: LinearMeasure = field(default=DCG(gains="linear"), metadata={"read": measure_named})
    low: float = 0.0
    high: float = 1.0
    floor: float = 0.003
    earned: float = 0.2
    safe: bool = False
    cells: int = 0
    name: ClassVar[str] = "mixed"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = (
        *(f"model.{name}" for name in _MODEL),
        *(f"twin.{name}" for name in _MODEL),
        *(
            "items.pairs",
            "items.used",
            "cells.pairs",
            "cells.used",
            "recently",
            "hand",
            "rounds",
            "versions",
            "moments",
        ),
        *("centre", "fit", "recent.ring", "recent.ascending", "recent.total"),
    )

    def __post_init__(self) -> None:
        for name, least in (("low", -np.inf), ("high", self.low), ("floor", 0), ("earned", 0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not isfinite(value) or value < least:
                raise ValueError(f"{name} = {value!r}: must be a finite number, at least {least}")
        check_int("cells", self.cells, 0, _MAX_CELLS)
        learnable(self.measure, max(1, self.max_grade))
        if not 0 < self._gain(self.high) - self._gain(self.low) < np.inf:
            raise ValueError(f"high = {self.high}: an answer must be worth more than one of low = {self.low}")

    def _gain(self, answer: float) -> float:
        return float(self.measure.gain(np.array([answer]))[0])

    @property
    def kernels(self) -> Kernels:
        """Return the kernels, with or without keys."""
        return _KEYED if self.cells else _UNKEYED

    @property
    def max_grade(self) -> int:
        """Return the largest whole answer, at most 255."""
        return max(0, min(255, floor(self.high)))

    @property
    def answer_range(self) -> tuple[float, float]:
        """Return the range of the answers."""
        return self.low, self.high

    def init(self, shape: Shape) -> MixedState:
        """Make the state before the first round."""
        m, d = shape.m, shape.d
        if d + OWN_COLUMNS > MAX_COLUMNS:
            raise ValueError(
                f"d = {d:,}: {self.name} takes at most {MAX_COLUMNS - OWN_COLUMNS:,} features; use rtopkf"
            )
        columns, lowest = whole_blocks(d + OWN_COLUMNS), self._gain(self.low)
        keys, means, spreads, sorted_means, widths, doubts, costs, explore_probs, kept = (
            np.zeros(m) for _ in range(9)
        )
        present, app, order, indices = (np.arange(m) for _ in range(4))
        fit = np.zeros(12)
        fit[LU], fit[LV], fit[REFIT], fit[HELD] = LU_PLAIN, LV_START, 1, 1
        return MixedState(
            model=self._model(m, d, 1.0),
            twin=self._model(m, d, _MEMORY),
            items=pair_table(m),
            cells=pair_table(self.cells),
            recently=np.zeros(self.cells, np.int64),
            hand=np.zeros(1, np.int64),
            rounds=np.zeros(m),
            versions=np.zeros(m),
            moments=np.zeros((3, columns)),
            centre=np.zeros(d),
            fit=fit,
            recent=recent_numbers(RING),
            weights=discount_of(self.measure, m) * (1 if self.measure.higher_is_better else -1),
            k=shape.k,
            lowest=lowest,
            unit=self._gain(self.high) - lowest,
            floor=float(self.floor),
            earned=float(self.earned),
            safe=int(self.safe),
            key=np.full(1, -1),
            scored=np.zeros(1, np.int64),
            version=np.full(1, -1),
            returning=np.zeros(1),
            present=present,
            app=app,
            kept=kept,
            columns=np.zeros((m, 2)),
            x=np.zeros(columns),
            y=np.zeros(1),
            cx=np.zeros(columns),
            U=aligned(m, columns),
            centre_of_list=np.zeros(columns),
            S=aligned(columns, columns),
            S_ends=np.zeros(columns, np.int64),
            b=np.zeros((columns, 1)),
            effective=np.zeros((m if self.cells else 0, d + OWN_COLUMNS + 1)),
            panel=panel(m),
            means=means,
            spreads=spreads,
            order=order,
            sorted_means=sorted_means,
            widths=widths,
            doubts=doubts,
            costs=costs,
            explore_probs=explore_probs,
            keys=keys,
            indices=indices,
            space=doubt_space(m),
            sorting=sort_space(m),
        )

    def _model(self, m: int, d: int, decay: float) -> Model:
        c = d + OWN_COLUMNS
        columns = whole_blocks(c)
        prior, w = np.zeros(columns), np.zeros(columns)
        prior[-OWN_COLUMNS:], w[-2:] = (1, SCORE_PRIOR, SCORE_PRIOR), PRIOR_SLOPE
        R = aligned(columns, columns)
        np.fill_diagonal(R, np.sqrt(prior))
        return Model(
            R=R,
            ends=row_ends(columns),
            z=(np.sqrt(prior) * w).reshape(-1, 1),
            w=w,
            prior=prior,
            raw=np.zeros((columns, columns)),
            cross=np.zeros(columns),
            rows=np.zeros((m, c + LAST + 1)),
            base=np.zeros((m if self.cells else 0, c + 1)),
            cells=np.zeros((self.cells, c + CELL_LAST + 1)),
            sums=np.zeros(5),
            decay=decay,
        )

    def token_size(self, shape: Shape) -> int:
        """Return 2 + 2k: the explored mark, two columns of the score of each of the first k rows, its version."""
        return 2 + 2 * shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """Return 2: one selects the explored item, one the score to keep."""
        return 2

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(np.asarray(relevance, dtype=np.float64))

    def scores(self, state: MixedState, X: Features) -> Floats:
        """Return the mean gain of each item, for a missing score and no key."""
        means, rows = np.empty(len(X)), _rows_of_items(state.items, 0, len(X))
        fill_scores(state, X, rows, np.empty(len(state.x)), means)
        return means

    def gains_from_scores(self, state: MixedState, scores: Floats) -> Floats:
        """Return what the app's scores of a list add to the mean gain of each item."""
        n = len(scores)
        scratch = replace(self, cells=0).init(Shape(n, len(state.centre), 1))
        for kept, copied in zip(state.recent, scratch.recent, strict=True):
            copied[:] = kept
        set_scores(scratch, scores, np.arange(n))
        added: Floats = state.unit * (scratch.columns @ state.model.w[-2:])
        return added

    def explain(self, state: MixedState, scores: Floats, key: int | None) -> Explanation:
        """Return the mean gain of each item, and its parts: the average, the score, and effects of item and key.

        Features count as average. The answers are those to the item, also with other keys.
        """
        m = len(scores)
        rows, own = _rows_of_items(state.items, 0, m), np.full(m, -1)
        if key is not None:
            own = _rows_of_items(state.cells, key, m)
        parts = {name: np.zeros(m) for name in ("average", "score", "item", "key")}
        fill_effects(
            state, rows, own, -1 if key is None else key, np.empty(len(state.x)), parts["item"], parts["key"]
        )
        parts["average"][:] = state.lowest + state.unit * (state.model.w[-OWN_COLUMNS] + 0.5)
        if not np.isnan(scores).all():
            parts["score"] = self.gains_from_scores(state, scores)
        answers = np.where(rows >= 0, state.model.rows[rows, n_columns(state) + NUMBER], 0.0)
        return Explanation(np.sum(list(parts.values()), axis=0), answers, parts)

    def validate_state(self, state: MixedState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        c, m = len(state.centre) + OWN_COLUMNS, len(state.rounds)
        for name, model in (("model", state.model), ("twin", state.twin)):
            _check_model(state, name, model, c)
        check_numbers(state, "moments", "centre", "fit")
        check_counts(state, "rounds", "versions")
        check_pair_table(state.items, (1, m), "items")
        check_pair_table(state.cells, (_MAX_KEY, m), "cells")
        check_recent(state.recent, "recent")
        fit, used = state.fit, slice(int(state.cells.used[0]))
        if not np.all((fit[[LU, LV]] >= LOWEST) & (fit[[LU, LV]] <= HIGHEST)) or fit.min() < 0:
            raise ValueError(f"its fit must hold ratios from {LOWEST} to {HIGHEST} and no number below 0")
        if not np.isin(fit[[SCORED, HELD, CENTRED]], (0, 1)).all() or state.moments[[0, 2]].min() < 0:
            raise ValueError("its fit must hold marks of 0 or 1, and its moments squares")
        if state.rounds.max() > fit[LISTS]:
            raise ValueError("its rounds must not exceed the lists that its fit counts")
        if state.moments[0].max() > 0 and fit[ITEMS] < 1:
            raise ValueError("its fit must count the items whose features it has seen")
        asked = state.items.pairs[: int(state.items.used[0]), 1]
        if not np.isin(state.cells.pairs[used, 1], asked).all():
            raise ValueError("its cells.pairs must name items that were asked about")
        if not np.isin(state.recently, (0, 1)).all() or not 0 <= state.hand[0] < max(1, self.cells):
            raise ValueError("its recently must hold 0 or 1, and its hand a row of the cells")

    def failure(self, state: MixedState) -> str:
        """Return why the learner has stopped learning; empty while it is healthy."""
        return "" if np.isfinite(state.model.w).all() else "weights have overflowed: features are too large"

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: what is proved is relative to the app's order (docs/theory/mixed.md)."""


def _rows_of_items(table: PairTable, first: int, m: int) -> Ints:
    """Return the row of each of m items in a table, which may be read-only and not indexed; -1 for none."""
    pairs, rows = table.pairs[: table.used[0]], np.full(m, -1)
    mine = np.flatnonzero((pairs[:, 0] == first) & (pairs[:, 1] < m))
    rows[pairs[mine, 1]] = mine
    return rows


def _check_model(state: MixedState, name: str, model: Model, c: int) -> None:
    """Raise ValueError if a model read from a file is invalid."""
    columns = len(model.w)
    check_numbers(state, *(f"{name}.{field}" for field in _MODEL if field != "ends"))
    if not np.all((row_ends(columns) <= model.ends) & (model.ends <= columns) & (model.ends % BLOCK == 0)):
        raise ValueError(f"its {name}.ends must be multiples of a block, from the diagonal to the last column")
    if np.tril(model.R, -1).any() or np.tril(model.raw, -1).any():
        raise ValueError(f"its {name}.R and {name}.raw must be upper triangular")
    own = slice(columns - OWN_COLUMNS, None)
    if np.diag(model.R).min() < 0 or np.diag(model.R)[own].min() <= 0 or model.prior[own].min() <= 0:
        raise ValueError(f"its {name}.R and {name}.prior must be positive for its own columns, and not below 0")
    if min(model.prior.min(), model.sums.min(), model.rows[:, c + SQUARES].min()) < 0:
        raise ValueError(f"its {name}.prior and {name}.sums must not be below 0")
    clock, counted = model.sums[CLOCK], c - OWN_COLUMNS
    for rows, last in ((model.rows, c + LAST), (model.cells, c + CELL_LAST)):
        if len(rows) and (rows[:, counted].min() < -LOWEST / 2 or rows[:, last].min() < 0):
            raise ValueError(f"its {name} must not have items or cells with fewer than 0 answers")
        if len(rows) and rows[:, last].max() > clock:
            raise ValueError(f"its {name} must not have items or cells with answers to come")
    if (len(model.base) and model.base[:, counted].min() < -LOWEST / 2) or model.rows[:, c + NUMBER].min() < 0:
        raise ValueError(f"its {name} must not have items with fewer than 0 answers")
    if model.sums[RENEW] >= c or model.sums[RENEW] != floor(model.sums[RENEW]):
        raise ValueError(f"its {name}.sums must name a column whose prior is renewed next")
