"""The checks of peekrank, applied to the classes of this package."""

import numpy as np
from own_ranking import Logistic, OneHot, ReciprocalDiscount, Sometimes

from peekrank import (
    Agent,
    RTopKF,
    check_learner,
    check_measure,
    check_stream,
    check_surrogate,
    evaluate,
    learner,
    measure,
    stream,
    surrogate,
)


def test_they_pass_the_checks() -> None:
    check_learner(Sometimes())
    check_measure(ReciprocalDiscount())
    check_surrogate(Logistic())
    check_stream(OneHot())


def test_they_are_known_by_name() -> None:
    assert learner("sometimes:share=0.2") == Sometimes(0.2)
    assert measure("rd:power=0.5") == ReciprocalDiscount(0.5)
    assert surrogate("logistic") == Logistic()
    assert stream("one-hot:m=4") == OneHot(4)
    assert learner("rtopkf:surrogate=logistic") == RTopKF(Logistic())


def test_values_by_hand() -> None:
    assert evaluate(ReciprocalDiscount(), [0, 1, 2, 3], [0, 3, 0, 1]) == 3 / 2 + 1 / 4
    assert OneHot(3).rounds(100, np.random.default_rng(0)).relevance.sum() == 100


def test_a_saved_agent_finds_its_learner() -> None:
    agent = Agent(Sometimes(0.5), m=3, k=1, seed=1)
    agent.update(agent.rank(), [1])
    assert Agent.load(agent.dump()).learner == Sometimes(0.5)
