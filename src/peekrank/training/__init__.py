"""Train rankers on judged documents, evaluate them on held-out queries, and save them as models."""
