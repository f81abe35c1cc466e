"""Tables as CSV that spreadsheets show as they are."""

from __future__ import annotations

from peekrank._util.extras import extra
from peekrank._util.fork import check_polars

with extra("cli"):
    import polars as pl

_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def csv_text(frame: pl.DataFrame, separator: str = ",") -> str:
    """Return a table as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front.

    Numbers, and texts that are numbers, stay as they are.

    >>> print(csv_text(pl.DataFrame({"name": ["=1+1", "-1", "a=b"], "regret": [-0.5, 1.0, 2.0]})), end="")
    name,regret
    '=1+1,-0.5
    -1,1.0
    a=b,2.0
    """
    check_polars()
    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Enum, pl.Categorical)]
    safe = {name: _shown_as_is(pl.col(name).cast(pl.String)) for name in texts}
    return frame.with_columns(**safe).write_csv(separator=separator)


def _shown_as_is(text: pl.Expr) -> pl.Expr:
    formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return pl.when(formula).then("'" + text).otherwise(text)
