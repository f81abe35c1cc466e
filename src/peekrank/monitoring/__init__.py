"""Alarms on logs with stated false-alarm rates, and the tail of a log that is still being written."""
