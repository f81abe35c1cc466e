"""``python -m peekrank``: the command line."""

from peekrank.cli.app import main

main()
