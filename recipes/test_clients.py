"""Other clients of reranking services, unmodified: each call works and gives every document it asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import cohere
import litellm
import pytest
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.rankers.jina import JinaRanker
from langchain_community.document_compressors import jina_rerank
from lightrag import rerank as lightrag
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.jinaai_rerank import JinaRerank
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
from rerankers.models.api_rankers import APIRanker


def nodes(passages: list[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text, metadata={"src": "m0"})) for text in passages]


def test_cohere_1(served: Any, passages: list[str]) -> None:
    client = cohere.Client(served.key, base_url=served.url)
    documents = [{"text": text, "id": f"doc-{n}", "score": n / 10} for n, text in enumerate(passages)]
    reply = client.rerank(model="faq", query="q", documents=documents, top_n=2, return_documents=True)
    assert [one.document.text for one in reply.results] == [passages[one.index] for one in reply.results]
    assert reply.id


def test_cohere_with_an_event_id_of_the_caller(served: Any, passages: list[str]) -> None:
    client = cohere.ClientV2(served.key, base_url=served.url)
    options = {"additional_body_parameters": {"event_id": "turn-7"}}
    for _ in range(2):
        reply = client.rerank(model="faq", query="q", documents=passages, request_options=options)
        assert reply.id == "turn-7"


def test_llama_index_jina(served: Any, passages: list[str]) -> None:
    reranker = JinaRerank(api_key=served.key, base_url=served.url, model="faq", top_n=2)
    assert len(reranker.postprocess_nodes(nodes(passages), query_str="q")) == 2


def test_llama_index_tei(served: Any, passages: list[str]) -> None:
    """It names no model, and sends the key without the word Bearer."""
    reranker = TextEmbeddingInference(base_url=served.url, auth_token=served.key, top_n=2)
    assert len(reranker.postprocess_nodes(nodes(passages), query_str="q")) == 2


def test_langchain_jina(served: Any, passages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is a constant of the package."""
    monkeypatch.setattr(jina_rerank, "JINA_API_URL", f"{served.url}/v1/rerank")
    reranker = jina_rerank.JinaRerank(jina_api_key=served.key, model="faq", top_n=2)
    assert len(reranker.rerank(passages, "q")) == 2


def test_haystack_jina(served: Any, passages: list[str]) -> None:
    ranker = JinaRanker(
        api_key=Secret.from_token(served.key), model="faq", base_url=f"{served.url}/v1/rerank", top_k=2
    )
    reply = ranker.run(query="q", documents=[Document(content=text) for text in passages])
    assert len(reply["documents"]) == 2
    assert reply["meta"]["model"] == "faq"


@pytest.mark.parametrize("provider", ["jina_ai", "hosted_vllm", "together_ai", "infinity", "huggingface"])
def test_litellm(served: Any, passages: list[str], provider: str) -> None:
    reply = litellm.rerank(
        model=f"{provider}/faq", query="q", documents=passages, top_n=2, api_base=served.url, api_key=served.key,
        return_documents=False,
    )  # fmt: skip
    assert len({one["index"] for one in reply.results}) == 2


@pytest.mark.parametrize("kind", ["cohere", "jina", "text-embeddings-inference"])
def test_rerankers(served: Any, passages: list[str], kind: str) -> None:
    ranker = APIRanker("faq", served.key, api_provider=kind, url=f"{served.url}/v1/rerank")
    reply = ranker.rank("q", passages)
    assert len(reply.results) == len(passages)


@pytest.mark.parametrize("name", ["cohere_rerank", "jina_rerank"])
def test_lightrag(served: Any, passages: list[str], name: str) -> None:
    call = getattr(lightrag, name)
    found = asyncio.run(
        call("q", passages, top_n=2, api_key=served.key, model="faq", base_url=f"{served.url}/v1/rerank")
    )
    assert len(found) == 2
