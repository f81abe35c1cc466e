"""``peekrank train``."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize, presentable
from peekrank.cli._inputs import note_rounding, read_data, read_like
from peekrank.cli._options import (
    DOCUMENTS,
    THREADS,
    Categories,
    Columns,
    Folder,
    Id,
    Imports,
    JsonFile,
    Missing,
    Query,
    Quiet,
    Relevance,
    Seed,
    Workers,
    import_all,
    table_options,
)
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._progress import rounds_bar, status
from peekrank.cli._tables import TerminalTable
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.data.dataset import Dataset
    from peekrank.training.result import Summary, TrainingResult
    from peekrank.training.training import Training, TrainTest

_CLOSE = 0.01  # fraction of the regret: larger gaps are printed

EXAMPLES = """\
# Train the default learner and test it.
peekrank train train.txt --test test.txt
# Compare three learners.
peekrank train train.txt ridge rtopkf uniform --test test.txt --out three
# Start from the scores of the ranker you have.
peekrank train shop.csv --relevance sold --query search --id sku --score bm25 --out two
# Train on a table.
peekrank train shop.csv --relevance sold --query search --id sku --out shop"""
JSON_KEYS = {
    "data, test, k, rounds, measure, runs, seed, regret, scaling, score": "the options",
    "score_alone, score_alone_held_out": "with --score: the quality in its order",
    "learners": "for each: learner, quality, final_quality, held_out (each with _sd), explored, regret, "
    "regret_sd, gap, finite",
    "models": "model files",
}


def command(
    data: Annotated[Path, typer.Argument(help=f"Training part: {DOCUMENTS}")],
    learners: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LEARNER",
            help="Learner, such as ridge, rtopkf, rtopkf:surrogate=kl, from_paper:surrogate=kl (the paper's "
            "parameters), mixed (each document is an item) or uniform.",
            show_default="ridge, or mixed with --score",
        ),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Test part: also compute the quality on it.")
    ] = None,
    k: Annotated[
        int, typer.Option("--k", help="Number of top documents whose relevance is revealed per round.")
    ] = 1,
    measure: Annotated[
        str, typer.Option(help="Measure of quality: ndcg@10, ndcg@10+skip, p@3+sum, err@10 ...")
    ] = "ndcg@10",
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 100_000,
    runs: Annotated[int, typer.Option(help="Number of runs, each with its own order of queries.")] = 5,
    seed: Seed = 0,
    scaling: Annotated[
        str,
        typer.Option(
            help="Scale features: none, query (min-max), global (mean, sd), robust (asinh, mean, sd), online "
            "(global, updated as documents arrive), or auto, which chooses and says why."
        ),
    ] = "auto",
    relevance: Relevance = None,
    query: Query = None,
    document: Id = None,
    columns: Columns = None,
    categories: Categories = None,
    missing: Missing = "reject",
    score: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Feature with the scores of the ranker you have, by name or number. mixed starts from its order; "
            "other learners use it as a feature.",
        ),
    ] = None,
    regret: Annotated[
        bool, typer.Option("--regret", help="Also compute the regret against the best fixed weights. Slower.")
    ] = False,
    workers: Workers = THREADS,
    folder: Folder = Path("trained"),
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log the first run for `peekrank evaluate`. Needs exactly one learner."),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Train rankers on judged documents, revealing k judgements per round."""
    from peekrank.reports import plots
    from peekrank.training.base_scores import score_column
    from peekrank.training.training import DEFAULT_LEARNER, Training

    start = "mixed" if score is not None else DEFAULT_LEARNER
    import_all(imports)
    configure_output(json_file, quiet=quiet)
    chosen = tuple(learners or (start,))
    training = Training(chosen, k, rounds, measure, runs, seed, regret, None if score is None else 0)
    if log and len(chosen) > 1:
        raise ValueError(f"--log needs exactly one learner, got {len(chosen)}")
    check_outputs(log, json_file, read=[data, *([test] if test else [])])
    table = table_options(relevance, query, document, columns, categories, missing)
    material, why = _gather(data, test, scaling, training, partial(read_data, table=table))
    if score is not None:
        training = replace(training, score=score_column(material.train, score))
    outcome = _train(training, material, folder, workers)
    with interrupt_later():
        plots.save(plots.average_quality(outcome), folder, "quality")
    if log:
        _write_log(training, material, log)
    used = Text(f"Scaling {material.preparation.scaling}: {why}.")
    files = Text(f"Wrote tables, plot, models and manifest to {folder}{os.sep}")
    echo(*_render(outcome, material), *_alone(training, material), used, *_next_command(training, folder), files)
    write_json(json_file, lambda: _summary(outcome, material, folder))


