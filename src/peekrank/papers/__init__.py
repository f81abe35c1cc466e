"""Reproductions of every figure, table and claim of the papers and of ours, each with a name and a function.

CT15 is Chaudhuri & Tewari 2015, CT16 Chaudhuri & Tewari 2016, ZT Zhang & Tewari.
"""

from __future__ import annotations

import peekrank.reports.plots  # noqa: F401 # says which packages are missing
from peekrank.papers.ct15 import figures as ct15_figures
from peekrank.papers.ct15 import observability as ct15_observability
from peekrank.papers.ct15 import tables as ct15_tables
from peekrank.papers.ct16 import estimators as ct16_estimators
from peekrank.papers.ct16 import figure as ct16_figure
from peekrank.papers.ct16 import regret as ct16_regret
from peekrank.papers.ct16 import surrogates as ct16_surrogates
from peekrank.papers.ct16 import table as ct16_table
from peekrank.papers.ours import arena, bounds, calibrated, hopeless, judged, open_rates, rates
from peekrank.papers.record import Reproduction
from peekrank.papers.zt import classification as zt_classification
from peekrank.papers.zt import tables as zt_tables
from peekrank.spec import suggest

_ITEMS = (
    Reproduction(
        "ct15-figure-1",
        "CT15 Figure 1",
        "regret per round for DCG from one answer goes to 0 as t^(-1/3)",
        (10, 10),
        ct15_figures.reproduce_figure_1,
    ),
    Reproduction(
        "ct15-figure-2",
        "CT15 Figure 2",
        "with full information it goes down faster, as t^(-1/2)",
        (2, 3),
        ct15_figures.reproduce_figure_2,
    ),
    Reproduction(
        "ct15-table-1",
        "CT15 Table 1",
        "losses of three objects, equation 8, vectors of the appendix",
        (1, 1),
        ct15_tables.reproduce_table_1,
    ),
    Reproduction(
        "ct15-table-2",
        "CT15 Table 2",
        "feedback for three objects, and its signal matrices",
        (1, 1),
        ct15_tables.reproduce_table_2,
    ),
    Reproduction(
        "ct15-observability",
        "CT15 Theorems 1, 4, Results 1, 3, 4",
        "which measures are globally or locally observable at k = 1",
        (1, 5),
        ct15_observability.reproduce,
    ),
    Reproduction(
        "ct16-figure-1",
        "CT16 Figure 1",
        "average NDCG@10 of six learners against time, with printed and exact propensities",
        (20, 590),
        ct16_figure.reproduce,
    ),
    Reproduction(
        "ct16-table-1",
        "CT16 Table 1",
        "two adversaries that one answer cannot distinguish",
        (1, 1),
        ct16_table.reproduce,
    ),
    Reproduction(
        "ct16-surrogates",
        "CT16 section 4",
        "number of answers that gradients need: one, RankSVM two, ListNet all",
        (1, 1),
        ct16_surrogates.reproduce,
    ),
    Reproduction(
        "ct16-estimators",
        "CT16 sections 4.1, 4.2",
        "unbiased gradient estimates from the top, and the propensities they need",
        (1, 1),
        ct16_estimators.reproduce,
    ),
    Reproduction(
        "ct16-regret",
        "CT16 Theorem 4.1",
        "regret in squared loss, KL and RankSVM of order T^(2/3)",
        (10, 90),
        ct16_regret.reproduce,
    ),
    Reproduction(
        "zt-classification",
        "ZT Theorems 6, 12",
        "local observability and rates of SumLoss, PairwiseLoss, DCG and P@n for every k",
        (1, 7),
        zt_classification.reproduce,
    ),
    Reproduction(
        "zt-tables",
        "ZT Tables 1 to 4",
        "rows of signal matrices that do, or do not, span differences of losses",
        (1, 4),
        zt_tables.reproduce,
    ),
    Reproduction(
        "open-rates",
        "ours",
        "rates of NDCG, AP and AUC for every k, which the papers leave open",
        (1, 35),
        open_rates.reproduce,
    ),
    Reproduction(
        "bounds",
        "ours",
        "sizes of proved bounds, compared with each other and with the printed ones",
        (1, 1),
        bounds.reproduce,
    ),
    Reproduction(
        "rates",
        "ours",
        "the worst regret of every learner grows at its rate, below its bound",
        (35, 720),
        rates.reproduce,
    ),
    Reproduction(
        "hopeless",
        "ours",
        "in hopeless games no learner loses less than the certified gap",
        (2, 10),
        hopeless.reproduce,
    ),
    Reproduction(
        "calibrated",
        "ours",
        "k answers per round do not suffice for a surrogate calibrated for NDCG",
        (5, 75),
        calibrated.reproduce,
    ),
    Reproduction(
        "judged",
        "ours",
        "rankers learned from few answers, ours against the printed, on held-out lists",
        (3, 45),
        judged.reproduce,
    ),
    Reproduction(
        "arena",
        "ours",
        "feedexp3 and nw2 stay within their bounds in all finite games they fit",
        (1, 70),
        arena.reproduce,
    ),
)

ALL: dict[str, Reproduction] = {item.name: item for item in _ITEMS}


def reproduction(name: str) -> Reproduction:
    """Return the reproduction with this name.

    >>> reproduction("ct15-table-1").source
    'CT15 Table 1'
    """
    if name not in ALL:
        raise ValueError(f"unknown reproduction '{name}': {suggest(name, ALL)}")
    return ALL[name]
