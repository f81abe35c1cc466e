"""Exact arithmetic: rationals, balls, linear programs and linear algebra."""
