"""Judged documents with features."""
