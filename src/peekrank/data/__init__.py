"""Judged documents with features: LETOR text, `.peek` files, tables, scaling and generated data."""
