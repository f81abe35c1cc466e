"""Of k questions those that are answered teach, in every learner that does not need the whole symbol of a game."""

import numpy as np
import pytest

from peekrank import DCG, FTPL, Agent, BlockFTRL, PermFTRL, Precision, RTop1F, RTopKF, SetFTRL
from peekrank.types import Learner

MEANS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
ROUNDS = 3000


def quality(agent: Agent, answered: float | None, seed: int) -> float:
    """Mean DCG of the second half, if one answer of each round comes, or those of some items come more often."""
    rng, features = np.random.default_rng(seed), np.eye(5, dtype=np.float32) if agent.shape.d else None
    measure, values = DCG(), []
    for t in range(ROUNDS):
        row = rng.random(5) < MEANS
        decision = agent.rank(features)
        answers = row[decision.ranking[: agent.shape.k]].astype(np.float64)
        if answered is None:
            answers[np.arange(len(answers)) != rng.integers(len(answers))] = np.nan
        else:
            silent = rng.random(len(answers)) > np.where(decision.ranking[: len(answers)] < 3, 1, answered)
            answers[silent] = np.nan
        agent.update(decision, answers)
        if t >= ROUNDS // 2:
            values.append(measure.discount(5) @ MEANS[decision.ranking])
    return float(np.mean(values))


BEST = float(DCG().discount(5) @ MEANS[::-1])
RANDOM = float(DCG().discount(5).mean() * MEANS.sum())


@pytest.mark.parametrize(
    ("learner", "k"),
    [
        (BlockFTRL(DCG()), 3),
        (SetFTRL(Precision(2, mean=False)), 3),
        (PermFTRL(DCG()), 4),
        (FTPL(DCG(), horizon=ROUNDS), 5),
        (RTop1F(DCG(), horizon=ROUNDS), 3),
        (RTopKF(), 3),
    ],
    ids=str,
)
def test_one_answer_of_k_teaches(learner: Learner, k: int) -> None:
    """No round is complete: who drops incomplete ones learns nothing."""
    agent = Agent(learner, m=5, k=k, d=5 if learner.contextual else 0, seed=1)
    share = (quality(agent, None, seed=2) - RANDOM) / (BEST - RANDOM)
    assert share > (0.35 if learner.name in ("rtop1f", "setftrl") else 0.7)  # setftrl learns a set, not its order


@pytest.mark.parametrize("learner", [BlockFTRL(DCG()), FTPL(DCG(), horizon=ROUNDS), PermFTRL(DCG())], ids=str)
def test_items_that_are_seldom_answered_for_are_not_taken_for_bad_or_good(learner: Learner) -> None:
    """The two best items have one answer in five, the others all."""
    agent = Agent(learner, m=5, k=5, seed=1)
    assert (quality(agent, 0.2, seed=3) - RANDOM) / (BEST - RANDOM) > 0.8
