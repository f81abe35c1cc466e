import cohere
import httpx

url, key = "http://127.0.0.1:8000", "peek_app_..."
client = cohere.ClientV2(key, base_url=url)
reply = client.rerank(model="faq", query="hot drink", documents=passages, top_n=3)
best = [passages[result.index] for result in reply.results]

# Later: a thumb up for an answer that cites the first passage.
feedback = httpx.put(
    f"{url}/v1/events/{reply.id}/feedback",
    headers={"Authorization": f"Bearer {key}"},
    json={"grade": 1, "cited": [reply.results[0].index]},
)
