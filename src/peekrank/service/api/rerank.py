"""``POST /v1/rerank``, and grades that cite texts: translates calls of retrieval pipelines for a slot."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from peekrank.service.api import problems
from peekrank.service.api.codec import encode_reply
from peekrank.service.api.keys import Key
from peekrank.service.api.messages import CitedText, EventId, FeedbackRequest, Item, RankReply, RankRequest
from peekrank.service.api.metrics import Metrics
from peekrank.service.api.problems import Problem
from peekrank.service.api.rerank_messages import (
    Document,
    RerankMeta,
    RerankReply,
    RerankRequest,
    Result,
    Text,
    TextResult,
    Units,
    Usage,
    Version,
)
from peekrank.service.api.upstream import Upstream, UpstreamError
from peekrank.service.config import RerankConfig
from peekrank.service.core.commands import Command
from peekrank.service.core.protocol import ServiceProtocol
from peekrank.service.core.rerank import Rerank, Texts, falling
from peekrank.service.event_log.store import StoreError

TRACE = "peekrank.trace"  # in the scope of a request: the id of its trace
_LIMITS = ("too-large", "too-many-open")  # problems of a slot that is full
EVENT_HEADER = "x-peekrank-event"
_HASHED = re.compile("k:[0-9a-f]{32}")  # a key, as `Texts.key` returns it

Submit = Callable[[Command[Any]], Awaitable[Any]]
Reranks = Mapping[str, RerankConfig]  # by slot
_encode = msgspec.msgpack.Encoder().encode
_log = structlog.get_logger()
NO_RERANKS: Reranks = {}


class Reranking:
    """Answers rerank calls.

    Parameters
    ----------
    service
        The service.
    reranks
        The slots that answer.
    metrics
        Counts the calls of upstreams.
    submit
        Runs a command.
    """

    def __init__(self, service: ServiceProtocol, reranks: Reranks, metrics: Metrics, submit: Submit) -> None:
        self._service, self._metrics, self._submit = service, metrics, submit
        self._slots = reranks
        self._upstreams = {name: Upstream(one) for name, one in reranks.items() if one.upstream}
        self._failing: dict[str, int] = {}  # failures of each upstream since its last success
        self._texts: Texts | None = None

    async def close(self) -> None:
        """Close the connections to upstreams."""
        for upstream in self._upstreams.values():
            await upstream.close()

    async def texts(self) -> Texts:
        """Return the hashes of texts, with the secret of the service's store."""
        if reason := self._service.unready_reason():
            raise problems.not_ready(reason)
        if self._texts is None:
            try:
                self._texts = Texts(await asyncio.to_thread(self._service.secret))
            except StoreError as error:
                _log.error("secret cannot be read", reason=str(error))
                raise problems.store_failed() from None
        return self._texts

    async def with_ids(self, request: FeedbackRequest) -> FeedbackRequest:
        """Replace the texts that feedback cites by their ids."""
        if not any(isinstance(one, CitedText) for one in request.cited or ()):
            return request
        texts = await self.texts()
        cited = [texts.item(one.text) if isinstance(one, CitedText) else one for one in request.cited or ()]
        return msgspec.structs.replace(request, cited=cited)

    async def key_in_log(self, slot: str, key: str) -> str:
        """Return a key as the log of a slot has it: hashed, if the slot takes queries or keys of rerank calls."""
        if slot not in self._slots or self._slots[slot].keys == "none" or _HASHED.fullmatch(key):
            return key
        kind: Literal["query", "given"] = "query" if self._slots[slot].keys == "query" else "given"
        return (await self.texts()).key(kind, key)

    async def rerank(self, request: Request, key: Key, body: RerankRequest) -> Response:
        """Rank documents."""
        slot, given = self._slot(body, key)
        config, texts = self._slots[slot], await self.texts()
        documents = _documents(body)
        ids = [_item(texts, document, index) for index, document in enumerate(documents)]
        event_id = _event_id(request, body)
        digest = b"" if event_id is None else texts.digest(_encode((slot, given, body.query, documents)))
        scored = await self._scores(slot, body.query, documents)
        best: dict[str, float] = {}
        for item, score in zip(ids, scored.values, strict=True):
            best[item] = max(score, best.get(item, score))
        failed = bool(scored.warnings)
        ranked = RankRequest(
            event_id=event_id,
            items=[Item(item, score=None if failed else score) for item, score in best.items()],
            key=_key(config, texts, body.query, given),
            score_version=config.score_version or None,
            baseline=list(best) if failed else None,
        )
        trace = bytes.fromhex(request.scope.get(TRACE, ""))
        warnings = list(scored.warnings)
        try:
            reply = await self._submit(Rerank(slot, ranked, ids, digest, trace, key.slots))
        except Problem as problem:
            if problem.kind not in _LIMITS or config.on_failure == "reject":
                raise
            self._metrics.unlearned(slot)
            warnings.append(f"nothing is learned from this list, which has no event: {problem.detail}")
            by_score = sorted(best, key=best.__getitem__, reverse=True)
            reply = RankReply(f"none-{secrets.token_hex(8)}", by_score, [], explored=False, sequence=0)
        values = falling(scored.values, logit=config.scale == "logit" and not scored.is_order)
        return _reply(body, slot, reply, ids, values, documents, warnings)

    def _slot(self, body: RerankRequest, key: Key) -> tuple[str, str | None]:
        """Return the slot of a call and the key that it gives."""
        known = [name for name in self._slots if key.sees(name)]
        name, _, suffix = (body.model or "").partition(":")
        if suffix and body.key is not None and suffix != body.key:
            raise problems.invalid("key: differs from the key in model", "$.key")
        if not name:
            defaults = known if len(known) == 1 else [one for one in known if self._slots[one].default]
            if not defaults:
                names = ", ".join(map(repr, known)) or "none"
                raise problems.invalid(
                    f"model is missing: it names a slot with a rerank table: {names}", "$.model"
                )
            name = defaults[0]
        if name not in known:
            raise problems.unknown_slot(name, known)
        return name, suffix or body.key

    async def _scores(self, slot: str, query: str, documents: Sequence[Document]) -> _Scored:
        """Return the scores of the call, or of the upstream, or those that stand for the order given."""
        sent = [document.score for document in documents if document.score is not None]
        if sent:
            if len(sent) < len(documents):
                raise problems.invalid(
                    f"documents: {len(sent)} of {len(documents)} have a score; send all or none", "$.documents"
                )
            if self._slots[slot].scale == "unit" and not all(0 <= score <= 1 for score in sent):
                raise problems.invalid(
                    f'documents: the scores of slot {slot!r} are from 0 to 1; set scale = "logit"', "$.documents"
                )
            return _Scored(sent)
        order = [1 / (1 + index) for index in range(len(documents))]
        if slot not in self._upstreams:
            return _Scored(order, is_order=True)
        texts = [document.text for document in documents if document.text is not None]
        if len(texts) < len(documents):
            raise problems.invalid("documents: a document without a text has no score", "$.documents")
        try:
            values = await self._upstreams[slot].scores(query, texts)
        except UpstreamError as error:
            return _Scored(order, is_order=True, warnings=(self._failure(slot, error),))
        self._metrics.upstream(slot, "ok")
        if failures := self._failing.pop(slot, 0):
            _log.info("upstream answers again", slot=slot, failures=failures)
        return _Scored(values)

    def _failure(self, slot: str, error: UpstreamError) -> str:
        """Count a failure of an upstream, log the first, and return a warning, or raise a `Problem`."""
        self._metrics.upstream(slot, error.kind)
        if slot not in self._failing:
            _log.warning("upstream failed", slot=slot, reason=str(error), on_failure=self._slots[slot].on_failure)
        self._failing[slot] = self._failing.get(slot, 0) + 1
        if self._slots[slot].on_failure == "reject":
            raise problems.upstream_failed(f"the upstream of slot {slot!r} failed: {error}")
        return f"the upstream failed, {error}: the documents are in the order given"


