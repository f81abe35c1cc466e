"""``peekrank list`` as a user meets it."""

from __future__ import annotations

from helpers.command_line import peekrank


def test_list_names_every_learner_measure_and_stream() -> None:
    done = peekrank("list")
    assert done.exit_code == 0
    for name in ("rtop1f", "ftpl", "uniform", "ndcg", "aucloss", "ct15", "drifting", "ratings"):
        assert name in done.output
