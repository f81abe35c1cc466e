"""Measure how often a log shows that a learner is better, for the app of the product engineer's tutorial.

python experiments/verdicts.py      # 20 logs of 40,000 visits for each way of showing lists: some minutes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from peekrank import DCG, Agent, DoubtSort, Greedy
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.jsonl import LogWriter
from peekrank.evaluation.log import Log, read_log
from peekrank.evaluation.policies import fixed_order, replayed
from peekrank.types import Learner

HELPS = np.array([0.20, 0.50, 0.05, 0.15, 0.10, 0.25, 0.85, 0.55, 0.60, 0.70])  # in alphabetical order
NAMES = [str(item) for item in range(len(HELPS))]
ANSWERED = 0.2
WAYS: dict[str, tuple[Learner, float]] = {
    "doubtsort alone": (DoubtSort(DCG()), 0.0),
    "doubtsort, a tenth of the lists begins with a random item": (DoubtSort(DCG()), 0.1),
    "greedy:epsilon=0.1": (Greedy(DCG(), epsilon=0.1), 0.0),
}


def log_of_visits(learner: Learner, drawn: float, visits: int, seed: int) -> Log:
    """Simulate a log of an app whose lists begin with a random item in a share `drawn` of all visits."""
    rng, agent = np.random.default_rng([11, seed]), Agent(learner, m=len(HELPS), k=1, seed=seed)
    with TemporaryDirectory() as folder:
        path = Path(folder, "visits.jsonl")
        with LogWriter(path, learner) as log:
            for _ in range(visits):
                decision = agent.rank()
                if drawn and decision.propensities is not None:
                    order, propensities = (
                        decision.ranking,
                        (1 - drawn) * decision.propensities + drawn / len(HELPS),
                    )
                    if rng.random() < drawn:
                        lucky = rng.choice(order)
                        order = np.append(lucky, order[order != lucky])
                    decision = agent.override(decision, order, propensities)
                event = log.log_decision(decision, k=1, names=NAMES)
                if rng.random() < ANSWERED:
                    answer = [int(rng.random() < HELPS[decision.ranking[0]])]
                    agent.update(decision, answer)
                    log.log_feedback(event, answer)
        return read_log(path)


def verdict(log: Log) -> str:
    """Evaluate whether doubtsort, replayed over the log, is better than alphabetical order."""
    policies = [replayed(log, DoubtSort(DCG())), fixed_order(log, NAMES)]
    return evaluate_log(log, policies, DCG()).differences[0].verdict


def main(logs: int = 20, visits: int = 40_000) -> Iterator[str]:
    """Count the logs that found doubtsort better, and worse, for each way of showing lists."""
    yield f"{logs} logs of {visits:,} visits, {ANSWERED:.0%} answered: doubtsort against the alphabet"
    for name, (learner, drawn) in WAYS.items():
        found = [verdict(log_of_visits(learner, drawn, visits, seed)) for seed in range(logs)]
        yield f"  {name}: {found.count('higher')} better, {found.count('lower')} worse"


if __name__ == "__main__":
    for line in main(*map(int, sys.argv[1:])):
        print(line, flush=True)