class _Scored(NamedTuple):
    """The score of each document, where it comes from, and what went wrong."""

    values: list[float]
    is_order: bool = False
    warnings: tuple[str, ...] = ()


def _documents(body: RerankRequest) -> list[Document]:
    """Return the documents of a call, from `documents` or `texts`."""
    if (body.documents is None) == (body.texts is None):
        raise problems.invalid("send the list of documents, as `documents` or as `texts`", "$.documents")
    documents = body.documents if body.texts is None else body.texts
    return [Document(one) if isinstance(one, str) else one for one in documents or ()]


def _item(texts: Texts, document: Document, index: int) -> str:
    """Return the item of a document: the caller's id, or a hash of the text."""
    if document.id is not None:
        return str(document.id)
    if document.text is None:
        raise problems.invalid(f"documents[{index}]: needs a text or an id", f"$.documents[{index}]")
    return texts.item(document.text)


def _event_id(request: Request, body: RerankRequest) -> str | None:
    """Return the caller's event id, in the body or in a header."""
    header = request.headers.get("idempotency-key")
    if body.event_id is not None or header is None:
        return body.event_id
    try:
        return msgspec.convert(header, EventId)
    except msgspec.ValidationError:
        raise problems.bad_name("Idempotency-Key", header) from None


def _key(config: RerankConfig, texts: Texts, query: str, given: str | None) -> str | None:
    """Return the key of a list as the log has it."""
    if given is not None and config.keys != "given":
        raise problems.invalid('key: this slot takes no keys of callers; set keys = "given"', "$.key")
    if config.keys == "query":
        return texts.key("query", query)
    return None if given is None else texts.key("given", given)


def _order(reply: RankReply, ids: Sequence[str]) -> list[int]:
    """Return the indices of the documents in the new order, without blocked ones.

    Copies follow their item, and retired items come last.
    """
    indices: dict[str, list[int]] = {}
    for index, item in enumerate(ids):
        indices.setdefault(item, []).append(index)
    ranked = [index for name in reply.ranking for index in indices.pop(name)]
    return ranked + [index for name, rest in indices.items() if name not in reply.blocked for index in rest]


def _reply(
    body: RerankRequest,
    slot: str,
    reply: RankReply,
    ids: Sequence[str],
    scored: Sequence[float],
    documents: Sequence[Document],
    warnings: Sequence[str],
) -> Response:
    """Write the reply in the form that fits the request."""
    order = _order(reply, ids)
    results = list(zip(order, scored[: len(order)], strict=True))[: body.top_n]
    if body.texts is None:
        has_texts = body.return_documents in (True, "true")
        top_k = [ids.index(name) for name in reply.top_k]
        content: Any = RerankReply(
            reply.event_id,
            slot,
            [
                Result(index, score, Text(documents[index].text or "") if has_texts else msgspec.UNSET)
                for index, score in results
            ],
            top_k,
            reply.explored,
            Usage(),
            RerankMeta(Version(), Units(), list(warnings)),
        )
    else:
        has_texts = body.return_text in (True, "true")
        content = [
            TextResult(index, score, documents[index].text or "" if has_texts else msgspec.UNSET)
            for index, score in results
        ]
    response = encode_reply(content)
    response.headers[EVENT_HEADER] = reply.event_id
    return response
