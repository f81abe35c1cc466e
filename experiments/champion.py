"""Compare champion for fixed items with its members: doubtsort, and marginftrl for relevance that changes.

The table shows the DCG regret against the best fixed order. It is below zero if following a change beats every
fixed order. The streams are stationary, change sometimes or always, or are deterministic opponents that alternate
between two halves of the items, as in experiments/margin.py. Figures are means and standard deviations over runs
whose seeds were not used for any choice, and the number of runs that promoted marginftrl. Bold marks a regret
above the better member's by two standard errors of the difference or more.

    python experiments/champion.py --runs 10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from margin import LAB, LINEAR, Draw, drawn, opponents

from peekrank import DCG, Agent, Champion, DoubtSort, MarginFTRL
from peekrank.engine import run_agents
from peekrank.regret import best_values, regret
from peekrank.types import Learner, Rounds

FIRST = 81_000  # nothing was chosen by the seeds from here on
M, JUDGE = 10, DCG()
LEARNERS: dict[str, Learner] = {
    "champion": Champion(JUDGE),
    "doubtsort": DoubtSort(JUDGE),
    "marginftrl": MarginFTRL(JUDGE),
}
STREAMS: dict[str, Draw] = {
    "linear means": drawn(LINEAR, LAB),
    "ct15": drawn(f"ct15:m={M},noise=0.25", LAB),
    "one better": drawn("bernoulli:means=" + "+".join(["0.45"] * (M - 1) + ["0.55"]), LAB),
    "switching, 2": drawn(f"switching:m={M},noise=0.25,segments=2", LAB),
    "switching, 5": drawn(f"switching:m={M},noise=0.25,segments=5", LAB),
    "drifting, half a period": drawn(f"drifting:m={M},periods=0.5", LAB),
    "drifting, 3 periods": drawn(f"drifting:m={M},periods=3", LAB),
    **opponents(M),
}


def lost(learner: Learner, rounds: Rounds, k: int, seed: int) -> tuple[float, int]:
    """Regret after all rounds, and number of promotions."""
    agent, end = Agent(learner, m=M, k=k, seed=seed), np.array([LAB])
    (trace,) = run_agents([agent], rounds, measure=JUDGE, checkpoints=end)
    promoted = len(learner.promotions(agent.state)) if isinstance(learner, Champion) else 0
    return float(regret(JUDGE, trace, best_values(JUDGE, rounds, end))[0]), promoted


def table(k: int, runs: int) -> Iterator[str]:
    """Print a row for each stream. Bold marks a regret significantly above the better member's."""
    for label, draw in STREAMS.items():
        found = {name: np.empty((runs, 2)) for name in LEARNERS}
        for run in range(runs):
            rounds = draw(FIRST + run)
            for name, learner in LEARNERS.items():
                found[name][run] = lost(learner, rounds, k, FIRST + run)
        regrets = {name: values[:, 0] for name, values in found.items()}
        cells = [f"{values.mean():,.0f} ± {values.std(ddof=1):,.0f}" for values in regrets.values()]
        better = min((regrets["doubtsort"], regrets["marginftrl"]), key=np.mean)
        more = regrets["champion"] - better
        if more.mean() > 2 * more.std(ddof=1) / np.sqrt(runs):
            cells[0] = f"**{cells[0]}**"
        yield f"| {k} | {label} | {' | '.join(cells)} | {int((found['champion'][:, 1] > 0).sum())} of {runs} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", nargs="+", type=int, default=[1, 3])
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    heads = "| k | stream | champion | doubtsort | marginftrl | runs with a promotion |"
    sys.stdout.write(heads + "\n" + "|---" * 6 + "|\n")
    for k in options.answers:
        for row in table(k, options.runs):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
