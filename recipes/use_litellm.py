import httpx
import litellm

url, key = "http://127.0.0.1:8000", "peek_app_..."
reply = litellm.rerank(
    model="cohere/faq",
    query="hot drink",
    documents=passages,
    top_n=3,
    api_base=url,
    api_key=key,
)
best = [passages[result["index"]] for result in reply.results]

feedback = httpx.put(
    f"{url}/v1/events/{reply.id}/feedback",
    headers={"Authorization": f"Bearer {key}"},
    json={"grade": 1, "cited": [reply.results[0]["index"]]},
)
