"""Import and export of other log formats: Vowpal Wabbit's dsjson and Open Bandit's CSV.

Both have one action per decision. Logs that are read have k = 1, and logs to be written must have k = 1.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from peekrank._util.atomic import write_whole
from peekrank._util.extras import extra
from peekrank._util.text import excerpt
from peekrank._util.untrusted_json import read_json
from peekrank.evaluation.jsonl import log_from_numbered_records
from peekrank.evaluation.log import Log, Source

with extra("cli"):
    import polars as pl

_TOLERANCE = 1e-6  # largest deviation of propensities from uniform ones


def read_dsjson(path: str | PathLike[str], *, min_feedback: float = 0.0, max_feedback: float = 1.0) -> Log:
    """Read Vowpal Wabbit's decision service JSON. The reward becomes the feedback on the action shown.

    Field ``a`` has the actions with the one shown first, ``p`` their probabilities, ``_label_cost`` the negative
    reward. The ``id`` or ``_tag`` of an action in ``c._multi`` becomes its name; the default is its number.
    Features are dropped, because dsjson names them and this format has columns. Raises ValueError for problems
    with several slots (CCB, slates): probabilities of single slots do not determine the probability to be among
    the first k.

    Parameters
    ----------
    path
        A file with one object per line.
    min_feedback, max_feedback
        Range of rewards.
    """
    path = Path(path)
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            where = f"{path.name}, line {number}"
            try:
                record = read_json(line)
            except (ValueError, UnicodeDecodeError) as error:
                raise ValueError(f"{where} is not JSON ({excerpt(str(error))})") from None
            records.append((number, _record_from_dsjson(record, number, where)))
    return log_from_numbered_records(records, Source(path.name, "line"), min_feedback, max_feedback)


def _record_from_dsjson(record: Any, number: int, where: str) -> dict[str, Any]:
    if not isinstance(record, dict) or "_outcomes" in record:
        raise ValueError(f"{where} must be a decision about one action, with fields 'a' and 'p'")
    actions, propensities = record.get("a"), record.get("p")
    if not (
        isinstance(actions, list) and isinstance(propensities, list) and len(actions) == len(propensities) > 0
    ):
        raise ValueError(f"{where}, field 'p': must have a probability for each action of field 'a'")
    if sorted(map(str, actions)) != sorted(map(str, range(1, len(actions) + 1))):
        raise ValueError(f"{where}, field 'a': must contain each number from 1 to {len(actions)} once")
    cost = record.get("_label_cost", record.get("cost"))
    if cost is not None and not isinstance(cost, int | float):
        raise ValueError(f"{where}, field '_label_cost': must be a number")
    context = record.get("c")
    multi = context.get("_multi") if isinstance(context, dict) else None
    names = [_name(multi, i) for i in range(len(actions))]
    position, propensity = [0] * len(actions), [0.0] * len(actions)
    for p, action in enumerate(actions):
        position[action - 1], propensity[action - 1] = p, propensities[p]
    answer = [None if cost is None or i != actions[0] - 1 else 0.0 - cost for i in range(len(actions))]
    event = str(record.get("EventId", number))
    return {
        "event": event, "k": 1, "candidates": names, "position": position, "propensity": propensity,
        "feedback": answer, "learner": "vowpal wabbit",
    }  # fmt: skip


def _name(multi: Any, i: int) -> str:
    described = multi[i] if isinstance(multi, list) and i < len(multi) and isinstance(multi[i], dict) else {}
    return str(described.get("id", described.get("_tag", i + 1)))


def write_dsjson(path: str | PathLike[str], log: Log) -> None:
    """Write a log with k = 1 as Vowpal Wabbit's decision service JSON, without features and feedback times.

    Parameters
    ----------
    path
        File to write.
    log
        A log with propensities.
    """
    _check_single_action(log, "dsjson")
    lines = []
    for t in range(len(log.k)):
        rows = slice(log.offsets[t], log.offsets[t + 1])
        order = np.argsort(log.position[rows])
        answer = log.feedback[rows][order[0]]
        record: dict[str, Any] = {
            "EventId": log.events[t],
            "a": (order + 1).tolist(),
            "p": log.propensity[rows][order].tolist(),
            "c": {"_multi": [{"id": log.names[i]} for i in log.item[rows]]},
            "_label_Action": int(order[0]) + 1,
            "_labelIndex": int(order[0]),
            "_label_probability": float(log.propensity[rows][order[0]]),
        }
        if not np.isnan(answer):
            record["_label_cost"] = 0.0 - float(answer)
        lines.append(json.dumps(record, allow_nan=False))
    write_whole(Path(path), lambda part: part.write_text("\n".join(lines) + "\n", encoding="utf-8"))


def read_open_bandit(path: str | PathLike[str], *, position: int | None = None) -> Log:
    """Read Open Bandit's CSV files of the random policy.

    A row has the probability of the item shown, and of no other. If all are 1/(number of items), the policy is
    uniform, and each row is a decision with k = 1 about all items. Raises ValueError for logs of Thompson
    sampling, which lack the other probabilities.

    Parameters
    ----------
    path
        A file with the columns item_id, position, click and propensity_score.
    position
        Read only rows of this position; None: all rows, so that clicks are averages over positions.
    """
    path = Path(path)
    try:
        table = pl.read_csv(path, columns=["item_id", "position", "click", "propensity_score"])
    except (pl.exceptions.PolarsError, OSError) as error:
        why = excerpt(" ".join(str(error).split()), 160)
        raise ValueError(f"{path.name}: cannot be read as an Open Bandit log ({why})") from None
    items = table["item_id"].unique().sort()
    propensity = table["propensity_score"].cast(pl.Float64, strict=False).fill_null(-1.0).to_numpy()
    if len(propensity) == 0 or (wrong := np.abs(propensity * len(items) - 1) > _TOLERANCE * len(items)).any():
        row = int(np.argmax(wrong)) + 2 if len(propensity) else 1
        raise ValueError(
            f"{path.name}, row {row}, field 'propensity_score': must be 1/{len(items)}, as of a uniform policy. "
            "Other policies need the probabilities of items not shown, which the file lacks"
        )
    chosen = table if position is None else table.filter(pl.col("position") == position)
    if chosen.is_empty():
        raise ValueError(f"{path.name} has no row of position {position}")
    return _uniform_log(chosen, [str(item) for item in items], path.name)


def _uniform_log(table: pl.DataFrame, names: list[str], file: str) -> Log:
    codes = {name: i for i, name in enumerate(names)}
    m, records = len(names), []
    for t, (item, _, click, _) in enumerate(table.iter_rows()):
        top = codes[str(item)]
        position = [0 if i == top else i + (i < top) for i in range(m)]
        answer = [click if i == top else None for i in range(m)]
        shown = {"event": str(t + 1), "k": 1, "candidates": names, "position": position, "propensity": [1 / m] * m}
        records.append((t + 1, {**shown, "feedback": answer, "learner": "open bandit, random"}))
    return log_from_numbered_records(records, Source(file, "row"), 0.0, 1.0)


def write_open_bandit(path: str | PathLike[str], log: Log) -> None:
    """Write a log with k = 1 as Open Bandit's CSV, without the propensities of items not shown.

    Parameters
    ----------
    path
        File to write.
    log
        A log with propensities.
    """
    _check_single_action(log, "Open Bandit's format")
    answered = log.seen & ~np.isnan(log.feedback)
    table = pl.DataFrame({
        "timestamp": log.time[log.owner[answered]],
        "item_id": [log.names[i] for i in log.item[answered]],
        "position": np.ones(int(answered.sum()), np.int64),
        "click": log.feedback[answered],
        "propensity_score": log.propensity[answered],
    })  # fmt: skip
    write_whole(Path(path), lambda part: table.write_csv(part))


def _check_single_action(log: Log, what: str) -> None:
    if (log.k != 1).any():
        event = int(np.argmax(log.k != 1))
        raise ValueError(
            f"event '{excerpt(log.events[event])}' has k = {log.k[event]}, but {what} has one action per decision "
            "and no field for the probability to be among the first k"
        )
    if np.isnan(log.propensity).any():
        raise ValueError(f"{what} needs propensities, and the log has decisions without them")
