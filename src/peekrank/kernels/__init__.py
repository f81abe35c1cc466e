"""Compiled building blocks for writers of learners."""
