"""Ranking measures, each a value with a name: ``str(DCG(10)) == "dcg@10"`` and ``measure("dcg@10") == DCG(10)``.

A ranking is the array of items in display order; relevance is indexed by item. Most measures have the form

    value = offset(R) + sum_p discount(p) * gain(R)[item at position p]

which lets learners and regret work on arrays alone. A name may carry a cut-off, conventions and parameters:
``ndcg@10+linear+norel0`` has linear gains and gives a list without relevant items the value 0; ``rbp:p=0.95`` is
rank-biased precision for a patient reader.
"""

from peekrank.measures.base import Gains, LinearMeasureMixin, NoRelevant, Relevance, learnable
from peekrank.measures.cascade import ERR, RBP, ReciprocalRank
from peekrank.measures.dcg import DCG, NDCG
from peekrank.measures.evaluation import evaluate
from peekrank.measures.names import measure, name_of
from peekrank.measures.pairs import AUCLoss, PairwiseLoss, SumLoss
from peekrank.measures.precision import AveragePrecision, Hit, Precision, Recall

__all__ = [
    "DCG",
    "ERR",
    "NDCG",
    "RBP",
    "AUCLoss",
    "AveragePrecision",
    "Gains",
    "Hit",
    "LinearMeasureMixin",
    "NoRelevant",
    "PairwiseLoss",
    "Precision",
    "Recall",
    "ReciprocalRank",
    "Relevance",
    "SumLoss",
    "evaluate",
    "learnable",
    "measure",
    "name_of",
]
