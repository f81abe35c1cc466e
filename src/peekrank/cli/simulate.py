"""``peekrank simulate``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank.cli._experiments import result_table, run_experiment, write_first_run, write_result
from peekrank.cli._options import (
    THREADS,
    Imports,
    JsonFile,
    Quiet,
    ResultsDir,
    Revealed,
    Seed,
    Workers,
    import_all,
)
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output

EXAMPLES = """\
# Today's learner, the first paper's, and chance.
peekrank simulate doubtsort rtop1f uniform --m 10 --k 1
# Learn a group's favourites, vote by vote.
peekrank simulate setftrl uniform --stream votes.soc --measure p@3+sum --out people
# Log a run, to evaluate other rankings on it.
peekrank simulate doubtsort --k 3 --log log.parquet --out logged"""
JSON_KEYS = {
    "stream, measure, k, horizon, runs, seed, same_rounds": "what was run",
    "learners": "for each: learner, regret, spread, exponent, exponent_low, exponent_high, bound, explored",
}


def command(
    learners: Annotated[
        list[str],
        typer.Argument(metavar="LEARNER", help="What learns, such as doubtsort, rtop1f or rtop1f:order=fixed."),
    ],
    measure: Annotated[
        str, typer.Option(help="What rankings are judged by: dcg, p@3+sum, ndcg@10, rbp:p=0.95 ...")
    ] = "dcg",
    stream: Annotated[
        str, typer.Option(help="What is relevant when: ct15:noise=0.25, drifting, a .soc or .csv file ...")
    ] = "ct15",
    m: Annotated[int | None, typer.Option("--m", help="Number of items, where the stream leaves it open.")] = None,
    k: Revealed = 1,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Number of runs of each learner.")] = 10,
    seed: Seed = 0,
    same_rounds: Annotated[
        bool, typer.Option("--same-rounds", help="The same rounds in every run: only the learners' luck differs.")
    ] = False,
    workers: Workers = THREADS,
    folder: ResultsDir = Path("results"),
    csv: Annotated[bool, typer.Option("--csv", help="Write the curves as CSV instead of Parquet.")] = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log the first run of the only learner, for peekrank evaluate."),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Run learners over a stream, and compare their regret."""
    from peekrank.experiments.experiment import Experiment
    from peekrank.experiments.runs import summary_rows
    from peekrank.spec import format_spec
    from peekrank.streams import stream as stream_named

    import_all(imports)
    configure_output(json_file, quiet=quiet)
    made = stream_named(stream) if m is None else stream_named(stream, m=m)
    if m is not None and made.m != m:
        raise ValueError(f"m = {m}: stream '{stream}' has {made.m} items")
    experiment = Experiment(
        tuple(learners), format_spec(made), measure, k, horizon, runs, seed, same_rounds=same_rounds
    )
    if log and len(experiment.learners) > 1:
        raise ValueError("--log: a log is of one learner, and several are given")
    check_outputs(log, json_file)
    result = run_experiment(experiment, folder, workers)
    write_result(result, folder, as_csv=csv)
    if log:
        write_first_run(experiment, log)
    echo(result_table(result), Text(f"Tables, pictures and manifest are in {folder}{os.sep}"))
    if log:
        echo(Text(f"The log is {log}: peekrank evaluate {log} --policy order:..."))
    write_json(json_file, {**asdict(experiment), "learners": summary_rows(result)})
