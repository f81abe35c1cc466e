import cohere
import httpx
from langchain_cohere import CohereRerank
from langchain_core.documents import Document

url, key = "http://127.0.0.1:8000", "peek_app_..."
events = []  # ids of the lists, in the order of the calls


def keep_event(response):
    events.append(response.headers["x-peekrank-event"])


http = httpx.Client(event_hooks={"response": [keep_event]}, timeout=30)
client = cohere.ClientV2(key, base_url=url, httpx_client=http)
reranker = CohereRerank(client=client, model="faq", top_n=3)
documents = [Document(page_content=text) for text in passages]
best = reranker.compress_documents(documents, "hot drink")

feedback = httpx.put(
    f"{url}/v1/events/{events[-1]}/feedback",
    headers={"Authorization": f"Bearer {key}"},
    json={"grade": 1, "cited": [{"text": best[0].page_content}]},
)
