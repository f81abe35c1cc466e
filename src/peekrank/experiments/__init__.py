"""Experiments, sweeps, studies, comparisons and the arena: learners on streams, over many runs."""
