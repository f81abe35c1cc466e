"""The recipes of docs/recipes, each run as it is on its page, with the real library."""

from __future__ import annotations

from typing import Any

import cohere
import httpx
import pytest

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


def test_errors_are_the_clients_own_and_say_what_is_wrong(served: Any) -> None:
    client = cohere.ClientV2(served.key, base_url=served.url)
    with pytest.raises(cohere.NotFoundError, match="no slot is called 'fag'; did you mean 'faq'"):
        client.rerank(model="fag", query="q", documents=["a"])
    with pytest.raises(cohere.UnauthorizedError, match="send a key of this service"):
        cohere.ClientV2("wrong", base_url=served.url).rerank(model="faq", query="q", documents=["a"])
    with pytest.raises(cohere.UnprocessableEntityError, match="needs a text or an id"):
        cohere.Client(served.key, base_url=served.url).rerank(model="faq", query="q", documents=[{"title": "a"}])
