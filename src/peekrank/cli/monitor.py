"""``peekrank monitor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from peekrank.monitoring.alarms import Alarm, Monitor

EXAMPLES = """\
# Look for faults in a log.
peekrank monitor log.parquet
# Keep watching a log that grows.
peekrank monitor log.jsonl --follow"""
JSON_KEYS = {
    "decisions, alpha, expected": "how many, and how many false alarms are expected at most",
    "alarms": "for each: name, item, since, latest, times, cause, action",
}


def command(
    log: Annotated[Path, typer.Argument(help="A log of decisions: Parquet or JSON lines.")],
    alpha: Annotated[float, typer.Option(help="False alarms to be expected per decision, at most.")] = 1e-6,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more at the end of the file.")] = False,
    wait: Annotated[int, typer.Option(help="Later decisions after which answers count as final.")] = 1000,
    min_propensity: Annotated[float, typer.Option(help="Probability that each candidate is promised.")] = 0.0,
    min_feedback_rate: Annotated[float, typer.Option(help="Share of decisions answered, at least.")] = 0.001,
    max_orphan_rate: Annotated[float, typer.Option(help="Share of answers to unknown decisions, at most.")] = 0.01,
    json_file: JsonFile = None,
) -> None:
    """Watch a log for faults: lists shown otherwise, answers that change, too little exploration.

    While all is well, at most ALPHA false alarms are expected per decision.
    """
    from peekrank.monitoring.alarms import Monitor
    from peekrank.monitoring.tail import monitor_log

    configure_output(json_file)
    if not log.is_file():
        raise ValueError(f"{log}: is a folder, not a log" if log.is_dir() else f"{log}: there is no such file")
    check_outputs(json_file, read=[log])
    told: set[tuple[str, int | None]] = set()

    def make(low: float, high: float) -> Monitor:
        return Monitor(
            alpha,
            grades=(low, high),
            min_propensity=min_propensity,
            min_feedback_rate=min_feedback_rate,
            max_orphan_rate=max_orphan_rate,
        )

    def tell(watch: Monitor) -> None:
        for alarm in watch.raised():
            if (key := (alarm.name, alarm.item)) not in told:
                told.add(key)
                echo(_shown(alarm))

    done = monitor_log(log, make, tell, follow=follow, wait=wait)
    expected = alpha * done.rounds
    found = pluralize(len(done.raised()), "alarm") if done.raised() else "No alarm"
    echo(Text(f"{found} in {pluralize(done.rounds, 'decision')}; by chance {expected:.2g} at most are expected."))
    alarms = [alarm.as_dict() for alarm in done.raised()]
    write_json(json_file, {"decisions": done.rounds, "alpha": alpha, "expected": expected, "alarms": alarms})


def _shown(alarm: Alarm) -> Text:
    head = f"decision {alarm.since:,}: {alarm.name}\n"
    return Text.assemble((head, "bold red"), f"  {alarm.cause}\n  {alarm.action}")
