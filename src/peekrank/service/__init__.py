"""Ranking as a service: an event log, the state replayed from it, an HTTP interface, clients and a dashboard."""
