"""Text of the results of ``peekrank game``."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._outputs import labelled
from peekrank.games.analysis import Analysis
from peekrank.games.cells import Cells, pair_count
from peekrank.games.game import Game
from peekrank.games.rate_table import MEANINGS
from peekrank.games.rates import Rate

_STYLES = {
    Rate.ZERO: "bold cyan",
    Rate.SQRT: "bold green",
    Rate.TWO_THIRDS: "bold yellow",
    Rate.LINEAR: "bold red",
}
_KINDS = {"pareto": "Pareto-optimal", "degenerate": "degenerate", "dominated": "dominated"}
_PROOFS = {
    Rate.ZERO: "the kind of each action",
    Rate.SQRT: "each pair of neighbours, where the two are optimal, and an estimate of which is better",
    Rate.TWO_THIRDS: "an estimate of each loss difference, and a pair of neighbours not locally observable",
    Rate.LINEAR: "a pair of actions that no feedback can compare, and two indistinguishable adversaries",
}
MAX_ACTIONS = 40


def render_certificate(proof: Mapping[str, Any], path: Path, result: Mapping[str, Any]) -> list[RenderableType]:
    """Explain a certificate and how to check it; for linear regret, print commands that play its adversaries.

    Commands are `Text`, which is not wrapped, so that they can be copied.
    """
    rate = Rate(proof["rate"])
    check = "A short NumPy program checks it (docs/theory/games.md)."
    shown: list[RenderableType] = [
        f"{escape(str(path))} contains the game and the proof: {_PROOFS[rate]}. {check}"
    ]
    if rate is Rate.LINEAR:
        gap = proof["adversaries"]["gap"]
        shown.append(
            f"For every learner, the expected regrets against the two add up to at least {gap:.3g} per round, "
            f"so one of them is at least {gap / 2:.3g} per round in the long run."
        )
        if "measure" in result:
            shown.append("Run it:")
            learners = ["uniform", "rtop1f:measure=dcg", "--measure", result["measure"], "--k", str(result["k"])]
            for side in "pq":
                stream, folder = f"adversary:path={path},side={side}", f"adversary-{side}"
                command = ["peekrank", "simulate", *learners, "--stream", stream, "--out", folder]
                shown.append(Text(shlex.join(command)))
    return shown


def grades_range(grades: int) -> str:
    return f"grades 0 to {grades - 1}"


def rate_text(rate: Rate | None) -> Text:
    return Text("?", style="dim") if rate is None else Text(rate, style=_STYLES[rate])


def rate_rows(rate: Rate | None) -> Table:
    grid = labelled()
    grid.add_row(
        "rate", "undecided" if rate is None else rate_text(rate).append(f", {MEANINGS[rate]}", style="default")
    )
    return grid


def add_facts(grid: Table, found: Analysis, actions: str) -> None:
    """Add the results of the definitions to a table."""
    facts = facts_of(found)
    grid.add_row("outcomes", f"{facts['outcomes']:,}")
    if found.cells:
        parts = [f"{facts[kind]:,} {word}" for kind, word in _KINDS.items() if facts[kind]]
        if facts["duplicates"]:
            parts.append(pluralize(facts["duplicates"], "duplicate"))
        grid.add_row(actions, f"{facts['actions']:,}: {', '.join(parts)}")
        grid.add_row("neighbours", pluralize(facts["neighbouring_pairs"], "pair"))
    else:
        grid.add_row(actions, f"{facts['actions']:,}")
    if found.rate is None:
        grid.add_row("undecided", Text(f"{found.undecided}: neither exact nor certified arithmetic decides it"))
        return
    seen = {True: "yes", False: "no", None: "undecided"}
    both = f"globally {seen[found.globally_observable]}, locally {seen[found.locally_observable]}"
    grid.add_row("observable", both)
    if found.unobservable_pair:
        i, j = facts["blind_pair"]
        grid.add_row(
            "obstacle",
            Text(
                f"'{i}' and '{j}' are neighbours, but no feedback says which is better"
                if found.rate is Rate.LINEAR
                else f"only worse {actions} reveal whether '{i}' or '{j}' is better"
            ),
        )


def facts_of(found: Analysis) -> dict[str, Any]:
    game, known = found.game, found.cells
    facts: dict[str, Any] = {"actions": len(game.actions), "outcomes": len(game.outcomes)}
    if known:
        classes = np.unique(known.duplicate_of)
        kinds = Counter(known.kind[i] for i in classes)
        facts |= {
            "classes": len(classes),
            **{kind: kinds[kind] for kind in ("pareto", "degenerate", "dominated")},
            "duplicates": len(game.actions) - len(classes),
            "neighbouring_pairs": pair_count(game, known),
        }
    return facts | {
        "globally_observable": found.globally_observable,
        "locally_observable": found.locally_observable,
        "class": found.rate and MEANINGS[found.rate].partition(":")[0],
        "blind_pair": found.unobservable_pair
        and [game.actions[found.unobservable_pair.i], game.actions[found.unobservable_pair.j]],
        "undecided": found.undecided or None,
    }


def actions_of(game: Game, known: Cells) -> list[dict[str, Any]]:
    """Return one dictionary per action of a game without symmetries."""
    neighbours: dict[int, list[str]] = {}
    for border in sorted(known.borders, key=lambda border: border.j):
        neighbours.setdefault(border.i, []).append(game.actions[border.j])
    return [
        {
            "action": name,
            "kind": known.kind[i],
            "duplicate_of": None if first == i else game.actions[first],
            "dimension": int(known.dimension[i]),
            "neighbours": neighbours.get(int(first), []),
        }
        for i, (name, first) in enumerate(zip(game.actions, known.duplicate_of, strict=True))
    ]


def action_table(actions: list[dict[str, Any]], outcomes: int) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    duplicates = any(action["duplicate_of"] for action in actions)
    headers = [
        "action",
        "kind",
        *["same losses as"] * duplicates,
        "cell's dimension",
        "neighbours",
    ]
    for header in headers:
        table.add_column(header, overflow="fold", justify="right" if header.startswith("cell") else "left")
    for action in actions[:MAX_ACTIONS]:
        dimension = "empty" if action["dimension"] < 0 else f"{action['dimension']} of {outcomes - 1}"
        same = [Text(action["duplicate_of"] or "")] if duplicates else []
        near = Text(", ".join(action["neighbours"]) or "-")
        table.add_row(Text(action["action"]), _KINDS[action["kind"]], *same, dimension, near)
    return table
