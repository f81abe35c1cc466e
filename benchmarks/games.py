"""Measure the game analyser and advice, each figure with its limit.

python benchmarks/games.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from peekrank import advise, analyse, ranking_game
from peekrank.games.interactions import interaction_order

MEASURES = ("sumloss", "pairwiseloss", "dcg", "p@2+sum", "ndcg", "ap", "aucloss")


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def every_k(m: int, *names: str) -> None:
    for name in names:
        cells = None
        for k in range(1, m + 1):
            cells = analyse(ranking_game(name, m, k), cells).cells


def figures() -> list[tuple[str, Callable[[], object], float]]:
    return [
        ("p@2+sum, m = 4, k = 1, from the definitions", lambda: analyse(ranking_game("p@2+sum", 4, 1)), 1),
        ("seven measures, all k, m = 5", lambda: every_k(5, *MEASURES), 60),
        *[(f"{name}, all k, m = 6", lambda name=name: every_k(6, name), 60) for name in MEASURES],
        *[(f"{name}, expansion, m = 10", lambda name=name: interaction_order(name, 10), 2) for name in MEASURES],
        ("advice, dcg, m = 10", lambda: advise("dcg", 10, 1, 10**5), 0.05),
        ("advice, dcg, m = 1,000", lambda: advise("dcg", 1000, 1, 10**5), 0.05),
        ("advice, dcg, m = 1,000,000", lambda: advise("dcg", 10**6, 1, 10**5), 0.05),
        ("advice, dcg, m = 5,000,000", lambda: advise("dcg", 5 * 10**6, 1, 10**5), 0.05),
        ("advice, ndcg@10, m = 5,000,000", lambda: advise("ndcg@10", 5 * 10**6, 1, 10**5), 0.05),
    ]


def main() -> None:
    advise("dcg", 3, 1, 100)  # import
    table = Table("question", "seconds", "limit")
    for text, action, limit in figures():
        taken = seconds(action)
        table.add_row(text, f"{taken:.3f}", f"{limit:g}", style="" if taken <= limit else "red")
    Console().print(table)


if __name__ == "__main__":
    main()
