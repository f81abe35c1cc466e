"""Surrogates: losses of score vectors that gradient descent can minimise, with their gradients.

A surrogate is a value with a name, ``str(SmoothDCG(0.1)) == "smoothdcg:epsilon=0.1"``. Learners with features
estimate its gradient with respect to the scores from the feedback they observe, with kernels that belong to the
surrogate (`peekrank.surrogates.estimates`). The built-in surrogates have one of three structures:

- *item by item*: the gradient is a sum of terms with one relevance each, so feedback on one item suffices;
- *pair by pair*: the terms have two relevances each, so feedback on two items is needed;
- *whole list*: the terms have nearly all relevances, and the learners here must see the whole list.
  docs/surrogates.md says which of these could be learned from less and which cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peekrank.registry import SURROGATES
from peekrank.spec import parse
from peekrank.surrogates.protocol import Limits, Surrogate, softmax

if TYPE_CHECKING:
    from peekrank.surrogates.kl import KL
    from peekrank.surrogates.listnet import ListNet
    from peekrank.surrogates.ndcgsquared import NDCGSquared
    from peekrank.surrogates.ranksvm import RankSVM
    from peekrank.surrogates.smoothdcg import SmoothDCG
    from peekrank.surrogates.squared import Squared


def surrogate(text: str) -> Surrogate:
    """Return the surrogate that a specification describes.

    >>> surrogate("smoothdcg:epsilon=0.1")
    SmoothDCG(epsilon=0.1)
    """
    text = text.replace("smoothdcg/", "smoothdcg:epsilon=")  # the paper's name, with epsilon in it
    parsed: Surrogate = parse("surrogate", SURROGATES, text)
    return parsed


__all__ = [
    "KL",
    "Limits",
    "ListNet",
    "NDCGSquared",
    "RankSVM",
    "SmoothDCG",
    "Squared",
    "Surrogate",
    "softmax",
    "surrogate",
]


def __getattr__(name: str) -> Any:
    return SURROGATES.built_in_class(name)
