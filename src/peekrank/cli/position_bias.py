"""``peekrank position-bias``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from peekrank.cli._logs import LogArgument, SlotOption, open_named_log
from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._tables import TextTable, render
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from peekrank.evaluation.position_bias import Curve

EXAMPLES = """\
# Estimate how often people look at each position.
peekrank position-bias log.parquet"""
JSON_KEYS = {
    "examined, low, high": "for each position: examination relative to the first, with a 95% confidence interval",
    "shown, clicks": "for each position: number of impressions and of clicks",
    "feedback": "the curve as feedback rules",
}


def command(
    log: LogArgument,
    periods: Annotated[
        int, typer.Option(help="Number of equal parts of the log. Relevance may differ between parts, not within.")
    ] = 1,
    slot: SlotOption = None,
    json_file: JsonFile = None,
) -> None:
    """Estimate from a click log how likely people are to look at each position.

    Feedback must be clicks, and items must have been shown at several positions.
    """
    from peekrank.evaluation.position_bias import estimate_curve

    configure_output(json_file)
    check_outputs(json_file, read=[Path(log)])
    curve = estimate_curve(open_named_log(log, slot), periods=periods)
    echo(*render("Examination of positions, relative to the first", _sheet(curve), ""))
    echo(Text(f"As feedback rules: {curve.feedback_rules()}"))
    write_json(json_file, lambda: _as_dict(curve))


def _as_dict(curve: Curve) -> dict[str, Any]:
    parts = {name: part.tolist() for name, part in curve._asdict().items()}
    return {**parts, "feedback": curve.feedback_rules()}


def _sheet(curve: Curve) -> TextTable:
    rows = [
        [
            str(position),
            f"{n:,}",
            f"{clicks:,}",
            f"{examined:.3f}",
            f"{low:.3f}..{high:.3f}" if position > 1 else "",
        ]
        for position, (examined, low, high, n, clicks) in enumerate(zip(*curve, strict=True), start=1)
    ]
    return TextTable(["position", "shown", "clicks", "examined", "95% CI"], rows, 0)
