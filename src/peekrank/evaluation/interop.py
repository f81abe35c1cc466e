"""Import and export of other log formats: Vowpal Wabbit's dsjson and Open Bandit's CSV.

Both have one action per decision. Logs that are read have k = 1, and logs to be written must have k = 1.
"""

from __future__ import annotations

import csv
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from peekrank._util.atomic import write_whole
from peekrank._util.extras import extra
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import bounded_lines, check_memory
from peekrank.evaluation.jsonl import is_number, log_from_numbered_records, numbered_records
from peekrank.evaluation.log import Log, Source, not_a_log
from peekrank.evaluation.log_checks import checked
from peekrank.jobs.csv_text import csv_text

with extra("cli"):
    import polars as pl

_OPEN_BANDIT = {"item_id": pl.String, "position": pl.Int64, "click": pl.Float64, "propensity_score": pl.Float64}
_CANDIDATE = 64  # bytes of a candidate of a decision in memory
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
    try:
        with path.open("rb") as file:
            records = [
                (number, _record_from_dsjson(record, number, f"{path.name}, line {number}"))
                for number, record in numbered_records(file, path.name)
            ]
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    return log_from_numbered_records(records, Source(path.name, "line"), min_feedback, max_feedback)


def _record_from_dsjson(record: dict[str, Any], number: int, where: str) -> dict[str, Any]:
    if "_outcomes" in record:
        raise ValueError(f"{where} must be a decision about one action, with fields 'a' and 'p'")
    actions, propensities = record.get("a"), record.get("p")
    if not (
        isinstance(actions, list) and isinstance(propensities, list) and len(actions) == len(propensities) > 0
    ):
        raise ValueError(f"{where}, field 'p': must have a probability for each action of field 'a'")
    if not all(type(action) is int for action in actions) or sorted(actions) != [*range(1, len(actions) + 1)]:
        raise ValueError(f"{where}, field 'a': must contain each number from 1 to {len(actions)} once")
    cost = record.get("_label_cost", record.get("cost"))
    if cost is not None and not is_number(cost):
        raise ValueError(f"{where}, field '_label_cost': must be a number")
    context = record.get("c")
    multi = context.get("_multi") if isinstance(context, dict) else None
    names = [_name(multi, i) for i in range(len(actions))]
    position, propensity = [0] * len(actions), [0.0] * len(actions)
    for p, action in enumerate(actions):
        position[action - 1], propensity[action - 1] = p, propensities[p]
    answer = [None if cost is None or i != actions[0] - 1 else 0.0 - cost for i in range(len(actions))]
    event = record.get("EventId", str(number))
    return {
        "event": event, "k": 1, "candidates": names, "position": position, "propensity": propensity,
        "feedback": answer, "learner": "vowpal wabbit",
    }  # fmt: skip


def _name(multi: Any, i: int) -> Any:
    described = multi[i] if isinstance(multi, list) and i < len(multi) and isinstance(multi[i], dict) else {}
    name = described.get("id", described.get("_tag", i + 1))
    return str(name) if isinstance(name, int | float) else name


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
    table = _read_csv(path)
    items = _in_order(table["item_id"].drop_nulls().unique())
    propensity = table["propensity_score"].to_numpy()
    uniform = np.abs(propensity - 1 / max(len(items), 1)) <= _TOLERANCE
    wrong = ~uniform | table["item_id"].is_null().to_numpy()
    if len(wrong) == 0 or wrong.any():
        row = int(np.argmax(wrong)) + 2 if len(wrong) else 1
        raise ValueError(
            f"{path.name}, row {row}, field 'propensity_score': must be 1/{len(items)}, as of a uniform policy. "
            "Other policies need the probabilities of items not shown, which the file lacks"
        )
    chosen = table if position is None else table.filter(pl.col("position") == position)
    if chosen.is_empty():
        raise ValueError(f"{path.name} has no row of position {position}")
    return _uniform_log(chosen, items, path)


def _read_csv(path: Path) -> pl.DataFrame:
    """Read the columns of an Open Bandit log as numbers, and items as text."""
    try:
        with path.open("rb") as file:
            header = next(bounded_lines(file, path.name), b"").decode(errors="replace")
        names = next(csv.reader([header]), [])
        missing = [name for name in _OPEN_BANDIT if name not in names]
        if missing:
            what = f"has no column {', '.join(missing)} of Open Bandit"
            raise not_a_log(path.name, f"{what}. For another table, name its columns (--columns)")
        return pl.read_csv(path, columns=list(_OPEN_BANDIT), schema_overrides=_OPEN_BANDIT, glob=False)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except csv.Error:
        raise not_a_log(path.name, "has no row of names") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        why = excerpt(" ".join(str(error).partition("\n")[0].split()), 160)
        raise ValueError(f"{path.name}: cannot be read as an Open Bandit log ({why})") from None


def _in_order(names: pl.Series) -> pl.Series:
    """Sort names of items, as numbers if all of them are."""
    numbers = names.cast(pl.Int64, strict=False)
    return names.sort() if numbers.null_count() else names.gather(numbers.arg_sort())


def _uniform_log(table: pl.DataFrame, items: pl.Series, path: Path) -> Log:
    """Build the log of a uniform policy. Candidates before the one shown move down by a position."""
    source, n, m = Source(path.name, "row"), len(table), len(items)
    if why := check_memory(_CANDIDATE * n * m, path.stat().st_size):
        raise ValueError(f"{path.name}: {n:,} rows about {m:,} items {why}")
    top = np.repeat(table["item_id"].cast(pl.Enum(items)).to_physical().to_numpy().astype(np.int64), m)
    item, click = np.tile(np.arange(m), n), np.repeat(table["click"].to_numpy(), m)
    log = Log(
        events=pl.Series([str(t) for t in range(1, n + 1)]),
        time=np.full(n, np.nan),
        k=np.ones(n, np.int64),
        learner=np.zeros(n, np.int64),
        offsets=np.arange(n + 1) * m,
        item=item,
        position=np.where(item == top, 0, item + (item < top)),
        propensity=np.full(n * m, 1 / m),
        feedback=np.where(item == top, click, np.nan),
        feedback_time=np.full(n * m, np.nan),
        names=tuple(items),
        learners=("open bandit, random",),
        reasons=("",),
    )
    return checked(log, source)


def write_open_bandit(path: str | PathLike[str], log: Log) -> None:
    """Write a log with k = 1 as Open Bandit's CSV.

    The format loses unanswered decisions, features, feedback times, and propensities of items not shown.

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
    write_whole(Path(path), lambda part: part.write_text(csv_text(table), encoding="utf-8"))


def _check_single_action(log: Log, what: str) -> None:
    if (log.k != 1).any():
        event = int(np.argmax(log.k != 1))
        raise ValueError(
            f"event '{excerpt(log.events[event])}' has k = {log.k[event]}, but {what} has one action per decision "
            "and no field for the probability to be among the first k"
        )
    if np.isnan(log.propensity).any():
        raise ValueError(f"{what} needs propensities, and the log has decisions without them")
