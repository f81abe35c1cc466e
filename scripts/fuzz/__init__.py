"""Mutants of every kind of file that peekrank reads (CONTRIBUTING.md, "Fuzzing")."""
