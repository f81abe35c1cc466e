"""Experiments, sweeps, studies, comparisons and the arena: learners on streams, over many runs."""

from peekrank._util.extras import extra

with extra("cli"):  # all experiments use it
    import polars  # noqa: F401
