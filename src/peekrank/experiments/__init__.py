"""Learners over streams, many times: experiments, sweeps, studies, comparisons."""

from peekrank._util.extras import extra

with extra("cli"):  # all experiments use it
    import polars  # noqa: F401