def _summary(outcome: TrainingResult, material: TrainTest, folder: Path) -> dict[str, Any]:
    """Return the result as the JSON output has it."""
    alone = _alone_quality(outcome.training, material)
    return {
        **asdict(outcome.training),
        "score_alone": alone[0] if alone else None,
        "score_alone_held_out": alone[1] if len(alone) > 1 else None,
        "data": outcome.source,
        "test": material.test and material.test.about.source,
        "scaling": material.preparation.scaling,
        "learners": outcome.summary_table().to_dicts(),
        "models": [str(file) for file in sorted((folder / "models").glob("*.json"))],
    }


def _gather(
    train: Path, test: Path | None, scaling: str, training: Training, read: Callable[..., Dataset]
) -> tuple[TrainTest, str]:
    """Read the training and test parts and prepare both alike. Return them and the reason for the scaling."""
    from peekrank.data.dataset import check_finite
    from peekrank.training.select_scaling import choose_scaling
    from peekrank.training.training import prepare_data

    data = read(train)
    held_out = read_like(test, data, read) if test else None
    if test and held_out:
        known = data.about.digest and data.about.digest == held_out.about.digest
        if known or test.resolve() == train.resolve():
            warnings.warn(f"{test.name} is the training part itself, so --test holds nothing out", stacklevel=2)
    why = "as requested"
    if scaling == "auto":
        check_finite(data, train.name)
        with status("choosing a scaling"):
            scaling, why = choose_scaling(data, training)
    material = prepare_data(data, held_out, scaling=scaling)
    for part in (material.train, material.test):
        if part:
            note_rounding(part)
    return material, why


def _train(training: Training, material: TrainTest, folder: Path, workers: int) -> TrainingResult:
    from peekrank.jobs.results_dir import count_finished
    from peekrank.training import runs

    total = training.total_rounds()
    runs_text = pluralize(training.runs, "run")
    with rounds_bar(total, lambda: f"{count_finished(folder)} of {runs_text}", folder) as tick:
        return runs.run_training(training, material, folder, workers=workers, progress=tick)


def _alone_quality(training: Training, material: TrainTest) -> list[float]:
    """Return the quality of the order by the score alone, on the training part and on the test part, if any."""
    from peekrank.training.base_scores import quality_alone

    parts = filter(None, (material.train, material.test))
    if training.score is None:
        return []
    return [quality_alone(part, training.score, training.make_measure()) for part in parts]


def _alone(training: Training, material: TrainTest) -> list[Text]:
    """Return a line about the order by the score alone."""
    qualities = _alone_quality(training, material)
    if not qualities:
        return []
    name = material.train.about.feature(cast("int", training.score))
    held_out = f", held out {qualities[1]:.4f}" if len(qualities) > 1 else ""
    return [Text(f"In the order of feature {name} alone: {qualities[0]:.4f}{held_out}.")]


