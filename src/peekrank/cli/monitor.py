"""``peekrank monitor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._logs import LogArgument, SlotOption, is_lines, open_named_log
from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from peekrank.monitoring.alarms import Alarm, Monitor

EXAMPLES = """\
# Check a log for faults.
peekrank monitor log.parquet
# Follow a growing log.
peekrank monitor log.jsonl --follow"""
JSON_KEYS = {
    "decisions, alpha, expected": "number of decisions, expected false alarms per decision and in total, at most",
    "tolerance": "largest share by which answers or grades may fall without a fault",
    "alarms": "for each: name, item, since, latest, times, cause, action",
}


def command(
    log: LogArgument,
    alpha: Annotated[float, typer.Option(help="Largest expected number of false alarms per decision.")] = 1e-6,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new decisions at the end of the file.")
    ] = False,
    window: Annotated[
        int, typer.Option(help="Feedback on a decision is final after so many later decisions.")
    ] = 1000,
    min_propensity: Annotated[
        float, typer.Option(help="Smallest propensity that each candidate should have.")
    ] = 0.0,
    min_feedback_rate: Annotated[
        float, typer.Option(help="Smallest expected share of decisions with feedback.")
    ] = 0.001,
    max_orphan_rate: Annotated[
        float, typer.Option(help="Largest expected share of feedback on unknown decisions.")
    ] = 0.01,
    tolerance: Annotated[
        float, typer.Option(help="Largest share by which answers or grades may fall without a fault.")
    ] = 0.2,
    slot: SlotOption = None,
    json_file: JsonFile = None,
) -> None:
    """Check a log for faults: altered lists, changed answers, too little exploration.

    Without a fault, expect at most ALPHA false alarms per decision.
    """
    from peekrank.monitoring.alarms import Monitor
    from peekrank.monitoring.tail import monitor_log

    configure_output(json_file)
    check_outputs(json_file, read=[Path(log)])
    printed: set[tuple[str, int | None]] = set()

    def new_monitor(low: float, high: float) -> Monitor:
        return Monitor(
            alpha,
            grades=(low, high),
            min_propensity=min_propensity,
            min_feedback_rate=min_feedback_rate,
            max_orphan_rate=max_orphan_rate,
            tolerance=tolerance,
        )

    def print_new(monitor: Monitor) -> None:
        for alarm in monitor.raised():
            if (key := (alarm.name, alarm.item)) not in printed:
                printed.add(key)
                echo(_render(alarm))

    source = log if follow or is_lines(log) else open_named_log(log, slot)
    monitor = monitor_log(source, new_monitor, print_new, follow=follow, window=window)
    alarms, expected = monitor.raised(), alpha * monitor.rounds
    count = pluralize(len(alarms), "alarm") if alarms else "No alarm"
    decisions = pluralize(monitor.rounds, "decision")
    echo(Text(f"{count} in {decisions}. The expected number of false alarms is at most {expected:.2g}."))
    about = {"decisions": monitor.rounds, "alpha": alpha, "expected": expected, "tolerance": tolerance}
    write_json(json_file, lambda: {**about, "alarms": [alarm.as_dict() for alarm in alarms]})


def _render(alarm: Alarm) -> Text:
    head = f"decision {alarm.since:,}: {alarm.name}\n"
    return Text.assemble((head, "bold red"), f"  {alarm.cause}\n  {alarm.action}")
