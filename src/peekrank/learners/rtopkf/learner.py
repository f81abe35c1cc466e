"""The learner class of rtopkf."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_choice, check_int, check_positive
from peekrank.kernels.sorting import sort_space
from peekrank.kernels.vectors import Weights, score
from peekrank.learners._shared import check_numbers
from peekrank.learners.rtopkf.descent import kernels_for
from peekrank.learners.rtopkf.state import BIAS, OVERFLOWED, PROPENSITIES, RTopKFState
from peekrank.surrogates import Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.surrogates.estimates import Estimates, Estimator
from peekrank.types import Features, Floats, Kernels, Shape

UnseenOrder = Literal["greedy", "random"]
Step = Literal["scale_free", "theorem"]


@dataclass(frozen=True)
class RTopKF:
    """Descend a surrogate's gradient, estimated from top-k feedback.

    Each round scores the items of a list by ``s = X w`` and shows the greedy order. With probability gamma it
    shows k random items on top. The gradient of the surrogate at s is estimated by dividing the seen relevance by
    its propensity. Then ``w <- w - eta X' (estimate)``, projected onto a ball.

    In the paper (`from_paper`), exploration shuffles the whole list, gamma = T^(-1/3), eta = T^(-2/3), and
    the squared loss uses ``2 (s - R_i e_i / p_i)``. The defaults need no horizon and no tuning, and are better:

    - *residual* ``2 (s_i - R_i) / p_i`` for seen items, whose noise shrinks with the residual. *Doubly robust*: a
      regression predicts all relevances, and the seen ones correct it.
    - The k drawn items are shown in the greedy order, and so are those below. The propensities are the same.
    - gamma = t^(-1/3) in round t (at most 1/2), after t - 1 answered rounds.
    - Propensities are clipped at gamma times that of a greedy item, ``1 - gamma + gamma k / n``. This is biased,
      and much less noisy. ``clip=0`` is unbiased.
    - *Scale-free* steps: ``rate z / (M sqrt(sum of |z|^2))`` with M the largest norm of an item. Multiplying all
      features or the loss by a constant does not change the rankings (without a ball; not with doubly robust).
    - In other rounds an item is drawn from ``softmax(s / (temperature (max s - min s)))`` and moved up to position
      k, so items nearly as good as the best are seen often. With temperature 0 the greedy order is shown.

    A list of at most k items is seen completely: there is no exploration, and the gradient is exact. So k = m is
    full information. The learner uses all answered items or pairs, for any k. The paper's estimates, and those of
    surrogates that need the whole list, skip a round with a missing answer. At w = 0 all scores tie. Ties always
    go by index.

    Parameters
    ----------
    surrogate
        The surrogate to descend; listnet and ndcgsquared need k = m.
    horizon
        Rounds T; only `step=theorem` needs it.
    estimator
        Estimator of the gradient.
    unseen_order
        Order of the drawn items, and of those below them, in a round that explores.
    gamma
        Probability of exploring; None for t^(-1/3).
    clip
        Least divisor of an answer, as a part of the propensity of a greedy item: 0 divides by the exact
        propensity, 1 by the same whatever is shown, as section 4.2 of CT16 prints. None for gamma.
    temperature
        Temperature of the softmax that draws an item, in units of the spread of a list's scores; 0 draws the best.
    step
        Scale-free, or the theorem's T^(-2/3) (T^(-1/2) with full information).
    rate
        Factor of the step.
    radius
        Radius of the ball that w stays in; None for no ball.

    >>> from peekrank.surrogates import KL
    >>> learner = RTopKF(KL(), gamma=0.1)
    >>> learner.min_k, learner.full_information
    (1, False)

    References
    ----------
    CT16 Algorithm 1 and section 4. Erratum: its p(sigma(1)) = 1 - gamma + gamma / m is that of the greedy top
    only; for another item it is gamma / m.
    """

    surrogate: Surrogate = field(default=Squared(), metadata={"read": surrogate_named})
    horizon: int | None = None
    estimator: Estimator = "residual"
    unseen_order: UnseenOrder = "greedy"
    gamma: float | None = None
    clip: float | None = None
    temperature: float = 0.05
    step: Step = "scale_free"
    rate: float = 1.0
    radius: float | None = None
    name: ClassVar[str] = "rtopkf"
    contextual: ClassVar[bool] = True
    variable_length: ClassVar[bool] = True
    measure: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = ("w", "v", "sums")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_int("horizon", self.horizon, 1, 10**12)
        check_choice("estimator", self.estimator, Estimator)
        check_choice("unseen_order", self.unseen_order, UnseenOrder)
        check_choice("step", self.step, Step)
        check_positive("rate", self.rate)
        if self.radius is not None:
            check_positive("radius", self.radius)
        if self.gamma is not None and not 0 < self.gamma < 1:
            raise ValueError(f"gamma = {self.gamma}: must be a probability above 0 and below 1")
        if self.clip is not None and not 0 <= self.clip <= 1:
            raise ValueError(f"clip = {self.clip}: must be a number from 0 to 1")
        if not 0 <= self.temperature < np.inf:
            raise ValueError(f"temperature = {self.temperature}: must be a number, at least 0")
        if self.step == "theorem" and self.horizon is None:
            raise ValueError("step = theorem: needs a horizon, as in horizon=250000")
        if self._estimates.of(self.estimator) is None:
            what = f"predicts one relevance at a time, and {self.surrogate} is not a sum over items"
            raise ValueError(f"estimator = {self.estimator}: {what}; use squared, kl or smoothdcg")

    @staticmethod
    def from_paper(surrogate: Surrogate, horizon: int, *, clip: float | None = 0.0) -> RTopKF:
        """Return the paper's algorithm with its parameters; clip = 1 for the propensities of its section 4.2."""
        gamma = min(0.5, horizon ** (-1 / 3))
        return RTopKF(surrogate, horizon, "printed", "random", gamma, clip, temperature=0.0, step="theorem")

    @property
    def kernels(self) -> Kernels:
        """Return the kernels for this surrogate and estimator."""
        return kernels_for(self.surrogate.name, self._estimates, self.estimator, pairs=self.min_k > 1)

    @property
    def _estimates(self) -> Estimates:
        given: object = self.surrogate
        if not isinstance(given, Surrogate) or not isinstance(given.estimates, Estimates):
            what = "has no gradient estimates for rtopkf"
            raise ValueError(f"surrogate = {given}: {what}; docs/extend.md shows what a surrogate needs")
        return given.estimates

    @property
    def min_k(self) -> int:
        """Return the number of answers that the estimate needs."""
        return self.surrogate.min_k or 1

    @property
    def full_information(self) -> bool:
        """Return whether the surrogate needs the whole list."""
        return self.surrogate.min_k is None

    @property
    def max_grade(self) -> int:
        """Return the largest grade. Some surrogates are exponential in it, and gradients are float32."""
        return self._estimates.max_grade

    def init(self, shape: Shape) -> RTopKFState:
        """Make the state before the first round."""
        m, d, k = shape
        pairs = k if self.min_k > 1 and k < m else 0
        exponent = -1 / 2 if self.full_information or k >= m else -2 / 3
        return RTopKFState(
            w=np.zeros(d, dtype=np.float32),
            v=np.zeros(d, dtype=np.float32),
            sums=np.zeros(7),
            parameters=astuple(self.surrogate),
            robust=self.estimator == "doubly_robust",
            all_needed=self.estimator == "printed" or self.surrogate.min_k is None,
            random_below=self.unseen_order == "random",
            temperature=self.temperature,
            gamma=self.gamma or 0.0,
            clip=-1.0 if self.clip is None else self.clip,
            step=self.rate * (self.horizon or 1) ** exponent if self.step == "theorem" else 0.0,
            rate=self.rate,
            radius=self.radius or np.inf,
            k=k,
            z=np.zeros(d, dtype=np.float32),
            kept=np.zeros(2 * d, dtype=np.float32),
            kept_sums=np.zeros(7),
            scores=np.zeros(m),
            slopes=np.zeros(m),
            propensities=np.zeros(m),
            divisors=np.zeros(k),
            pairs=np.zeros((pairs, pairs)),
            order=np.zeros(m, dtype=np.int64),
            items=np.zeros(m, dtype=np.int64),
            sorting=sort_space(m),
        )

    def validate_state(self, state: RTopKFState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "w", "v", "sums")
        if np.delete(state.sums, BIAS).min() < 0:
            raise ValueError("its sums of squares and rounds must not be below 0")

    def scores(self, state: RTopKFState, X: Features) -> Floats:
        """Return the weighted sum of each item's features."""
        scores = np.empty(len(X))
        score(X, state.w, scores)
        return scores

    def token_size(self, shape: Shape) -> int:
        """Count the explored mark, gamma, a propensity, k propensities, the scores, and any predictions."""
        return PROPENSITIES + shape.k + shape.m * (2 if self.estimator == "doubly_robust" else 1)

    def n_uniforms(self, shape: Shape) -> int:
        """Return the number of uniforms: one for the exploration and one for each item that may be drawn."""
        return 1 + (shape.m if self.unseen_order == "random" else shape.k)

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the grades unchanged."""
        return np.asarray(relevance, dtype=np.float64)

    def weights(self, state: RTopKFState) -> Weights:
        """Return the weight of each feature."""
        return state.w

    def failure(self, state: RTopKFState) -> str:
        """Return why the learner has stopped learning; empty while it is healthy."""
        if np.isfinite(state.w).all() and np.isfinite(state.sums).all() and not state.sums[OVERFLOWED]:
            return ""
        remedy = ", or use step=scale_free" if self.step == "theorem" else ""
        return (
            "weights, scores or steps have overflowed, and the learner has stopped learning: features are too "
            f"large or too small, or steps are too long for them; scale the features{remedy}"
        )

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: the theorem bounds the regret in the surrogate, not in a measure."""
