"""The commands ``peekrank learn`` and ``peekrank rank``: what they read, and what they say."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank._util.text import counted, presentable
from peekrank.cli.data import check_replaceable, read_data

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.data.dataset import Dataset
    from peekrank.training.model import Ranked
    from peekrank.training.training import Material, Outcome, Summary
    from peekrank.types import Measure

_CLOSE = 0.01  # part of the regret: a gap above it is told


def choose(named: list[str] | None, surrogate: str | None, *, as_printed: bool) -> tuple[str, ...]:
    """The specifications of the learners that arguments and options give.

    >>> choose(None, "kl", as_printed=True)
    ('as_printed:surrogate=kl',)
    """
    if named:
        if surrogate or as_printed:
            option = "--surrogate" if surrogate else "--as-printed"
            raise ValueError(
                f"{option} does not go with learners that are named; say it there, as in rtopkf:surrogate=kl or "
                "as_printed:surrogate=kl"
            )
        return tuple(named)
    name = "as_printed" if as_printed else "rtopkf"
    return (f"{name}:surrogate={surrogate}" if surrogate else name,)


def gather(train: Path, test: Path | None, scaling: str) -> Material:
    """Read a training and perhaps a test part, and prepare both alike."""
    from peekrank.training import training as learning

    data = read_data(train, None, None)
    held_out = read_data(test, None, data.about.base) if test else None
    if test and held_out:
        known = data.about.digest and data.about.digest == held_out.about.digest
        if known or test.resolve() == train.resolve():
            warnings.warn(
                f"{test.name}: is the training part itself, so nothing is held out by --test", stacklevel=2
            )
    material = learning.gather(data, held_out, scaling=scaling)
    for part in (material.train, material.test):
        if part:
            _note_rounding(part)
    return material


def _note_rounding(data: Dataset) -> None:
    if data.about.rounded:
        warnings.warn(f"{data.about.source}: real-valued relevance is rounded to grades", stacklevel=2)


def tell(outcome: Outcome, material: Material, folder: Path) -> list[RenderableType]:
    """The table of a training, and what there is to know about it."""
    from peekrank.training.training import model_file

    training, summaries = outcome.training, outcome.summaries()
    sizes = f"{counted(training.rounds, 'round')}, {counted(training.runs, 'run')}"
    title = f"{training.measure}, k = {training.k}, {sizes}, {presentable(outcome.source)}"
    table = Table(title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("learner", overflow="fold", min_width=10)
    held_out = material.test is not None
    headers = ["average ± sd", "last tenth ± sd"]
    headers += ["held out ± sd"] * held_out + ["explored"] + ["regret ± sd"] * training.regret
    for header in headers:
        table.add_column(header, justify="right", overflow="fold", min_width=6)
    for s in summaries:
        table.add_row(*_row(s, held_out=held_out, regret=training.regret))
    said: list[RenderableType] = [table]
    together = "" if len(summaries) == 1 else f", {len(summaries)} learners taken together"
    said.append(Text(f"{summaries[0].rounds_per_second:,.0f} rounds/s for each thread{together}."))
    if all(math.isnan(s.quality) for s in summaries):
        said.append(Text(f"{training.measure} counts no query that was shown: there is no quality to tell."))
    if material.test and all(s.held_out is None for s in summaries) and any(s.finite for s in summaries):
        source = presentable(material.test.about.source)
        said.append(Text(f"{training.measure} counts no query of {source}: nothing is told of it."))
    for s in summaries:
        if s.finite < training.runs:
            where = f"in {training.runs - s.finite} of {counted(training.runs, 'run')}, and left no model there"
            said.append(Text(f"{s.learner} diverged {where}: try --scaling query or a smaller rate."))
        if s.regret is not None and s.gap is not None and not s.gap <= _CLOSE * abs(s.regret):
            said.append(Text(f"The regret of {s.learner} may be up to {s.gap:,.0f} higher."))
    files = [model_file(folder, name, 0) for name in training.model_names()]
    said += [Text(f"Apply it: peekrank rank {file} DATA") for file in files if file.exists()][:1]
    return said


def _row(s: Summary, *, held_out: bool, regret: bool) -> list[str]:
    cells = [escape(s.learner), _spread(s.quality, s.quality_sd), _spread(s.late, s.late_sd)]
    if held_out:
        cells.append(_spread(s.held_out, s.held_out_sd))
    cells.append(f"{s.explored:.1%}")
    if regret:
        cells.append(_spread(s.regret, s.regret_sd, ",.0f"))
    return cells


def _spread(mean: float | None, sd: float | None, form: str = ".4f") -> str:
    if mean is None or sd is None or math.isnan(mean):
        return "–"
    return f"{mean:{form}}" if math.isnan(sd) else f"{mean:{form}} ± {sd:{form}}"


def rank(
    model: Annotated[Path, typer.Argument(help="A model that `peekrank learn` saved.")],
    data: Annotated[Path, typer.Argument(help="Documents: LETOR or SVMlight text, or a .peek file.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write.", show_default="the terminal")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="Tell the quality, if DATA has relevance: ndcg@10, p@3 ...")
    ] = None,
) -> None:
    """Rank the documents of each query by a learned model: a table of qid, document, position and score.

    Documents and positions count from 1; document 3 is the query's third in the file.
    """
    from peekrank._util.atomic import write_whole
    from peekrank.measures import measure as measure_named
    from peekrank.training.model import load_model

    judge = measure_named(measure) if measure else None
    if out:
        if out.resolve() in (model.resolve(), data.resolve()):
            raise ValueError(f"{out}: --out must be a file of its own")
        check_replaceable(out)
    learned = load_model(model)
    ranked = learned.rank(read_data(data, None, learned.preparation.base))
    verdict = _judge(ranked, judge) if judge else ""
    text = _as_table(ranked)
    if out:
        write_whole(out, lambda part: part.write_text(text, encoding="utf-8"))
    else:
        sys.stdout.write(text)
    console = Console(stderr=out is None)  # what is piped on is the table and nothing else
    if verdict:
        console.print(verdict, highlight=False)
    if out:
        console.print(f"Written to {escape(str(out))}", highlight=False, soft_wrap=True)


def _judge(ranked: Ranked, measure: Measure) -> str:
    """The quality, and how many queries it is of."""
    _note_rounding(ranked.data.graded())
    values, queries = ranked.judged(measure), len(ranked.data.queries)
    if not len(values):
        return f"{measure} counts none of {counted(queries, 'query', 'queries')}"
    skipped = f", {queries - len(values):,} skipped" if len(values) < queries else ""
    return f"{measure} {values.mean():.4f} over {counted(len(values), 'query', 'queries')}{skipped}"


def _as_table(ranked: Ranked) -> str:
    import numpy as np
    import polars as pl

    offsets = ranked.data.offsets
    lengths = np.diff(offsets)
    first = np.repeat(offsets[:-1], lengths)
    columns = {
        "qid": np.repeat(ranked.data.queries, lengths),
        "document": ranked.rankings + 1,
        "position": np.arange(len(first)) - first + 1,
        "score": ranked.scores[first + ranked.rankings].astype(np.float32),
    }
    return pl.DataFrame(columns).write_csv(separator="\t")
