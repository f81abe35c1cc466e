"""Surrogates: losses of score vectors that are smooth enough to descend, with their gradients.

A surrogate is a value with a name, ``str(SmoothDCG(0.1)) == "smoothdcg:epsilon=0.1"``. Its gradient by the scores
is what learners with features estimate from the answers they see, by kernels that the surrogate owns
(`peekrank.surrogates.estimates`). Those here have one of three structures:

- *item by item*: the gradient is a sum over items of terms with one relevance each; one answer suffices;
- *pair by pair*: terms with two relevances; two answers are needed;
- *whole list*: terms with nearly all relevances or with all; learners here must see the whole list. Which of them
  could be learned from less, and which cannot, is on docs/surrogates.md.
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
    """The surrogate that a specification names.

    >>> surrogate("smoothdcg:epsilon=0.1")
    SmoothDCG(epsilon=0.1)
    """
    text = text.replace("smoothdcg/", "smoothdcg:epsilon=")  # as files from before have it
    made: Surrogate = parse("surrogate", SURROGATES, text)
    return made


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
