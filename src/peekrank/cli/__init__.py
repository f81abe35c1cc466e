"""The command line: each command is a module, whole: it parses, calls and prints."""
