"""Helpers without domain knowledge: validation of values, atomic files, JSON, signals, text."""
