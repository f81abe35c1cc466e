"""``peekrank evaluate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._options import Imports, JsonFile, Seed, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._progress import status, transient_progress
from peekrank.cli._tables import TerminalTable
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import number, percent

if TYPE_CHECKING:
    from peekrank.evaluation.evaluation import Estimate, Evaluation
    from peekrank.evaluation.log import Log
    from peekrank.evaluation.policies import Policy
    from peekrank.types import Measure

_FEW = 5  # candidates that are named

EXAMPLES = """\
# What would another order have been worth?
peekrank evaluate log.parquet --policy logged --policy order:2,0,1
# Would a learner have done better? With a report.
peekrank evaluate log.parquet --policy logged --policy marginftrl --out report"""
JSON_KEYS = {
    "measure, alpha, regression, clip": "what was asked for",
    "decisions, answered": "how many there are, and how many have all answers",
    "estimates": "for each policy: name, doubly_robust, ips, usual, anytime ...",
    "differences": "for each pair of policies: the same, with minus and verdict",
}


def command(
    log: Annotated[
        Path,
        typer.Argument(help="A log: Parquet or JSON lines, .dsjson of Vowpal Wabbit, .csv of Open Bandit."),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            help="What to evaluate: logged (what was shown), order:a,b,c, a .txt file with a name per line, a "
            "model's .json file, or a learner such as doubtsort, which learns along the log; can be repeated.",
        ),
    ],
    measure: Annotated[
        str, typer.Option(help="What a ranking is worth: dcg, dcg@5, p@3+sum, rbp, sumloss ...")
    ] = "dcg",
    alpha: Annotated[float, typer.Option(help="Probability that an interval is wrong, for each interval.")] = 0.05,
    regression: Annotated[
        str, typer.Option(help="What doubly robust estimates predict from: items, features or none.")
    ] = "items",
    clip: Annotated[
        float,
        typer.Option(
            help="Largest weight (1 / propensity) that is used; larger ones are cut off.", show_default="none"
        ),
    ] = float("inf"),
    seed: Seed = 0,
    json_file: JsonFile = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Folder for a report, a picture and a table.")
    ] = None,
    imports: Imports = None,
) -> None:
    """Estimate what other rankings would have been worth, from a log, with confidence intervals.

    A difference whose interval at all times leaves zero may be acted upon at any moment, however often one looked.
    """
    from peekrank.evaluation.evaluation import evaluate_log
    from peekrank.measures import measure as measure_named

    import_all(imports)
    judge = measure_named(measure)
    configure_output(json_file)
    check_outputs(json_file, read=[log])
    with status(f"reading {log.name}"):
        found = _read(log)
    policies = [_policy(text, found, judge, seed) for text in policy]
    if len({p.name for p in policies}) < len(policies):
        raise ValueError("--policy: the same one is given twice")
    steps = len(policies) * (len(policies) + 1) // 2
    with transient_progress("estimating", MofNCompleteColumn()) as progress:
        done = 0

        def tick(n: int) -> None:
            nonlocal done
            done += n
            progress(done, steps)

        chosen: Any = regression
        result = evaluate_log(found, policies, judge, alpha=alpha, regression=chosen, clip=clip, progress=tick)
    echo(*_shown(result, policies, log))
    write_json(json_file, result.as_json())
    if folder:
        from peekrank.reports.evaluation_page import write_evaluation

        write_evaluation(result, folder, source=log.name, notes=_notes(result, policies))
        echo(Text(f"Report, picture and table are in {folder}{os.sep}"))


def _read(path: Path) -> Log:
    from peekrank.evaluation.interop import read_dsjson, read_open_bandit
    from peekrank.evaluation.log import read_log

    if path.suffix == ".dsjson":
        return read_dsjson(path)
    return read_open_bandit(path) if path.suffix == ".csv" else read_log(path)


def _policy(text: str, log: Log, measure: Measure, seed: int) -> Policy:
    """The policy that a text names; models are known to this layer only."""
    from peekrank.evaluation.policies import by_model, policy

    if text.endswith(".json"):
        from peekrank.training.model import load_model

        return by_model(log, load_model(Path(text)), Path(text).stem)
    with transient_progress(f"replaying {text}", MofNCompleteColumn()) as progress:
        done = 0

        def tick(n: int) -> None:
            nonlocal done
            done += n
            progress(done, len(log.k))

        return policy(text, log, measure=measure, seed=seed, progress=tick)


def _shown(result: Evaluation, policies: list[Policy], log: Path) -> list[TerminalTable | Text]:
    sizes = f"{pluralize(result.decisions, 'decision')}, {result.answered:,} with all answers"
    level = f"{1 - result.alpha:.0%}"
    heads = ["policy", "estimate", f"{level}, one look", f"{level}, at all times", "IPS", "sample", "weight"]
    rows = []
    for e in result.estimates:
        ends = (_ends(e.usual), _ends(e.anytime))
        rows.append(("", [e.name, number(e.doubly_robust), *ends, number(e.ips), *_quality(e)]))
    title = f"{result.measure} per decision, {log.name}: {sizes}"
    said: list[TerminalTable | Text] = [TerminalTable(title, heads, rows)]
    if result.differences:
        heads = ["policy", "minus", "estimate", f"{level}, at all times", "if stable", "verdict"]
        rows = []
        for e in result.differences:
            cells = (number(e.doubly_robust), _ends(e.anytime), _ends(e.betting), _verdict(e, result.measure))
            rows.append(("", [e.name, e.minus, *cells]))
        said.append(TerminalTable("Differences", heads, rows))
    return said + [Text(note) for note in _notes(result, policies)]


def _ends(interval: tuple[float, float]) -> str:
    return f"{number(interval[0])} to {number(interval[1])}"


def _quality(e: Estimate) -> tuple[str, str]:
    return f"{e.effective:,.0f}", f"{e.largest:,.0f}"


def _verdict(e: Estimate, measure: Measure) -> str:
    better = (
        {"higher": "better", "lower": "worse"}
        if measure.higher_is_better
        else {"higher": "worse", "lower": "better"}
    )
    return better.get(e.verdict, "undecided")


def _notes(result: Evaluation, policies: list[Policy]) -> list[str]:
    """What there is to know about the estimates."""
    notes = [f"{p.name}: {p.note}." for p in policies if p.note]
    for e in result.estimates:
        if e.missing > 0:
            named = ", ".join(f"{name} ({n:,})" for name, n in e.unsupported[:_FEW])
            what = f"could not be seen: {named}" if named else "were not seen"
            notes.append(
                f"{e.name}: candidates that it ranks {what}. Their part, up to {number(e.missing)}, is in all "
                "intervals, and the estimate takes a prediction for it."
            )
        if e.cut > 0:
            notes.append(f"{e.name}: cutting weights off has biased the estimates by {number(e.cut)} at most.")
        if e.effective < 0.01 * e.decisions:
            share = percent(e.effective / e.decisions)
            notes.append(
                f"{e.name}: the log is worth {share} of its decisions for this policy, which it hardly showed."
            )
    return notes
