"""Logs of decisions, off-policy evaluation of rankings, position bias, and alarms."""
