"""The command line: parse, call, print."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from peekrank._util.signals import interrupt_later
from peekrank._util.text import counted
from peekrank.cli import data as cli_data
from peekrank.cli import learn as cli_learn
from peekrank.cli import reproduce as cli_reproduce
from peekrank.cli._progress import passing_bar
from peekrank.jobs.executor import Threads

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.experiments.experiment import Experiment, Result
    from peekrank.experiments.study import Findings, Study
    from peekrank.experiments.sweep import Sweep
    from peekrank.experiments.sweep_runs import Finished
    from peekrank.jobs.executor import Executor
    from peekrank.training.training import Material, Outcome, Training

app = typer.Typer(
    help="Learn a whole ranking from a peek at its top.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

Workers = Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the answer as JSON.")]
_THREADS = os.cpu_count() or 1


def main() -> None:
    """Run the command line; of a file name that is not UTF-8, what can be shown is shown."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    app()


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Say what was wrong in a line, and end with code 2; Ctrl-C ends with code 130. Warnings are notes."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_once()
            yield
    except (ValueError, ArithmeticError, OSError, MemoryError) as error:
        message = "\n".join([str(error) or "not enough memory", *getattr(error, "__notes__", ())])
        err.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        err.print("stopped")
        raise typer.Exit(130) from None


def _say_once() -> Callable[..., None]:
    """A way to show warnings: as notes, each once, though the same learner is made several times."""
    said = set()

    def note(message: Warning | str, *_: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            err.print(f"[bold]note:[/] {escape(str(message))}", highlight=False, soft_wrap=True)

    return note


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from importlib.metadata import version as version_of

        out.print(f"peekrank {version_of('peekrank')}", highlight=False)
        raise typer.Exit


@app.command()
def simulate(
    learners: Annotated[list[str], typer.Argument(help="Learners, for instance: rtop1f rtop1f:order=fixed ftpl.")],
    measure: Annotated[
        str, typer.Option(help="What rankings are judged by: dcg, p@3, ndcg@10, sumloss ...")
    ] = "dcg",
    stream: Annotated[str, typer.Option(help="What happens: ct15:noise=0.25, a .soc/.csv file ...")] = "ct15",
    m: Annotated[int | None, typer.Option("--m", help="Number of items, where the stream leaves it open.")] = None,
    k: Annotated[int, typer.Option("--k", help="Number of items, from the top, whose relevance is revealed.")] = 1,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Number of runs of each learner.")] = 10,
    seed: Annotated[int, typer.Option(help="Randomness of everything.")] = 0,
    same_rounds: Annotated[
        bool, typer.Option("--same-rounds", help="The same rounds in every run: only the learners' luck differs.")
    ] = False,
    workers: Workers = _THREADS,
    folder: Annotated[Path, typer.Option("--out", help="Folder for results; run again to go on.")] = Path(
        "results"
    ),
    csv: Annotated[bool, typer.Option("--csv", help="Write the curves as CSV instead of Parquet.")] = False,
) -> None:
    """Run learners over a stream, and compare their regret."""
    with _plain_errors():
        from peekrank.experiments.experiment import Experiment
        from peekrank.spec import text_of
        from peekrank.streams import stream as stream_named

        made = stream_named(stream) if m is None else stream_named(stream, m=m)
        if m is not None and made.m != m:
            raise ValueError(f"m = {m}: stream '{stream}' has {made.m} items")
        experiment = Experiment(
            tuple(learners), text_of(made), measure, k, horizon, runs, seed, redraw=not same_rounds
        )
        result = _run(experiment, folder, workers)
        _write(result, folder, as_csv=csv)
        out.print(_table(result))
        out.print(f"Tables, pictures and manifest are in {folder}{os.sep}", highlight=False)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("peekrank-demo"),
    workers: Workers = _THREADS,
) -> None:
    """Run the experiment of the first paper (its Figures 1 and 2), and explain it in a report."""
    with _plain_errors():
        from peekrank.experiments.experiment import Experiment
        from peekrank.reports.experiment_page import write_report

        experiment = Experiment(
            learners=("rtop1f", "rtop1f:order=fixed", "ftpl", "uniform"),
            stream="ct15:m=10,noise=0.25",
            measure="dcg",
            k=1,
            horizon=10_000,
            redraw=False,
        )
        result = _run(experiment, folder, workers)
        _write(result, folder, as_csv=False)
        report = write_report(result, folder / "report.html", title="Ranking with top-1 feedback")
        out.print(_table(result))
        out.print(f"Now open this page in a browser: {report.resolve().as_uri()}", highlight=False, soft_wrap=True)


