"""Comparison of two rankers in a slot, whose calls bring both orders and which has no learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from peekrank.evaluation.comparison.settings import MAX_GRADE, Mode, Regression, Settings
from peekrank.service.api.limits import MAX_ID
from peekrank.service.config.file import Document, FieldPath

if TYPE_CHECKING:
    from peekrank.service.config.model import SlotConfig

_OF_LEARNERS = (
    "learner", "items", "new_items", "retired_items", "features", "context", "features_from", "item_effects",
    "mode", "rules", "rerank", "holdout", "sticky", "max_visitors",
)  # fmt: skip
_PROBE = 1000  # length of a list with which settings are checked


@dataclass(frozen=True)
class CompareConfig:
    """How a slot compares two orders of each list."""

    names: Annotated[tuple[str, str], "Names of the two rankers, in the order of `orders` in a call."] = ("a", "b")
    mode: Annotated[
        Mode, "`union` mixes items from the first k of both orders, `coin` shows one order as it is."
    ] = "union"
    outside: Annotated[
        float, "How many of the first k positions, in expectation, show items that neither order has there. The "
        "verdict needs it if the measure counts positions below k.",
    ] = 0.0  # fmt: skip
    examination: Annotated[
        tuple[float, ...], "For clicks: the probability that each of the k positions is looked at."
    ] = ()
    partial: Annotated[
        bool, "Whether lists count whose feedback is incomplete. Feedback must then go missing at random."
    ] = False
    regression: Annotated[
        Regression, "Predict grades by the mean of the item (`items`), or by that of all (`mean`), for items that "
        "rarely come back.",
    ] = "items"  # fmt: skip

    def settings(self, slot: SlotConfig, seed: int) -> Settings:
        """Return the settings of the comparison in a slot. Raises ValueError if they are invalid."""
        return Settings(
            slot.measure_object, slot.k, self.mode, self.outside, self.examination, slot.max_grade, self.partial,
            self.regression, slot.alpha, seed,
        )  # fmt: skip


def parse_compare(document: Document, path: FieldPath) -> CompareConfig:
    """Parse the table of a comparison. `check_compare` checks its values."""
    table = document.get(path)
    if not isinstance(table, dict):
        document.fail(path, 'must be a table, for example [slots.NAME.compare] with mode = "union"')
    document.check_names(path, CompareConfig.__dataclass_fields__)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(getattr(CompareConfig, name), tuple):
            if not isinstance(value, list):
                document.fail((*path, name), "must be a list")
            values[name] = tuple(value)
        else:
            values[name] = value
    names = values.get("names", CompareConfig.names)
    valid = [isinstance(name, str) and name.isprintable() and 1 <= len(name) <= MAX_ID for name in names]
    if len(names) != 2 or not all(valid) or names[0] == names[1]:
        document.fail((*path, "names"), 'must be two different names, for example ["bm25", "model"]')
    return CompareConfig(**values)


def check_no_learner(document: Document, path: FieldPath) -> None:
    """Raise ValueError, with the line, if a slot that compares has a field for learners."""
    table = document.get(path)
    for name in _OF_LEARNERS:
        if name in table:
            document.fail((*path, name), "a slot that compares shows the orders of its calls: leave this out")
    if table.get("update", "on_close") != "on_close":
        document.fail(
            (*path, "update"), "a comparison counts feedback when its feedback_window is over: leave this out"
        )


def check_compare(document: Document, path: FieldPath, slot: SlotConfig, compare: CompareConfig) -> None:
    """Raise ValueError, with the line, if a slot cannot compare as configured."""
    own = (*path, "compare")
    if slot.max_grade > MAX_GRADE:
        document.fail((*path, "max_grade"), f"comparisons take grades up to {MAX_GRADE}")
    try:
        settings = compare.settings(slot, 0)
    except ValueError as error:
        text, _, reason = str(error).partition(": ")
        field = text.partition(" ")[0]
        if field in CompareConfig.__dataclass_fields__:
            document.fail((*own, field), reason)
        document.fail(own, str(error))
    try:
        for n in (slot.k + 2, _PROBE):
            settings.weights(n)
    except ValueError as error:
        document.fail((*path, "measure"), str(error))