def _write_log(training: Training, material: TrainTest, log: Path) -> None:
    """Log the first run of the only learner, with the same queries and rankings as in its curve."""
    from peekrank.evaluation.log import write_log
    from peekrank.evaluation.simulated_log import simulate_log
    from peekrank.training.run import fresh_agents, make_lists, rounds_for

    lists = make_lists(training, material, 0)
    (agent,) = fresh_agents(training, lists.rounds, training.learner_seed(0))
    rounds = rounds_for(agent.learner, training, lists.rounds)
    max_feedback = max(1, int(material.train.relevance.max()))
    with status("logging"):
        write_log(log, simulate_log(agent, rounds, sequence=lists.sequence, max_feedback=max_feedback))


def _render(outcome: TrainingResult, material: TrainTest) -> list[RenderableType]:
    """Render the table of a training, and remarks on it."""
    training, summaries = outcome.training, outcome.summaries()
    sizes = f"{pluralize(training.rounds, 'round')}, {pluralize(training.runs, 'run')}"
    title = f"{training.measure}, k = {training.k}, {sizes}, {presentable(outcome.source)}"
    held_out = material.test is not None
    heads = ["learner", "average ± sd", "last tenth ± sd"]
    heads += ["held out ± sd"] * held_out + ["explored"] + ["regret ± sd"] * training.regret
    rows = [("", _row(s, held_out=held_out, regret=training.regret)) for s in summaries]
    parts: list[RenderableType] = [TerminalTable(title, heads, rows)]
    together = "" if len(summaries) == 1 else f", {len(summaries)} learners together"
    parts.append(Text(f"{summaries[0].rounds_per_second:,.0f} rounds/s per thread{together}."))
    if all(math.isnan(s.quality) for s in summaries):
        parts.append(
            Text(f"{training.measure} counts none of the queries that were shown, so there is no quality.")
        )
    if material.test and all(s.held_out is None for s in summaries) and any(s.finite for s in summaries):
        source = presentable(material.test.about.source)
        parts.append(Text(f"{training.measure} counts no query of {source}, so there is no held-out quality."))
    for s in summaries:
        if s.finite < training.runs:
            where = f"in {training.runs - s.finite} of {pluralize(training.runs, 'run')}, and left no model there"
            parts.append(Text(f"{s.learner} diverged {where}{_remedy(material)}."))
        if s.regret is not None and s.gap is not None and not s.gap <= _CLOSE * abs(s.regret):
            parts.append(Text(f"The regret of {s.learner} may be up to {s.gap:,.0f} higher."))
    return [*parts, *_on_blank_queries(summaries, training, material)]


def _remedy(material: TrainTest) -> str:
    """Return advice for a learner that diverged: scale the features, or reduce the rate."""
    unscaled = material.preparation.scaling == "none"
    return f": try {'--scaling robust or ' if unscaled else ''}a smaller rate"


def _on_blank_queries(summaries: list[Summary], training: Training, material: TrainTest) -> Iterator[Text]:
    """Yield remarks on queries without a relevant document: number, treatment, and quality without them."""
    from peekrank.training.no_relevant import queries_without_relevant

    for part in filter(None, (material.train, material.test)):
        no_relevant = queries_without_relevant(part, training.make_measure())
        if sentence := no_relevant.sentence(presentable(part.about.source)):
            means = [s.held_out for s in summaries if s.held_out is not None] if part is material.test else []
            without = [f"{mean:.4f}" for mean in map(no_relevant.mean_without, means) if mean is not None]
            added = f"; held out without them: {', '.join(without)}" if without else ""
            yield Text(f"{sentence}{added}.")


def _next_command(training: Training, folder: Path) -> list[Text]:
    """Return a line with the command that applies the first model."""
    from peekrank.training.runs import model_file

    files = [model_file(folder, name, 0) for name in training.model_names()]
    return [Text(f"Apply it: peekrank rank {file} DATA") for file in files if file.exists()][:1]


def _row(s: Summary, *, held_out: bool, regret: bool) -> list[str]:
    cells = [s.learner, _spread(s.quality, s.quality_sd), _spread(s.final_quality, s.final_quality_sd)]
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
