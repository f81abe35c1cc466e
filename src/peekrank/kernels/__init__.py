"""Compiled building blocks for learners.

They cover sorting, exploration, item statistics, triangular systems, confidence sequences, e-detectors and
counter-based random numbers.
"""
