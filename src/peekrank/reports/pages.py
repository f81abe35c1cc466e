"""What all pages have in common: templates, and experiments in plain words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from peekrank._util.atomic import write_whole
from peekrank._util.extras import extra
from peekrank.experiments.experiment import Experiment
from peekrank.learners import RTop1F
from peekrank.reports.numbers import decimals, number, percent

with extra("cli"):
    from jinja2 import Environment, PackageLoader, StrictUndefined

_PLAIN = {
    "rtop1f": "RTop-1F (CT15, Algorithm 1). Time is cut into blocks. In each block every item has its turn in a "
    "position that people are asked about. All other rounds sort by the answers of earlier blocks, plus noise.",
    "ftpl": "Follow the perturbed leader. Sorts the items by all answers so far, plus noise. It is told the "
    "relevance of every item after each round, and so shows what complete feedback would be worth.",
    "uniform": "A random order in every round: what knowing nothing is worth.",
}
_ORDERS = {
    "leader": "While an item has its turn, the others keep the best order known so far.",
    "fixed": "While an item has its turn, the others are in a fixed, arbitrary order.",
}


def write_page(template: str, path: Path, **content: Any) -> None:
    """Fill a template of the package, with numbers as they are written here, and write it in one step."""
    environment = Environment(
        loader=PackageLoader("peekrank.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, decimals=decimals, percent=percent)
    page = environment.get_template(template).render(content)
    write_whole(path, lambda part: part.write_text(page, encoding="utf-8"))


def command(experiment: Experiment, folder: str) -> str:
    """The command line that repeats an experiment.

    >>> command(Experiment(("rtop1f",), "ct15", "dcg", k=1, horizon=100, same_rounds=True), "results/again")
    'peekrank simulate rtop1f --measure dcg --stream ct15 --k 1 --horizon 100 --runs 10 --seed 0 --same-rounds ...'
    """
    e = experiment
    words = ["peekrank", "simulate", *e.learners, "--measure", e.measure, "--stream", e.stream, "--k", str(e.k)]
    words += ["--horizon", str(e.horizon), "--runs", str(e.runs), "--seed", str(e.seed)]
    words += ([] if not e.same_rounds else ["--same-rounds"]) + ["--out", folder]
    return shlex.join(words)


def described(experiment: Experiment) -> list[tuple[str, str]]:
    """Each learner in plain words, and only the options of one that was described before."""
    found, known = [], set()
    for text, made in zip(experiment.learners, experiment.parts.learners, strict=True):
        again = "The same learner with other options."
        plain = again if made.name in known else _PLAIN.get(made.name, first_line(made))
        found.append((text, f"{plain} {_ORDERS[made.order] if isinstance(made, RTop1F) else ''}".strip()))
        known.add(made.name)
    return found


def first_line(value: object) -> str:
    """What a value is, by the first line of its class's documentation.

    >>> from peekrank.measures import DCG
    >>> len(first_line(DCG())) > 10
    True
    """
    return (type(value).__doc__ or "").strip().partition("\n")[0]
