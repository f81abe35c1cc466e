"""Shared implementation of champion and auto: several learners on the same feedback, one of which ranks."""
