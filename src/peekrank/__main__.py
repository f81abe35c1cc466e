"""``python -m peekrank``: the command line."""

from peekrank.cli import main

main()
