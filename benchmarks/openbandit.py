"""Compare estimates with Open Bandit Pipeline 0.5.7 where both apply: k = 1, and only the first item counts.

obp does not install with Python 3.11, and imports torch. Its estimators run all the same:

    pip install --no-deps --ignore-requires-python --target FOLDER obp==0.5.7
    python benchmarks/openbandit.py FOLDER
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from peekrank import Precision
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.log import log_from_records
from peekrank.evaluation.policies import Policy

N, M = 2000, 6


def estimators(folder: Path) -> Any:
    """Import obp's module of estimators without the rest of the package."""
    torch: Any = types.ModuleType("torch")
    torch.Tensor = torch.tensor = torch.FloatTensor = type("Tensor", (), {})
    sys.modules["torch"] = torch
    for name in ("obp", "obp.ope"):
        module: Any = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module
    import obp.ope.estimators as found  # type: ignore[import-not-found]

    return found


def main(folder: Path) -> None:
    obp, rng = estimators(folder), np.random.default_rng(4)
    propensities = rng.dirichlet(np.ones(M), N)
    action = np.array([rng.choice(M, p=row) for row in propensities])
    reward = (rng.random(N) < np.linspace(0.1, 0.9, M)[action]).astype(np.float64)
    chosen = rng.integers(M, size=N)
    records, ranks = [], []
    for t in range(N):
        order = [action[t], *(i for i in range(M) if i != action[t])]
        answer = [reward[t] if i == action[t] else None for i in range(M)]
        records.append({
            "event": str(t), "k": 1, "candidates": [str(i) for i in range(M)],
            "position": np.argsort(order).tolist(),
            "propensity": propensities[t].tolist(), "feedback": answer,
        })  # fmt: skip
        ranks.append(np.argsort([chosen[t], *(i for i in range(M) if i != chosen[t])]))
    log = log_from_records(records)
    ours = evaluate_log(log, [Policy("other", np.concatenate(ranks))], Precision(1, mean=False)).estimates[0]
    guess, sums, counts, total, number = np.empty((N, M, 1)), np.zeros(M), np.zeros(M), 0.5, 1.0
    for t in range(N):  # means of the past, as ours, written down once more
        guess[t, :, 0] = (sums + total / number) / (counts + 1)
        sums[action[t]] += reward[t]
        counts[action[t]] += 1
        total, number = total + reward[t], number + 1
    shown = {"reward": reward, "action": action, "pscore": propensities[np.arange(N), action], "position": None}
    other = np.eye(M)[chosen][:, :, None]
    theirs = {
        "IPS": obp.InverseProbabilityWeighting().estimate_policy_value(**shown, action_dist=other),
        "self-normalised": obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(
            **shown, action_dist=other
        ),
        "doubly robust": obp.DoublyRobust().estimate_policy_value(
            **shown, action_dist=other, estimated_rewards_by_reg_model=guess
        ),
    }
    for (name, value), own in zip(theirs.items(), (ours.ips, ours.snips, ours.dr), strict=True):
        assert own is not None  # noqa: S101
        print(f"{name:>16}: obp {value:.12f}, peekrank {own:.12f}, difference {abs(value - own):.1e}")
        assert abs(value - own) < 1e-9, name  # noqa: S101


if __name__ == "__main__":
    main(Path(sys.argv[1]))
