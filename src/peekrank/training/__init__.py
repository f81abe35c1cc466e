"""Learners on judged documents."""
