"""Comparison of two rankers of an app: which list to show, and which ranker is better."""
