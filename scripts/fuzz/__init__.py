"""A fuzzer for every kind of file that peekrank reads: see CONTRIBUTING.md."""
