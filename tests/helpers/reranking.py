"""Services that answer rerank calls, and the requests that their clients send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from helpers.asgi import Caller
from helpers.services import SetClock
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import Keys
from peekrank.service.config import Config
from peekrank.service.config.model import read_config
from peekrank.service.core.service import Service

FAQ = """
[store]
path = "log.db"
synchronous = "normal"
[slots.faq]
learner = "mixed:cells=100"
measure = "dcg:gains=linear"
k = 3
seed = 7
feedback_window = "1 h"
"""
PLAIN = FAQ + "[slots.faq.rerank]\n"
TEXTS = ["Tea is hot.", "Milk is white.", "Juice is sweet."]


def reranking(folder: Path, text: str = PLAIN) -> Config:
    """The configuration of a service in a folder."""
    (folder / "service.toml").write_text(text)
    return read_config(folder / "service.toml")


def app_of(service: Service, keys: Keys | None = None) -> Any:
    """The application in front of a service."""
    return application(service, keys, limits=service.config.limits, reranks=service.config.reranks)


@contextmanager
def running(
    folder: Path, text: str = PLAIN, keys: Keys | None = None, clock: SetClock | None = None
) -> Iterator[tuple[Service, Caller]]:
    """A started service, and calls to it."""
    with Service(reranking(folder, text), clock=clock or SetClock()) as service:
        yield service, Caller(app_of(service, keys))


class Recorded(NamedTuple):
    """What a client sends, and what it needs in the reply."""

    client: str
    path: str
    body: dict[str, Any]
    results: int  # how many it gets
    texts: bool = False  # whether they have the text
    bare: bool = False  # whether the reply is a list, as of TEI
    headers: dict[str, str] = {}  # noqa: RUF012


QUERY = {"model": "faq", "query": "what is hot?", "documents": TEXTS}
TEI = {"query": "what is hot?", "texts": TEXTS}
OPEN_WEBUI = {"X-OpenWebUI-User-Name": "ada", "X-OpenWebUI-User-Email": "ada@example.org"}
_METADATA = {"documents": [f"src: m0\n\n{text}" for text in TEXTS]}
_JSON = {"documents": [f'{{"text":"{text}"}}' for text in TEXTS]}
_OBJECTS = {"documents": [{"text": text, "src": "m0"} for text in TEXTS]}
_RAW = {"return_text": True, "raw_scores": False, "truncation_direction": "Right", "top_n": 2}
_FIELDS = {"top_n": 2, "return_documents": True, "rank_fields": ["text"]}
_WEAVIATE = {"Request-Source": "unspecified:weaviate"}
_XINFERENCE = {"return_documents": "true", "return_len": "true"}
_DIFY = {"top_n": 3, "return_documents": True, "score_threshold": 0.8}
RECORDED = (
    Recorded("cohere Client", "/v1/rerank", QUERY | _FIELDS, 2, texts=True),
    Recorded("cohere Client, objects", "/v1/rerank", QUERY | _OBJECTS, 3),
    Recorded("cohere ClientV2", "/v2/rerank", QUERY | {"top_n": 2, "max_tokens_per_doc": 4096}, 2),
    Recorded("cohere-ai JS", "/v2/rerank", QUERY | {"top_n": 1, "max_tokens_per_doc": 100}, 1),
    Recorded("AI SDK", "/v2/rerank", QUERY | _JSON | {"top_n": 2}, 2),
    Recorded("langchain-cohere", "/v2/rerank", QUERY | {"top_n": None, "max_tokens_per_doc": None}, 3),
    Recorded("JinaRerank", "/v1/rerank", QUERY | {"top_n": 3}, 3),
    Recorded("@langchain/cohere JS", "/v1/rerank", QUERY | {"top_n": 3, "max_chunks_per_doc": None}, 3),
    Recorded("llama-index cohere", "/v2/rerank", QUERY | _METADATA | {"top_n": 2}, 2),
    Recorded("llama-index jina", "/rerank", QUERY | {"top_n": 2}, 2),
    Recorded("llama-index TEI", "/rerank", TEI, 3, bare=True),
    Recorded("cohere-haystack", "/v2/rerank", QUERY | {"top_n": 10, "max_tokens_per_doc": 4096}, 3),
    Recorded("jina-haystack", "/v1/rerank", QUERY | {"top_n": 10}, 3),
    Recorded("litellm cohere", "/v2/rerank", QUERY | {"top_n": 2, "return_documents": True}, 2, texts=True),
    Recorded("litellm hosted_vllm", "/v1/rerank", QUERY | {"top_n": 2, "return_documents": True}, 2, texts=True),
    Recorded("litellm infinity", "/rerank", QUERY | {"top_n": 2, "return_documents": False}, 2),
    Recorded("litellm TEI", "/rerank", TEI | _RAW, 2, texts=True, bare=True),
    Recorded("rerankers", "/v1/rerank", QUERY | {"top_n": 3, "return_documents": True}, 3, texts=True),
    Recorded("rerankers TEI", "/rerank", TEI | {"return_text": True}, 3, texts=True, bare=True),
    Recorded("LightRAG jina", "/v1/rerank", QUERY | {"top_n": 2, "return_documents": False}, 2),
    Recorded("Open WebUI", "/v1/rerank", QUERY | {"top_n": 3}, 3, headers=OPEN_WEBUI),
    Recorded("Dify", "/v1/rerank", QUERY | _DIFY, 3, texts=True),
    Recorded("RAGFlow Xinference", "/v1/rerank", QUERY | _XINFERENCE, 3, texts=True),
    Recorded("Weaviate", "/v2/rerank", QUERY | {"return_documents": False}, 3, headers=_WEAVIATE),
)  # fmt: skip
