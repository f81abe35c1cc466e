"""``peekrank positions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, say, write_json
from peekrank.cli._tables import Sheet, shown
from peekrank.cli._voice import speak

if TYPE_CHECKING:
    from peekrank.evidence.positions import Curve

EXAMPLES = """\
# How often do people look at each position?
peekrank positions log.parquet"""
JSON_KEYS = {
    "examined, low, high": "for each position: examination relative to the first, with a 95 % interval",
    "shown, clicks": "for each position: counts",
    "form": "the curve as a form of feedback",
}


def command(
    log: Annotated[Path, typer.Argument(help="A log of decisions whose answers are clicks.")],
    periods: Annotated[
        int, typer.Option(help="Number of parts of the log, in each of which the relevance of items is stable.")
    ] = 1,
    json_file: JsonFile = None,
) -> None:
    """Estimate how likely people are to look at each position, from items shown at several of them."""
    from peekrank.evidence.log import read_log
    from peekrank.evidence.positions import estimate_curve

    speak(json_file)
    check_outputs(json_file, read=[log])
    curve = estimate_curve(read_log(log), periods=periods)
    say(*shown("Examination of places, relative to the first", _sheet(curve), ""))
    say(Text(f"As a form of feedback: {curve.form()}"))
    parts = {name: part.tolist() for name, part in curve._asdict().items()}
    write_json(json_file, {**parts, "form": curve.form()})


def _sheet(curve: Curve) -> Sheet:
    rows = [
        [str(place), f"{n:,}", f"{clicks:,}", f"{examined:.3f}", f"{low:.3f}..{high:.3f}" if place > 1 else ""]
        for place, (examined, low, high, n, clicks) in enumerate(zip(*curve, strict=True), start=1)
    ]
    return Sheet(["place", "shown", "clicks", "examined", "95 %"], rows, 0)
