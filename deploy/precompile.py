"""Compile everything that a service needs beside its learner, by running one for a moment."""

import tempfile

from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core.rerank import Rerank
from peekrank.service.core.service import Service

LIST: list[str | Item] = [Item("a", [0.0]), Item("b", [1.0])]
SLOTS = (
    SlotConfig("items", learner="doubtsort", items=("a", "b", "c")),
    SlotConfig("lists", learner="ridge", features=1, max_list_length=3),
    SlotConfig("texts", learner="mixed:cells=10", measure="dcg:gains=linear", k=2, feedback_window=60.0),
)
DOCUMENTS: list[str | Item] = [Item("a", score=1.0), Item("b", score=0.5)]

configure_logging("error")
with tempfile.TemporaryDirectory() as folder:
    config = Config(SLOTS, store=StoreConfig(f"{folder}/log.db"))
    with Service(config) as service:
        for _ in range(200):
            for slot, items in (("items", None), ("lists", LIST)):
                reply = service.rank(slot, RankRequest(items=items))
                service.feedback(reply.event_id, FeedbackRequest([1]))
            call = RankRequest(items=DOCUMENTS, key="query", score_version=1)
            reply = service.submit(Rerank("texts", call, ["a", "b"], b"")).result()
            service.feedback(reply.event_id, FeedbackRequest(grade=1, cited=[0]))
