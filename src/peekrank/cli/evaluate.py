"""``peekrank evaluate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._errors import print_error
from peekrank.cli._logs import LogArgument, SlotOption, open_named_log
from peekrank.cli._options import Address, ExecutorName, Imports, JsonFile, Seed, executor_named, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._progress import exit_interrupted, status, transient_progress
from peekrank.cli._tables import TerminalTable
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import number, percent

if TYPE_CHECKING:
    from peekrank.evaluation.bounds import Bounds
    from peekrank.evaluation.evaluation import Estimate, Evaluation
    from peekrank.evaluation.holdout import HoldoutVerdict
    from peekrank.evaluation.log import Scope
    from peekrank.evaluation.policies import Ranker
    from peekrank.evaluation.sources import LogSource
    from peekrank.types import Measure

_MAX_NAMES = 5  # candidates named in a note
_COLUMNS = (
    "ESS is the effective sample size: the number of decisions that the log is worth for this policy.",
    "Max weight is the largest factor by which a single answer counts (1 / propensity; 0: no weights are needed).",
)

EXAMPLES = """\
# Estimate the value of another order.
peekrank evaluate log.parquet --policy logged --policy order:2,0,1
# Compare the two rankers of the log of a Comparison.
peekrank evaluate visits.jsonl --policy feature:1 --policy feature:2 --measure dcg@3
# Is the learner better than the app's own order?
peekrank evaluate home.parquet
# Evaluate a table with a row per event and item.
peekrank evaluate shown.csv --columns columns.toml --policy logged --policy order:tea,milk
# Compare two orders on the log of a running service.
peekrank evaluate peekrank.db --policy order:a,b --policy order:b,a
# Estimate the value of a learner, and write a report.
peekrank evaluate log.parquet --policy logged --policy marginftrl --out report"""
JSON_KEYS = {
    "measure, alpha, simultaneous, regression, clip": "the options",
    "decisions, answered": "number of decisions, and of those that count",
    "estimates": "for each policy: name, baseline, alpha, decisions, ips, snips, dr, std_error, ips_std_error, "
    "fixed_n, anytime, betting, ess, max_weight, clip_bias, support_gap, unsupported, checkpoints, means, lows, "
    "highs",
    "differences": "for each pair of policies: the same, with verdict: whether the value is higher or lower than "
    "that of the baseline, or undecided",
    "holdout": "if the log has one: measure, higher_is_better, lists, held, visitors, alpha, difference and "
    "two_samples (estimate, low, high), plain, std_error, remaining, better, agrees, verdict",
}


def command(
    log: LogArgument,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="Policy to evaluate: logged (as shown), score (the app's own order), feature:1 (by the first "
            "feature), order:a,b,c, a .txt file with one name per line, a model's .json file, or a learner such "
            "as doubtsort, which is replayed over the log. Repeatable. Optional for a log with a holdout.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option(help="Measure of rankings: dcg, dcg@5, p@3+sum, rbp, sumloss ...")
    ] = "dcg",
    alpha: Annotated[float, typer.Option(help="Error probability of the intervals.")] = 0.05,
    separate: Annotated[
        bool,
        typer.Option("--separate", help="Give each difference ALPHA itself, instead of dividing it among them."),
    ] = False,
    regression: Annotated[
        str, typer.Option(help="Regression of the doubly robust estimate: items, mean, features or none.")
    ] = "items",
    clip: Annotated[
        float,
        typer.Option(help="Clip weights (1 / propensity) at this value.", show_default="none"),
    ] = float("inf"),
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Also count decisions with answers about some of the candidates seen."),
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Read LOG as a table with a row per event and item: event=session,item=sku,position=rank,"
            "reward=clicked,propensity=p, or a .toml file with them under [columns]. Further roles: score, "
            "prediction, k, time, features=a+b.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option(help="Number of items seen in each event of a table.", show_default="by rewards")
    ] = None,
    reward_range: Annotated[
        str, typer.Option("--reward-range", help="Smallest and largest possible reward of a table.")
    ] = "0,1",
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Compute propensities: the logger drew rankings from a softmax of score / TEMPERATURE.",
            show_default=False,
        ),
    ] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Only bound the values, without using propensities.")
    ] = False,
    slot: SlotOption = None,
    executor: ExecutorName = "threads",
    address: Address = None,
    workers: Annotated[int, typer.Option(help="Number of threads or processes that read Parquet files.")] = 1,
    seed: Seed = 0,
    json_file: JsonFile = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Folder for a report, a plot and a table.")
    ] = None,
    imports: Imports = None,
) -> None:
    """Estimate from a log the value that other rankings would have had, with confidence intervals.

    If the anytime interval of a difference excludes zero, you may act on it, however often you looked before.
    """
    from peekrank.evaluation.evaluation import Options, evaluate_source
    from peekrank.evaluation.holdout import holdout_of_log
    from peekrank.evaluation.saved_fold import SavedFold
    from peekrank.evaluation.sources import whole_log
    from peekrank.jobs.executor import Threads
    from peekrank.measures import measure as measure_named

    import_all(imports)
    goal = measure_named(measure)
    configure_output(json_file)
    chosen_executor = executor_named(executor, address, workers)
    spread = None if chosen_executor == Threads(1) else chosen_executor
    check_outputs(json_file, read=[Path(log)])
    chosen: Any = regression
    options = Options(alpha, not separate, chosen, clip, partial)
    options.check()
    with status(f"reading names and numbers of {Path(log).name}"):
        source, notes, bounded = _open(log, slot, columns, k, reward_range, temperature)
        bounds |= bounded
        verdict = holdout_of_log(whole_log(source), alpha=alpha) if source.scope.holdout else None
    if verdict is not None:
        echo(_holdout(verdict, source.name))
    for note in notes:
        print_error(note, "note: ")
    if not policy:
        if verdict is None:
            raise ValueError("--policy is missing: name what to evaluate, for example --policy logged")
        if folder:
            raise ValueError("--out needs a policy: name what to evaluate, for example --policy logged")
        write_json(json_file, lambda: {"holdout": verdict.as_json()})
        return
    rankers = [_ranker(text, source.scope, goal, seed) for text in policy]
    if len({one.name for one in rankers}) < len(rankers):
        raise ValueError("--policy names the same policy twice; name each once")
    if bounds:
        if folder:
            raise ValueError("--out writes estimates, and this log is only bounded; use --json")
        _bound(source, rankers, goal, alpha, json_file)
        return
    saved = None
    if folder:
        settings = {"policies": policy, "measure": str(goal), "options": repr(options), "seed": seed}
        saved = SavedFold(folder / "unfinished.state", source, settings)
    total = source.scope.decisions
    with transient_progress("estimating", MofNCompleteColumn()) as progress:
        done = 0

        def tick(n: int) -> None:
            nonlocal done
            if done == 0 and n and saved and saved.resumed:
                print_error(f"continuing after {pluralize(n, 'decision')}", "note: ")
            done += n
            progress(done, total)

        try:
            result = evaluate_source(source, rankers, goal, options, saved=saved, executor=spread, progress=tick)
        except KeyboardInterrupt:
            if not (folder and saved and saved.exists):
                raise
            exit_interrupted(f"the estimates from {pluralize(done, 'decision')} are kept", folder)
    echo(*_render(result, rankers, source.name, counted="with answers" if partial else "with all answers"))
    told = None if verdict is None else verdict.as_json()
    write_json(json_file, lambda: result.as_json() | ({} if told is None else {"holdout": told}))
    if folder:
        from peekrank.reports.evaluation_page import write_evaluation

        write_evaluation(result, folder, source=source.name, notes=_notes(result, rankers))
        echo(Text(f"Wrote report, plot and table to {folder}{os.sep}"))


def _holdout(verdict: HoldoutVerdict, log: str) -> Text:
    """Describe the verdict of the holdout in a log."""
    mean, low, high = verdict.two_samples
    means = f" Plain means: {number(mean)} ({number(low)} to {number(high)});" if verdict.plain else ""
    visitors = f", {pluralize(verdict.visitors, 'visitor')}" if verdict.visitors < verdict.lists else ""
    kinds = ["in your order"] * (verdict.plain > 0) + ["mixed"] * (verdict.plain < verdict.lists)
    counts = f"{pluralize(verdict.held, 'list')} {' or '.join(kinds)}{visitors}"
    return Text(f"Holdout, {log}: {verdict}{means} {counts}.")


def _open(
    log: str, slot: str | None, columns: str | None, k: int | None, reward_range: str, temperature: float | None
) -> tuple[LogSource, list[str], bool]:
    """Open a log. Return it with the notes on what it lacks, and whether its values can only be bounded."""
    from peekrank.evaluation.softmax import SoftmaxSource
    from peekrank.evaluation.sources import MemorySource

    if columns is not None:
        from peekrank.evaluation.tables import parse_columns, read_table_log

        path, (low, high) = Path(log), _range(reward_range)
        table = read_table_log(
            path, parse_columns(columns), k=k, temperature=temperature, min_feedback=low, max_feedback=high
        )
        return MemorySource(path.name, table.log), table.notes, not table.has_propensities
    if k is not None or reward_range != "0,1":
        raise ValueError("--k and --reward-range are for tables: name their columns with --columns")
    source = open_named_log(log, slot)
    return source if temperature is None else SoftmaxSource(source, temperature), [], False


def _range(text: str) -> tuple[float, float]:
    """Parse the range of rewards."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        low, high = 1.0, 0.0
    if not (low < high and abs(low) < 1e300 and abs(high) < 1e300):
        raise ValueError(f"--reward-range {text}: must be two numbers, the smaller one first, such as 0,1")
    return low, high


