"""Ranking as a service that loses nothing: an event log, what is folded from it, and HTTP in front of it."""
