"""Helpers without knowledge of the domain: checks of values, files written whole, signals, text."""
