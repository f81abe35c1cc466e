"""The recipes of docs/recipes, each run as it is on its page, with the real library."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import cohere
import httpx
import pytest

from conftest import Served

GOOD = {"good": 0.9, "fair": 0.4, "poor": 0.2}  # probability that an answer of the model is good
RECIPES = {
    "use_cohere.py": lambda one: one,
    "use_langchain.py": lambda one: one.page_content,
    "use_llama_index.py": lambda one: one.node.text,
    "use_haystack.py": lambda one: one.content,
    "use_litellm.py": lambda one: one,
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_ranks_and_its_grade_arrives(served: Any, passages: list[str], recipe: str) -> None:
    names = served.run(recipe, passages=passages)
    best = [RECIPES[recipe](one) for one in names["best"]]
    assert len(set(best)) == 3
    assert set(best) <= set(passages)
    feedback: httpx.Response = names["feedback"]
    assert feedback.status_code == 200
    said = feedback.json()
    event = said["events"][0] if "events" in said else said
    assert event["learned"] is True
    assert [grade for grade in event["grades"].values() if grade is not None] == [1]


def test_the_reranker_learns(served: Any, passages: list[str]) -> None:
    """Thumbs go up if the answer cites the passage about tea, which the retriever has in second place."""
    client = cohere.ClientV2(served.key, base_url=served.url)
    headers = {"authorization": f"Bearer {served.key}"}
    firsts = []
    with httpx.Client(base_url=served.url, headers=headers) as http:
        for _ in range(200):
            reply = client.rerank(model="faq", query="what is hot?", documents=passages)
            first = reply.results[0].index
            firsts.append(first)
            grade = {"grade": int(first == 1), "cited": [first]}
            http.put(f"/v1/events/{reply.id}/feedback", json=grade).raise_for_status()
    assert firsts[0] == 0
    assert firsts[-50:].count(1) > 40


def deployment(model: str, answer: str) -> dict[str, Any]:
    """A model that answers without a network, or fails."""
    parameters = {"model": f"openai/{model}", "api_key": "none", "mock_response": answer}
    return {"model_name": "chat", "litellm_params": parameters}


def test_the_router_learns_which_model_to_try_first(served: Any) -> None:
    names = served.run("use_litellm_router.py", deployments=[deployment(one, one) for one in GOOD])

    async def chat() -> list[str]:
        answers, rng = [], random.Random(0)  # noqa: S311 - not a secret
        for _ in range(200):
            text, metadata = await names["answer"]("Which?")
            await names["first"].grade(metadata, float(rng.random() < GOOD[text]))
            answers.append(text)
        return answers

    answers = asyncio.run(chat())
    assert answers[-100:].count("good") > 75


def test_the_router_tries_another_model_if_the_first_one_fails(served: Any) -> None:
    deployments = [deployment("works", "works"), deployment("broken", "litellm.RateLimitError")]
    names = served.run("use_litellm_router.py", deployments=deployments)

    async def chat() -> list[tuple[str, Any]]:
        return [await names["answer"]("Which?") for _ in range(20)]

    replies = asyncio.run(chat())
    assert {text for text, _ in replies} == {"works"}
    tried = [[name for name, _ in names["tries"](metadata)] for _, metadata in replies]
    assert ["openai/broken", "openai/works"] in tried
    assert ["openai/works"] in tried


def test_the_router_works_without_the_service(served: Any) -> None:
    names = Served("http://127.0.0.1:1", served.key).run(
        "use_litellm_router.py", deployments=[deployment("only", "only")]
    )
    text, metadata = asyncio.run(names["answer"]("Which?"))
    assert (text, names["tries"](metadata)) == ("only", [])


def test_errors_are_the_clients_own_and_say_what_is_wrong(served: Any) -> None:
    client = cohere.ClientV2(served.key, base_url=served.url)
    with pytest.raises(cohere.NotFoundError, match="no slot is called 'fag'; did you mean 'faq'"):
        client.rerank(model="fag", query="q", documents=["a"])
    with pytest.raises(cohere.UnauthorizedError, match="send a key of this service"):
        cohere.ClientV2("wrong", base_url=served.url).rerank(model="faq", query="q", documents=["a"])
    with pytest.raises(cohere.UnprocessableEntityError, match="needs a text or an id"):
        cohere.Client(served.key, base_url=served.url).rerank(model="faq", query="q", documents=[{"title": "a"}])
