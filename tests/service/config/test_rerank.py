"""The table `rerank` of a slot, and what is said about mistakes in it."""

from __future__ import annotations

import pytest

from peekrank.service.config import RerankConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import Config, parse_config

SLOT = '[slots.faq]\nlearner = "{learner}"\n{more}[slots.faq.rerank]\n{table}'


def parsed(table: str = "", learner: str = "mixed:cells=10", more: str = "") -> Config:
    return parse_config(Document(SLOT.format(table=table, learner=learner, more=more), "service.toml"))


def test_what_the_table_says() -> None:
    assert parsed().reranks == {"faq": RerankConfig()}
    full = """\
upstream = "https://tei.example:8080/rerank"
upstream_model = "bge"
upstream_key = "env:TEI_KEY"
upstream_field = "texts"
timeout = "500 s"
on_failure = "reject"
scale = "logit"
keys = "query"
max_documents = 1000
default = true
"""
    assert parsed(full.replace("500 s", "5 s")).reranks["faq"] == RerankConfig(
        upstream="https://tei.example:8080/rerank",
        upstream_model="bge",
        upstream_key="env:TEI_KEY",
        upstream_field="texts",
        timeout=5.0,
        on_failure="reject",
        max_documents=1000,
        scale="logit",
        keys="query",
        default=True,
    )
    with pytest.raises(ValueError, match=r"line 8: slots.faq.rerank.timeout = '500 s': must be a time above 0"):
        parsed(full)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('upstrem = ""', "line 4: unknown field slots.faq.rerank.upstrem: did you mean 'upstream'"),
        ('upstream = "tei:8080"', "must be http://HOST:PORT/PATH"),
        ('upstream = "http://me:hush@tei/rerank"', "must be http://HOST:PORT/PATH"),
        ('upstream = "http://tei:99999/rerank"', "must be http://HOST:PORT/PATH"),
        ('upstream_key = "hush"', "must name an environment variable"),
        ('upstream_field = "passages"', "must be 'documents' or 'texts'"),
        ("timeout = 0", "must be a time above 0"),
        ('on_failure = "ignore"', "must be 'order' or 'reject'"),
        ("default = 1", "must be true or false"),
        ("max_documents = 0", "must be a whole number from 1 to 1000000"),
        ("keys = true", "must be 'none' or 'query' or 'given'"),
    ],
)
def test_mistakes_are_named_and_secrets_are_not(table: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^service.toml, line 4") as error:
        parsed(table)
    assert reason in str(error.value)
    assert "hush" not in str(error.value)


def test_the_slot_must_be_able_to_start_from_scores() -> None:
    with pytest.raises(ValueError, match=r"line 2: slots.faq.learner = 'doubtsort': doubtsort ignores scores"):
        parsed(learner="doubtsort")
    with pytest.raises(ValueError, match=r"line 5: slots.faq.rerank.keys = 'query': mixed learns nothing per key"):
        parsed('\nkeys = "query"', learner="mixed")
    with pytest.raises(ValueError, match="new_items = 'reject': must be 'add'"):
        parsed(more='new_items = "reject"\n')
    with pytest.raises(ValueError, match="missing_feedback = 0: must be 'missing'"):
        parsed(more='missing_feedback = 0\nupdate = "on_close"\n')
    with pytest.raises(ValueError, match="feedback = 'click = 1; seen': must be 'grades'"):
        parsed(more='feedback = "click = 1; seen"\n')


def test_one_slot_is_the_default() -> None:
    both = SLOT.format(learner="mixed", more="", table="default = true\n")
    with pytest.raises(ValueError, match=r"line 8: slots.b.rerank.default = True: another slot is the default"):
        parse_config(Document(both + both.replace("faq", "b"), "service.toml"))
