import httpx
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.postprocessor.cohere_rerank import CohereRerank
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider

url, key = "http://127.0.0.1:8000", "peek_app_..."
trace.set_tracer_provider(TracerProvider())
HTTPXClientInstrumentor().instrument()  # before the reranker is made
reranker = CohereRerank(api_key=key, base_url=url, model="faq", top_n=3)
nodes = [NodeWithScore(node=TextNode(text=text)) for text in passages]
with trace.get_tracer("app").start_as_current_span("answer") as span:
    best = reranker.postprocess_nodes(nodes, query_str="hot drink")
    trace_id = f"{span.get_span_context().trace_id:032x}"

text = best[0].node.get_content(metadata_mode=MetadataMode.EMBED)
feedback = httpx.put(
    f"{url}/v1/events/trace:{trace_id}/feedback",
    headers={"Authorization": f"Bearer {key}"},
    json={"grade": 1, "cited": [{"text": text}]},
)
