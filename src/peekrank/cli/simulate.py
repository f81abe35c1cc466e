"""``peekrank simulate``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank.cli._experiments import limit_text, result_table, run_experiment, write_first_run, write_result
from peekrank.cli._options import (
    THREADS,
    Folder,
    Imports,
    JsonFile,
    Quiet,
    Revealed,
    Seed,
    Workers,
    import_all,
)
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output
from peekrank.types import RegretKind

EXAMPLES = """\
# Compare three learners.
peekrank simulate doubtsort rtop1f uniform --m 10 --k 1
# Learn a group's favourites, vote by vote.
peekrank simulate setftrl uniform --stream votes.soc --measure p@3+sum --out people
# Log a run to evaluate other rankings on it.
peekrank simulate doubtsort --k 3 --log log.parquet --out logged"""
JSON_KEYS = {
    "stream, measure, k, horizon, runs, seed, same_rounds, regret": "the options",
    "learners": "for each: learner, regret, spread, exponent, exponent_low, exponent_high, bound, explored",
}


def command(
    learners: Annotated[
        list[str],
        typer.Argument(metavar="LEARNER", help="Learner, such as doubtsort, rtop1f or rtop1f:order=fixed."),
    ],
    measure: Annotated[
        str, typer.Option(help="Measure of rankings: dcg, p@3+sum, ndcg@10, rbp:p=0.95 ...")
    ] = "dcg",
    stream: Annotated[
        str, typer.Option(help="Stream of relevance: ct15:noise=0.25, drifting, a .soc or .csv file ...")
    ] = "ct15",
    m: Annotated[int | None, typer.Option("--m", help="Number of items, if the stream does not fix it.")] = None,
    k: Revealed = 1,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    runs: Annotated[int, typer.Option(help="Number of runs of each learner.")] = 10,
    seed: Seed = 0,
    same_rounds: Annotated[
        bool,
        typer.Option(
            "--same-rounds", help="Use the same rounds in every run. Only the learners' randomness differs."
        ),
    ] = False,
    regret: Annotated[
        RegretKind,
        typer.Option(
            help="Compare with the best fixed ranking in hindsight, with the best by expected relevance (pseudo), "
            "with the best of each round (dynamic), or with 0 (none)."
        ),
    ] = "static",
    workers: Workers = THREADS,
    folder: Folder = Path("results"),
    csv: Annotated[bool, typer.Option("--csv", help="Write the curves as CSV instead of Parquet.")] = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log the first run for `peekrank evaluate`. Needs exactly one learner."),
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Run learners on a stream and compare their regret."""
    from peekrank.experiments.experiment import Experiment
    from peekrank.experiments.runs import summary_rows
    from peekrank.spec import format_spec
    from peekrank.streams import stream as stream_named

    import_all(imports)
    configure_output(json_file, quiet=quiet)
    source = stream_named(stream) if m is None else stream_named(stream, m=m)
    if m is not None and source.m != m:
        raise ValueError(f"m = {m}: stream '{stream}' has {source.m} items")
    experiment = Experiment(
        tuple(learners), format_spec(source), measure, k, horizon, runs, seed, same_rounds, regret
    )
    if log and len(experiment.learners) > 1:
        raise ValueError(f"--log needs exactly one learner, got {len(experiment.learners)}")
    check_outputs(log, json_file)
    result = run_experiment(experiment, folder, workers)
    write_result(result, folder, as_csv=csv)
    if log:
        write_first_run(experiment, log)
    limit = limit_text(experiment.lower_bound, horizon)
    echo(result_table(result), *limit, Text(f"Wrote tables, plots and manifest to {folder}{os.sep}"))
    if log:
        echo(Text(f"Wrote the log to {log}. Evaluate it: peekrank evaluate {log} --policy order:..."))
    write_json(json_file, lambda: {**asdict(experiment), "learners": summary_rows(result)})
