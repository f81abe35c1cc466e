import httpx
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider

url, key = "http://127.0.0.1:8000", "peek_app_..."
trace.set_tracer_provider(TracerProvider())
HTTPXClientInstrumentor().instrument()  # before the ranker is made
secret = Secret.from_token(key)
ranker = CohereRanker(api_key=secret, api_base_url=url, model="faq", top_k=3)
documents = [Document(content=text) for text in passages]
with trace.get_tracer("app").start_as_current_span("answer") as span:
    best = ranker.run(query="hot drink", documents=documents)["documents"]
    trace_id = f"{span.get_span_context().trace_id:032x}"

feedback = httpx.put(
    f"{url}/v1/events/trace:{trace_id}/feedback",
    headers={"Authorization": f"Bearer {key}"},
    json={"grade": 1, "cited": [{"text": best[0].content}]},
)