@app.command()
def game(
    name: Annotated[
        str | None,
        typer.Argument(help="A measure, a classic game, or a .csv or .json file; without: all measures, every k."),
    ] = None,
    m: Annotated[int | None, typer.Option("--m", help="Number of items.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Number of items, from the top, that are answered.")] = None,
    grades: Annotated[int | None, typer.Option(help="Number of relevance grades.", show_default="2")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Where rates come from: theorem, definitions (slow for many items), or both.",
            show_default="both if that is quick",
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the table: .png, .svg or .pdf.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the proof, for your own check, as JSON.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Tell how fast regret must grow, and why: whether a problem can be learned at all."""
    with _plain_errors():
        from peekrank.cli import game as cli_games

        cli_games.check_files(json_file, certificate, picture=picture, game=name)
        files = {"--picture": picture, "--certificate": certificate, "--json": json_file}
        options = {"--m": m, "--k": k, "--grades": grades, "--from": source, **files}
        with passing_bar("working it out", err, TaskProgressColumn()) as progress:
            told = cli_games.tell(name, options, progress)
        _print(told.shown)
        if json_file:
            _write_json(json_file, told.data)
        if picture and told.table:
            from peekrank.reports import plots

            with interrupt_later():
                plots.save_as(plots.rates(told.table), picture)
        if certificate and told.analysis:
            from peekrank.games.certificate import certificate as certificate_of

            with err.status("proving it"):
                proof = certificate_of(told.analysis)
            _write_json(certificate, proof, indent=None)
            _print(["", *cli_games.tell_certificate(proof, certificate, told.data)])


@app.command()
def advise(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MEASURE|SURROGATE",
            help="What rankings are judged by: dcg, p@3, ndcg@10; or what scores are: squared, kl, listnet ...",
        ),
    ],
    m: Annotated[int, typer.Option("--m", help="Number of items.")],
    k: Annotated[int, typer.Option("--k", help="Number of items, from the top, whose relevance is revealed.")],
    horizon: Annotated[
        int | None, typer.Option(help="Number of rounds; a measure needs it.", show_default=False)
    ] = None,
    grades: Annotated[int, typer.Option(help="Number of relevance grades.")] = 2,
    json_file: JsonFile = None,
) -> None:
    """Say before the first round what to expect, which learner to use, and what would help."""
    with _plain_errors():
        from peekrank.cli import game as cli_games

        cli_games.check_files(json_file)
        found = cli_games.advice_on(name, m, k, horizon, grades)
        _print(cli_games.tell_advice(found, json_file))
        if json_file:
            _write_json(json_file, found.as_dict())


@app.command()
def rates(
    measure: Annotated[str, typer.Argument(help="What rankings are judged by: dcg, p@3, sumloss ...")],
    m: Annotated[int, typer.Option("--m", help="Number of items.")],
    k: Annotated[int, typer.Option("--k", help="Number of items, from the top, whose relevance is revealed.")],
    learners: Annotated[
        list[str] | None,
        typer.Argument(help="Learners, for instance: rtop1f setftrl:horizon=none.", show_default="all that fit"),
    ] = None,
    grades: Annotated[int, typer.Option(help="Number of relevance grades.")] = 2,
    horizons: Annotated[str, typer.Option(help="Numbers of rounds.")] = "2000,4000,8000,16000,32000,64000,128000",
    runs: Annotated[int, typer.Option(help="Number of runs for each stream and horizon.")] = 10,
    seed: Annotated[int, typer.Option(help="Randomness of everything.")] = 0,
    workers: Workers = _THREADS,
    folder: Annotated[Path, typer.Option("--out", help="Folder for results; run again to go on.")] = Path("rates"),
) -> None:
    """Measure how fast regret grows: the worst of a family of streams, for horizons from short to long."""
    with _plain_errors():
        from peekrank.cli import rates as cli_rates
        from peekrank.experiments.study import Study
        from peekrank.reports import plots

        lengths = cli_rates.read_horizons(horizons)
        with err.status("looking which learners fit"):
            chosen, unfit = cli_rates.choose(learners, measure, m, k, grades=grades, horizons=lengths)
        study = Study(measure, m, k, chosen, grades, lengths, runs, seed)
        findings = _investigate(study, folder, workers)
        plots.save(plots.worst_regret(findings), folder, "rates")
        _print(cli_rates.tell(findings, unfit))
        out.print(f"Tables, picture and manifest are in {folder}{os.sep}", highlight=False)


@app.command()
def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="What to run, as TOML; --example shows one.", show_default=False)
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder for results; run again to go on.")] = Path("sweep"),
    engine: Annotated[
        str, typer.Option(help="What does the work: threads, or ray (pip install 'peekrank\\[ray]').")
    ] = ("threads"),
    address: Annotated[
        str | None, typer.Option(help="Ray cluster: host:port or auto.", show_default="one on this machine")
    ] = None,
    workers: Workers = _THREADS,
    latex: Annotated[bool, typer.Option("--latex", help="Write the tables as LaTeX, too.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the tables as Markdown, too.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a file to begin with, and stop.")] = False,
) -> None:
    """Run learners over all combinations of streams, measures, k and horizons, and tell which are better."""
    with _plain_errors():
        from peekrank.cli import sweep as cli_sweep
        from peekrank.experiments.sweep import EXAMPLE, read_sweep

        if example:
            out.print(EXAMPLE, end="", highlight=False, markup=False, soft_wrap=True)
            return
        if file is None:
            raise ValueError("no file given; `peekrank sweep --example > example.toml` makes one to begin with")
        chosen = cli_sweep.engine_named(engine, address, workers)
        finished = _sweep(read_sweep(file), folder, chosen)
        with interrupt_later():
            cli_sweep.write_papers(finished, folder, latex=latex, markdown=markdown)
            pictures = cli_sweep.write_report(finished, folder)
        _print(cli_sweep.tell(finished))
        out.print(f"Tables, runs and manifest are in {folder}{os.sep}", highlight=False)
        out.print(pictures, highlight=False, soft_wrap=True)


@app.command()
def learn(
    data: Annotated[Path, typer.Argument(help="Training part: LETOR or SVMlight text, or a .peek file.")],
    learners: Annotated[
        list[str] | None,
        typer.Argument(
            help="Learners: rtopkf rtopkf:surrogate=kl as_printed:surrogate=squared uniform.",
            show_default="rtopkf",
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Hold the result against this part.")] = None,
    k: Annotated[int, typer.Option("--k", help="Number of documents, from the top, that are answered.")] = 1,
    surrogate: Annotated[
        str | None, typer.Option(help="squared, kl, ranksvm, smoothdcg or listnet.", show_default="squared")
    ] = None,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="The paper's algorithm with the paper's parameters.")
    ] = False,
    measure: Annotated[str, typer.Option(help="Quality: ndcg@10, ndcg@10+skip, p@3, ap ...")] = "ndcg@10",
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 100_000,
    runs: Annotated[int, typer.Option(help="Number of runs, each in an order of its own.")] = 5,
    seed: Annotated[int, typer.Option(help="Randomness of everything.")] = 0,
    scaling: Annotated[
        str, typer.Option(help="Scale features: none, query (min-max), global (mean, sd), online (as they come).")
    ] = "none",
    regret: Annotated[
        bool, typer.Option("--regret", help="Regret in the surrogate against the best fixed weights; slower.")
    ] = False,
    workers: Workers = _THREADS,
    folder: Annotated[Path, typer.Option("--out", help="Folder for results; run again to go on.")] = Path(
        "learned"
    ),
) -> None:
    """Learn rankers from a file of judged documents, of which k a round are told, and save them."""
    with _plain_errors():
        from peekrank.reports import plots
        from peekrank.training.training import Training

        chosen = cli_learn.choose(learners, surrogate, as_printed=as_printed)
        training = Training(chosen, k, rounds, measure, runs, seed, regret)
        material = cli_learn.gather(data, test, scaling)
        outcome = _learn(training, material, folder, workers)
        with interrupt_later():
            plots.save(plots.average_quality(outcome), folder, "quality")
        _print(cli_learn.tell(outcome, material, folder))
        out.print(f"Tables, picture, models and manifest are in {folder}{os.sep}", highlight=False)


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of `peekrank simulate` or of `peekrank learn`.")],
    folds: Annotated[
        bool, typer.Option("--folds", help="They are folds of one data set: compare over folds, not over runs.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as LaTeX.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as Markdown.")] = None,
) -> None:
    """Tell which learners are better, over runs or folds, and which differences may be luck."""
    with _plain_errors():
        from peekrank.cli import compare as cli_compare

        cli_compare.check_outputs(folders, csv, latex, markdown)
        found = cli_compare.compare_folders(folders, folds=folds)
        with interrupt_later():
            cli_compare.write(found, csv=csv, latex=latex, markdown=markdown)
        _print(cli_compare.tell(found))


app.command()(_plain_errors()(cli_learn.rank))
app.command()(_plain_errors()(cli_data.data))
app.command()(_plain_errors()(cli_reproduce.reproduce))


@app.command(name="list")
def list_names() -> None:
    """List the learners, measures, surrogates and streams, with what each is."""
    from peekrank.registry import KINDS

    for kind in KINDS:
        table = Table(kind.kind, "what it is", box=None, pad_edge=False)
        for name, cls in kind.items():
            table.add_row(name, escape((cls.__doc__ or "").splitlines()[0]))
        out.print(table, "")


def _run(experiment: Experiment, folder: Path, workers: int) -> Result:
    from peekrank.experiments import runs
    from peekrank.jobs.folder import finished

    with err.status("compiling (once)"):
        runs.compile_kernels(experiment)
    wanted = experiment.runs * len(experiment.learners)
    with _rounds_bar(
        experiment.horizon * wanted, lambda: f"{finished(folder)} of {counted(wanted, 'run')}", folder
    ) as tick:
        return runs.run(experiment, folder, workers=workers, progress=tick)


def _investigate(study: Study, folder: Path, workers: int) -> Findings:
    from peekrank.experiments import study as laboratory

    with err.status("compiling (once)"):
        laboratory.compile_kernels(study)
    wanted = len(study.streams) * len(study.horizons)
    with _rounds_bar(study.rounds, lambda: f"{laboratory.finished(folder)} of {wanted} cells", folder) as tick:
        return laboratory.investigate(study, folder, workers=workers, progress=tick)


def _sweep(sweep: Sweep, folder: Path, engine: Executor) -> Finished:
    from peekrank.experiments import runs, sweep_runs

    wanted = len(sweep.settings) * len(sweep.learners) * sweep.runs
    if isinstance(engine, Threads):
        with err.status("compiling (once)"):
            runs.compile_kernels(sweep.settings[0])
    with _rounds_bar(
        sweep.rounds, lambda: f"{sweep_runs.finished_runs(sweep, folder)} of {wanted} runs", folder
    ) as tick:
        return sweep_runs.run_sweep(sweep, folder, engine=engine, progress=tick)


def _learn(training: Training, material: Material, folder: Path, workers: int) -> Outcome:
    from peekrank.jobs.folder import finished
    from peekrank.training import training as learning

    with err.status("compiling (once)"):
        learning.compile_kernels(training, material)
    total = learning.rounds_of(training)
    with _rounds_bar(total, lambda: f"{finished(folder)} of {counted(training.runs, 'run')}", folder) as tick:
        return learning.learn(training, material, folder, workers=workers, progress=tick)


@contextmanager
def _rounds_bar(rounds: int, finished: Callable[[], str], folder: Path) -> Iterator[Callable[[int], None]]:
    """A progress bar of rounds; Ctrl-C says what is finished, and ends with code 130."""
    from peekrank.jobs.executor import InterruptedRunError

    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("rounds", total=rounds)
        try:
            yield lambda n: bar.advance(task, n)
        except InterruptedRunError:
            bar.stop()
            err.print(
                f"stopped; {finished()} are finished and kept in {folder}{os.sep} - the same command goes on from "
                "there",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(130) from None


def _write_json(path: Path, data: dict[str, Any], indent: int | None = 1) -> None:
    from peekrank._util.atomic import write_whole

    text = json.dumps(data, indent=indent, allow_nan=False)
    with interrupt_later():
        write_whole(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def _print(parts: list[RenderableType]) -> None:
    for part in parts:
        out.print(part, highlight=False, soft_wrap=isinstance(part, Text))


def _write(result: Result, folder: Path, *, as_csv: bool) -> None:
    from peekrank.experiments import runs
    from peekrank.reports import plots

    runs.write_tables(result, folder, as_csv=as_csv)
    plots.save(plots.cumulative_regret(result), folder, "regret")
    plots.save(plots.average_regret(result), folder, "average")


def _table(result: Result) -> Table:
    from peekrank.reports.experiment_page import exponent_text, number, percent

    experiment = result.experiment
    sizes = f"{counted(experiment.horizon, 'round')}, {counted(experiment.runs, 'run')}"
    title = f"{experiment.measure}, k = {experiment.k}, {sizes}"
    table = Table(
        title=f"{title}, {escape(experiment.stream)}",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("learner", overflow="fold", min_width=10)
    for header in ("regret ± sd", "exponent, 95 %", "bound", "explored", "rounds/s"):
        table.add_column(header, justify="right", overflow="fold", min_width=6)
    for s in result.summaries():
        speed = s.rounds_per_second
        table.add_row(
            escape(s.learner),
            f"{number(s.regret)} ± {number(s.spread)}",
            exponent_text(s.exponent),
            number(s.bound),
            percent(s.explored),
            f"{speed / 1000:,.0f}k" if speed >= 10_000 else f"{speed:,.0f}",
        )
    return table
