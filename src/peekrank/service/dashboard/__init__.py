"""The board: what a person sees of a running service."""
