"""Mutants of every kind of file that peekrank reads: see CONTRIBUTING.md."""
