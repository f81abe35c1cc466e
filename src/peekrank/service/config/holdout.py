"""Holdout of a slot: the share of the lists that show the app's own order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from peekrank.engine.rules import check_mixture, measure_of
from peekrank.evaluation.supported_measures import by_items, nearest_measure
from peekrank.service.config.file import Document, FieldPath
from peekrank.service.config.rules import RulesConfig, check_items
from peekrank.types import Learner

_LARGEST = 0.5
Mode = Literal["whole", "union"]


@dataclass(frozen=True)
class HoldoutConfig:
    """The share of the lists that show the app's own order, and that order if calls do not bring it.

    With `mode = "union"`, they mix items from the first k of both orders.
    """

    share: float = 0.0
    order: tuple[str, ...] = ()
    mode: Mode = "whole"


NO_HOLDOUT = HoldoutConfig()


def parse_holdout(document: Document, path: FieldPath) -> HoldoutConfig:
    """Parse a holdout: a share, or a table with the share and an order."""
    value = document.get(path, 0.0)
    table = value if isinstance(value, dict) else {"share": value}
    if isinstance(value, dict):
        document.check_names(path, HoldoutConfig.__dataclass_fields__)
    share: Any = table.get("share", 0.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= _LARGEST:
        document.fail(path, f"must be a share from 0 to {_LARGEST}, for example 0.05")
    order: Any = table.get("order", [])
    if not (isinstance(order, Sequence) and all(isinstance(name, str) for name in order)):
        document.fail((*path, "order"), 'must be a list of items, for example ["tea", "milk"]')
    check_items(document, (*path, "order"), order)
    mode: Any = table.get("mode", "whole")
    if mode not in get_args(Mode):
        document.fail((*path, "mode"), f"must be {' or '.join(map(repr, get_args(Mode)))}")
    return HoldoutConfig(float(share), tuple(order), mode)


def check_holdout(
    document: Document, path: FieldPath, holdout: HoldoutConfig, rules: RulesConfig, learner: Learner,
    max_grade: float, *, shadow: bool,
) -> None:  # fmt: skip
    """Check that a slot's learner can be compared with the app's order."""
    if shadow:
        document.fail(path, "in shadow mode all lists show the app's order; remove mode to go live with a holdout")
    try:
        check_mixture(learner, "have a holdout")
    except ValueError as error:
        document.fail(path, str(error))
    if holdout.mode == "union" and (rules.pins or rules.new or rules.group or rules.leash is not None):
        document.fail(path, "mixtures obey no pins, limits or leash; leave these out, or mode = 'union'")
    measure = measure_of(learner)
    if not by_items(measure, max_grade):
        nearest = nearest_measure(measure)
        document.fail(path, f"{measure} is not a sum over positions; use {nearest} to have a holdout")