def _bound(source: LogSource, rankers: list[Ranker], goal: Measure, alpha: float, json_file: Path | None) -> None:
    """Print the bounds on the values of policies."""
    from peekrank.evaluation.bounds import bound_source

    with transient_progress("bounding", MofNCompleteColumn()) as progress:
        done = 0

        def tick(n: int) -> None:
            nonlocal done
            done += n
            progress(done, source.scope.decisions)

        result = bound_source(source, rankers, goal, alpha=alpha, progress=tick)
    level = f"{1 - alpha:.0%}"
    heads = ["policy", "in this log", f"{level} anytime", "same relevance everywhere"]
    sizes = f"{pluralize(result.decisions, 'decision')}, {percent(result.seen)} of the candidates with answers"
    tables: list[TerminalTable | Text] = []
    bounds = f"Bounds on {goal} per decision, {source.name}: {sizes}"
    for title, part in ((bounds, result.values), ("Differences", result.differences)):
        rows = []
        for one in part:
            last = "" if one.stationary is None else _ends(one.stationary)
            names = [one.name, one.baseline] if one.baseline else [one.name]
            verdict = [_verdict(one, goal)] if one.baseline else []
            rows.append(("", [*names, _ends(one.log), _ends(one.anytime), last, *verdict]))
        if rows:
            both = ["policy", "minus", *heads[1:], "verdict"] if part is result.differences else heads
            tables.append(TerminalTable(title, both, rows))
    notes = (
        "'In this log' is certain: whatever was not seen may have had any possible answer.",
        "'Same relevance everywhere' holds only if an item is equally relevant in every decision, shown or not.",
    )
    echo(*tables, *(Text(note) for note in notes))
    write_json(json_file, result.as_json)


