"""The part of a slot's configuration that lets it answer ``POST /v1/rerank``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from peekrank.types import LARGEST_VERSION

if TYPE_CHECKING:
    from peekrank.service.config.file import Document, FieldPath
    from peekrank.service.config.model import SlotConfig

OnFailure = Literal["order", "reject"]
Scale = Literal["unit", "logit"]
KeysOf = Literal["none", "query", "given"]
TextsField = Literal["documents", "texts"]

_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_MAX_TIMEOUT = 60.0
MAX_DOCUMENTS = 10**6


@dataclass(frozen=True)
class RerankConfig:
    """How a slot answers calls in the interface of reranking services. A slot without this table does not."""

    upstream: Annotated[
        str, "Address of a reranker that scores the documents of calls without scores: `http://tei:8080/rerank`."
    ] = ""
    upstream_model: Annotated[str, "Model that the upstream is asked for. Empty: the upstream's own."] = ""
    upstream_key: Annotated[str, "Environment variable with the upstream's key: `env:NAME`."] = ""
    upstream_field: Annotated[TextsField, "Field in which the upstream expects the texts. TEI wants `texts`."] = (
        "documents"
    )
    timeout: Annotated[float, "How long a call waits for the upstream."] = 2.0
    on_failure: Annotated[
        OnFailure,
        "If the upstream fails, or the slot meets a limit: keep the `order` and say so, or `reject` the call.",
    ] = "order"
    max_documents: Annotated[int, "Different documents that the slot learns about, instead of `max_items`."] = (
        100_000
    )
    scale: Annotated[
        Scale, "Scale of the scores: `unit` is 0 to 1. With `logit` the reply has 1 / (1 + exp(-score))."
    ] = "unit"
    score_version: Annotated[
        int, "Raise it when another ranker computes the scores, so that the learner does not have to find out."
    ] = 0
    keys: Annotated[
        KeysOf,
        "Key of a list: `none`, the wording of the `query`, or the one `given`: `model` = SLOT:KEY or `key`.",
    ] = "none"
    default: Annotated[bool, "Whether this slot answers calls without a model."] = False


def check_rerank(document: Document, path: FieldPath, slot: SlotConfig, rerank: RerankConfig) -> None:
    """Raise ValueError, with the line, if a slot cannot answer calls of this kind as configured."""
    learner = slot.learner_object
    if learner.kernels.set_scores is None:
        document.fail((*path, "learner"), f"{learner.name} ignores scores, so lists would get worse; use mixed")
    if slot.new_items != "add":
        document.fail((*path, "new_items"), "must be 'add': documents are items that come with the calls")
    if slot.missing_feedback != "missing":
        document.fail(
            (*path, "missing_feedback"), "must be 'missing': retries of clients rank lists that nobody sees"
        )
    if slot.feedback_rules.rules:
        document.fail((*path, "feedback"), "must be 'grades': a grade and the cited documents are the feedback")
    own = (*path, "rerank")
    if rerank.keys != "none" and learner.kernels.set_key is None:
        document.fail((*own, "keys"), f"{learner.name} learns nothing per key; set cells, 'mixed:cells=10000'")
    if not 1 <= rerank.max_documents <= MAX_DOCUMENTS:
        document.fail((*own, "max_documents"), f"must be a whole number from 1 to {MAX_DOCUMENTS}")
    if not 0 <= rerank.score_version <= LARGEST_VERSION:
        document.fail((*own, "score_version"), "must be a whole number, at least 0")
    if not 0 < rerank.timeout <= _MAX_TIMEOUT:
        document.fail((*own, "timeout"), f"must be a time above 0 and up to {_MAX_TIMEOUT:g} s")
    if rerank.upstream and not is_address(rerank.upstream):
        document.fail(
            (*own, "upstream"), "must be http://HOST:PORT/PATH, without user and password; use upstream_key"
        )
    if rerank.upstream_key and not _VARIABLE.fullmatch(rerank.upstream_key):
        document.fail((*own, "upstream_key"), "must name an environment variable, for example env:TEI_KEY")


def is_address(url: str) -> bool:
    """Check whether this is an HTTP address without user and password.

    >>> is_address("http://tei:8080/rerank"), is_address("http://me:secret@tei/rerank"), is_address("tei:8080")
    (True, False, False)
    """
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and parts.port != 0
        )
    except ValueError:
        return False
