"""HTML report of the demo of reranking: the curve against BM25, and an example."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np

from peekrank._util.extras import extra
from peekrank.experiments.rerank_demo import ANSWERING, LEARNER, TENTHS, VISITS, Demo
from peekrank.reports import plots
from peekrank.reports.pages import write_page
from peekrank.reports.style import blank, draw, finish, look, spread_of_runs, styled

with extra("cli"):
    from matplotlib.figure import Figure


def write_rerank_report(demo: Demo, path: Path) -> Path:
    """Write a demo as one HTML file that needs no network and no scripts."""
    runs = len(demo.values["BM25 alone"])
    write_page(
        "rerank.html",
        path,
        demo=demo,
        rows=[
            (
                name,
                *(float(values[:, tenth].mean()) for tenth in (0, 4, TENTHS - 1)),
                float(demo.first[name][:, -1].mean()),
            )
            for name, values in demo.values.items()
        ],
        runs=runs,
        visits=VISITS,
        answering=ANSWERING,
        learner=LEARNER,
        python=sysconfig.get_python_version(),
        picture=plots.inline_svg(value_over_time(demo)),
    )
    return path


def value_over_time(demo: Demo) -> Figure:
    """Plot the mean DCG of the lists in each tenth, with one standard deviation over runs."""
    visits = (2 * np.arange(TENTHS) + 1) * VISITS // (2 * TENTHS)
    with styled():
        figure, axes = blank("Value of the lists", "mean DCG", scale="linear", legend_rows=len(demo.values))
        for position, (name, values) in enumerate(demo.values.items()):
            draw(axes, visits, spread_of_runs(values), look(position), label=name)
        axes.set(xlabel="visits", ylim=(0, None))
        figure.legend(loc="outside lower left")
        finish(figure, axes)
    return figure