def _ranker(text: str, scope: Scope, measure: Measure, seed: int) -> Ranker:
    """Return the ranker that a text names. Models are loaded here: `evaluation` cannot import training."""
    from peekrank.evaluation.policies import ModelRanker, ranker

    if text.endswith(".json"):
        from peekrank.training.model import load_model

        return ModelRanker(load_model(Path(text)), Path(text).stem)
    return ranker(text, scope, measure=measure, seed=seed)


def _render(result: Evaluation, rankers: list[Ranker], log: str, *, counted: str) -> list[TerminalTable | Text]:
    sizes = f"{pluralize(result.decisions, 'decision')}, {result.answered:,} {counted}"
    level = f"{1 - result.alpha:.0%}"
    heads = ["policy", "estimate", f"{level} CI", f"{level} anytime CI", "IPS", "ESS", "max weight"]
    rows = []
    for e in result.estimates:
        ends = (_ends(e.fixed_n), _ends(e.anytime))
        rows.append(("", [e.name, number(e.dr), *ends, number(e.ips), *_quality(e)]))
    title = f"{result.measure} per decision, {log}: {sizes}"
    parts: list[TerminalTable | Text] = [TerminalTable(title, heads, rows)]
    if result.differences:
        one = f"{level} anytime CI" if len(result.differences) == 1 else "anytime CI"
        heads = ["policy", "minus", "estimate", one, "anytime, stationary", "verdict"]
        rows = []
        for e in result.differences:
            cells = (number(e.dr), _ends(e.anytime), _ends(e.betting), _verdict(e, result.measure))
            rows.append(("", [e.name, e.baseline, *cells]))
        parts.append(TerminalTable(_differences(result, level), heads, rows))
    return parts + [Text(note) for note in (*_COLUMNS, *_notes(result, rankers))]


def _differences(result: Evaluation, level: str) -> str:
    """Return the title of the table of differences, which says what the level refers to if there are several."""
    count = len(result.differences)
    if count == 1:
        return "Differences"
    return (
        f"Differences: {level} for all {count} together" if result.simultaneous else f"Differences: {level} each"
    )


def _ends(interval: tuple[float, float]) -> str:
    return f"{number(interval[0])} to {number(interval[1])}"


def _quality(e: Estimate) -> tuple[str, str]:
    return f"{e.ess:,.0f}", f"{e.max_weight:,.0f}"


def _verdict(e: Estimate | Bounds, measure: Measure) -> str:
    """Say whether a policy is better: a higher value is better, but a higher loss is worse."""
    better = (
        {"higher": "better", "lower": "worse"}
        if measure.higher_is_better
        else {"higher": "worse", "lower": "better"}
    )
    return better.get(e.verdict, "undecided")


def _notes(result: Evaluation, rankers: list[Ranker]) -> list[str]:
    """Return the caveats of the estimates."""
    notes = [f"{one.name}: {one.note()}." for one in rankers if one.note()]
    for e in result.estimates:
        if e.support_gap > 0:
            named = ", ".join(f"{name} ({n:,})" for name, n in e.unsupported[:_MAX_NAMES])
            what = f"had propensity 0: {named}" if named else "were not seen"
            notes.append(
                f"{e.name}: candidates that it ranks {what}. They contribute at most {number(e.support_gap)}. All "
                "intervals include this, and the estimate uses a prediction."
            )
        if e.clip_bias > 0:
            notes.append(f"{e.name}: clipping has biased the estimates by at most {number(e.clip_bias)}.")
        if e.ess < 0.01 * e.decisions:
            share = percent(e.ess / e.decisions)
            notes.append(
                f"{e.name}: the effective sample size is {share} of the decisions, because the log rarely showed "
                "this ranking."
            )
    return notes
