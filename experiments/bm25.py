"""Measure mixed behind BM25 on real texts: the docstrings of Python's standard library.

`peekrank.experiments.passages` says how visits are drawn and who answers. Keys are the wordings. In "strong"
worlds BM25 also sees the summary line; in "fresh" ones half of the visits are worded anew.

    python experiments/bm25.py                             print the tables (ten minutes)
    python experiments/bm25.py --runs 2 --visits 2000      fewer and shorter runs
    python experiments/bm25.py --record                    write records/bm25.json
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from collections.abc import Sequence

import numpy as np
import records

from peekrank.experiments.passages import N, Player, Visits, World, drawn, passages, play, worth
from peekrank.types import Floats, Ints

FIRST, RUNS, VISITS, TENTHS = 7000, 20, 20_000, 10  # nothing was chosen by seeds from FIRST on
ALLOWED = 0.01  # below BM25 in a tenth
WORLDS = [
    World("weak, all answer"),
    World("weak, 10 %", 0.1),
    World("weak, 2 %", 0.02),
    World("fresh, 10 %", 0.1, fresh=0.5),
    World("flat, 10 %", 0.1, flat=True),
    World("strong, all answer", strong=True),
    World("strong, 10 %", 0.1, strong=True),
    World("weak, 10 %, k = 3", 0.1, k=3),
]


def crude(world: World, visits: Visits, seed: int) -> Ints:  # noqa: ARG001 - it is deterministic
    """Order by 1/(1 + position) of BM25, plus mean residuals of the passage and of it in this wording.

    They are shrunk as if 8 and 4 more answers had been 0, and there is no exploration.
    """
    base, positions = 1 / np.arange(2.0, N + 2), np.full(len(visits.own), -1)
    number, total = np.zeros((2, int(visits.items.max()) + 1))
    cells = dict[int, tuple[Floats, Floats]]()
    for t, items in enumerate(visits.items):
        n, summed = cells.setdefault(int(visits.keys[t]), (np.zeros(N), np.zeros(N)))
        effect = total[items] / (number[items] + 8)
        order = np.argsort(-(base + effect + (summed - n * effect) / (n + 4)), kind="stable")
        if visits.own[t] >= 0:
            positions[t] = np.flatnonzero(order == visits.own[t])[0]
        if visits.answered[t] < world.answering:
            shown = order[: world.k]
            residual = visits.thumbs[t, shown] - base[shown]
            for sums, counts, at in ((total, number, items[shown]), (summed, n, shown)):
                sums[at] += residual
                counts[at] += 1
    return positions


LEARNERS: dict[str, Player] = {
    "mixed, keys": play("mixed:cells=100000", key=True),
    "mixed, keys, safe": play("mixed:cells=100000,safe=true", key=True),
    "mixed, items only": play("mixed", key=False),
    "mixed, keys, no exploration": play("mixed:cells=100000,floor=0,earned=0", key=True),
    "crude greedy rule": crude,
    "doubtsort": play("doubtsort:measure=dcg", key=False, scored=False),
}
OURS = ("mixed, keys", "mixed, keys, safe")


def measure(world: World, runs: Sequence[int], visits: int) -> dict[str, Floats]:
    """Return the DCG of BM25, the ceiling's gain, and the gains of all learners, in tenths of each run."""
    found: dict[str, list[Floats]] = {name: [] for name in ("BM25", "ceiling", *LEARNERS)}
    for run in runs:
        drawing = drawn(world, run, visits)
        alone = worth(drawing.own)
        found["BM25"].append(alone)
        found["ceiling"].append((drawing.own >= 0) - alone)
        for name, player in LEARNERS.items():
            found[name].append(worth(player(world, drawing, run)) - alone)
    tenths = {name: np.array(values).reshape(len(runs), TENTHS, -1).mean(axis=2) for name, values in found.items()}
    sys.stderr.write(f"{world.name}: {', '.join(f'{name} {part.mean():.4f}' for name, part in tenths.items())}\n")
    return tenths


def marked(text: str, *, loses: bool) -> records.Cell:
    """Return a cell, in bold if it loses."""
    return records.parse_cell(f"**{text}**" if loses else text)


def tables(found: dict[str, dict[str, Floats]]) -> list[records.Table]:
    """Return the gains over whole runs, and in the worst tenths."""
    gains, worst = [], []
    for name in ("BM25", "ceiling", *LEARNERS):
        row, low = [], []
        for values in (of_world[name] for of_world in found.values()):
            mean, runs = values.mean(axis=1), len(values)
            error = mean.std(ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
            row.append(marked(f"{mean.mean():.4f} ± {error:.4f}", loses=mean.mean() < 0))
            least = values.mean(axis=0).min()
            low.append(marked(f"{least:.3f}", loses=least < -ALLOWED))
            low.append(marked(f"{values.min():.3f}", loses=values.min() < -ALLOWED))
        gains.append([name, *row])
        if name in LEARNERS:
            worst.append([name, *low])
    heads = list(found)
    return [
        records.Table("DCG gained over BM25", [], ["learner", *heads], gains, marks={"loses": "less than BM25"}),
        records.Table(
            "Worst tenth of the run",
            [],
            ["learner", *(text for head in heads for text in (head, "any run"))],
            worst,
            marks={"loses": f"more than {ALLOWED} below BM25"},
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="Mixed behind BM25 on docstrings.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--visits", type=int, default=VISITS)
    records.add_option(parser, "bm25")
    options = parser.parse_args(arguments)
    runs = range(options.first, options.first + options.runs)
    sys.stderr.write(f"{len(passages()):,} passages of Python {sysconfig.get_python_version()}\n")
    found = tables({world.name: measure(world, runs, options.visits) for world in WORLDS})
    if options.record:
        records.update(options.record, found, title="mixed behind BM25 on real texts")
    else:
        print(records.show(found))


if __name__ == "__main__":
    main()
