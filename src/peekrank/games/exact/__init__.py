"""Exact arithmetic: rationals, balls, linear programs and linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peekrank._util.extras import LazyModule

if TYPE_CHECKING:
    import flint
else:
    flint = LazyModule("flint", "games")  # importing it takes a tenth of a second

__all__ = ["flint"]
