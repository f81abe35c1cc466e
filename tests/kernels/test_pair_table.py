"""The table of pairs against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank.kernels.pair_table import PairTable, add, check_pair_table, find, pair_table, reindex, replace


@pytest.mark.parametrize("spread", [3, 2**61])
def test_it_is_a_dictionary(spread: int) -> None:
    table, rng = pair_table(20), np.random.default_rng(0)
    rows: dict[tuple[int, int], int] = {}
    for _ in range(3000):
        pair = int(rng.integers(spread)), int(rng.integers(9))
        assert find(table, *pair) == rows.get(pair, -1)
        if pair in rows or len(rows) < 20:
            rows.setdefault(pair, len(rows))
            assert add(table, *pair) == rows[pair]
        else:
            row = int(rng.integers(20))
            del rows[next(old for old, where in rows.items() if where == row)]
            rows[pair] = row
            replace(table, row, *pair)
        assert all(find(table, *old) == row for old, row in rows.items())
    check_pair_table(table, (2**62, 9), "items")
    again = PairTable(table.pairs, table.used, np.zeros_like(table.slots), np.zeros(1, np.int64))
    reindex(again)
    assert all(find(again, *old) == row for old, row in rows.items())


def test_no_capacity_is_an_empty_table() -> None:
    assert find(pair_table(0), 3, 4) == -1
