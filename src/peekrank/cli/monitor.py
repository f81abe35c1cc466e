"""``peekrank watch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.text import counted
from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, say, write_json
from peekrank.cli._voice import speak

if TYPE_CHECKING:
    from peekrank.evidence.alarms import Alarm, Watch

EXAMPLES = """\
# Look for faults in a log.
peekrank watch log.parquet
# Keep watching a log that grows.
peekrank watch log.jsonl --follow"""
JSON_KEYS = {
    "decisions, alpha, expected": "how many, and how many false alarms are expected at most",
    "alarms": "for each: name, item, since, latest, times, cause, action",
}


def command(
    log: Annotated[Path, typer.Argument(help="A log of decisions: Parquet or JSON lines.")],
    alpha: Annotated[float, typer.Option(help="False alarms to be expected per decision, at most.")] = 1e-6,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more at the end of the file.")] = False,
    wait: Annotated[int, typer.Option(help="Later decisions after which answers count as final.")] = 1000,
    promised: Annotated[float, typer.Option(help="Chance that each candidate is promised.")] = 0.0,
    least_rate: Annotated[float, typer.Option(help="Share of decisions answered, at least.")] = 0.001,
    stray_rate: Annotated[float, typer.Option(help="Share of answers to unknown decisions, at most.")] = 0.01,
    json_file: JsonFile = None,
) -> None:
    """Watch a log for faults: lists shown otherwise, answers that change, too little exploration.

    While all is well, at most ALPHA false alarms are expected per decision.
    """
    from peekrank.evidence.alarms import Watch
    from peekrank.evidence.following import watch_log

    speak(json_file)
    if not log.is_file():
        raise ValueError(f"{log}: is a folder, not a log" if log.is_dir() else f"{log}: there is no such file")
    check_outputs(json_file, read=[log])
    told: set[tuple[str, int | None]] = set()

    def make(low: float, high: float) -> Watch:
        return Watch(alpha, grades=(low, high), promised=promised, least_rate=least_rate, stray_rate=stray_rate)

    def tell(watch: Watch) -> None:
        for alarm in watch.raised():
            if (key := (alarm.name, alarm.item)) not in told:
                told.add(key)
                say(_shown(alarm))

    done = watch_log(log, make, tell, follow=follow, wait=wait)
    expected = alpha * done.rounds
    found = counted(len(done.raised()), "alarm") if done.raised() else "No alarm"
    say(Text(f"{found} in {counted(done.rounds, 'decision')}; by chance {expected:.2g} at most are expected."))
    alarms = [alarm.as_dict() for alarm in done.raised()]
    write_json(json_file, {"decisions": done.rounds, "alpha": alpha, "expected": expected, "alarms": alarms})


def _shown(alarm: Alarm) -> Text:
    head = f"decision {alarm.since:,}: {alarm.name}\n"
    return Text.assemble((head, "bold red"), f"  {alarm.cause}\n  {alarm.action}")
