"""Shared parts of all pages: templates, and descriptions of experiments."""

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
    "rtop1f": "RTop-1F (CT15, Algorithm 1). It divides time into blocks. In each block, every item once takes a "
    "position with feedback. In all other rounds, it sorts by the feedback of earlier blocks, plus noise.",
    "ftpl": "Follow the perturbed leader. It sorts the items by all feedback so far, plus noise. It sees the "
    "relevance of every item after each round, so it shows the value of complete feedback.",
    "uniform": "A random order in every round, for comparison.",
}
_ORDERS = {
    "leader": "Meanwhile the other items keep the best order found so far.",
    "fixed": "Meanwhile the other items are in a fixed, arbitrary order.",
}


def write_page(template: str, path: Path, **content: Any) -> None:
    """Render a template of the package and write it atomically."""
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
    """Return the command line that repeats an experiment.

    >>> command(Experiment(("rtop1f",), "ct15", "dcg", k=1, horizon=100, same_rounds=True), "results/again")
    'peekrank simulate rtop1f --measure dcg --stream ct15 --k 1 --horizon 100 --runs 10 --seed 0 --same-rounds ...'
    """
    e = experiment
    words = ["peekrank", "simulate", *e.learners, "--measure", e.measure, "--stream", e.stream, "--k", str(e.k)]
    words += ["--horizon", str(e.horizon), "--runs", str(e.runs), "--seed", str(e.seed)]
    words += ["--same-rounds"] if e.same_rounds else []
    words += [] if e.regret == "static" else ["--regret", e.regret]
    words += ["--out", folder]
    return shlex.join(words)


def described(experiment: Experiment) -> list[tuple[str, str]]:
    """Describe each learner in plain words, and only the options of one described before."""
    descriptions, known = [], set()
    for text, learner in zip(experiment.learners, experiment.parts.learners, strict=True):
        again = "The same learner with other options."
        plain = again if learner.name in known else _PLAIN.get(learner.name, first_line(learner))
        order = _ORDERS[learner.order] if isinstance(learner, RTop1F) else ""
        descriptions.append((text, f"{plain} {order}".strip()))
        known.add(learner.name)
    return descriptions


def first_line(value: object) -> str:
    """Return the first line of the docstring of a value's class.

    >>> from peekrank.measures import DCG
    >>> len(first_line(DCG())) > 10
    True
    """
    return (type(value).__doc__ or "").strip().partition("\n")[0]
