"""Comparisons in a configuration: every field, and every mistake with its line."""

from __future__ import annotations

import pytest

from peekrank.service.config.compare import CompareConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config

PLAIN = "[slots.home]\nk = 3\nmeasure = 'dcg@3'\n"


def compare_of(text: str) -> CompareConfig | None:
    (slot,) = parse_config(Document(text, "service.toml")).slots
    return slot.compare


def test_every_field_can_be_configured() -> None:
    assert compare_of(PLAIN) is None
    assert compare_of(PLAIN + "[slots.home.compare]") == CompareConfig()
    text = "names = ['bm25', 'model']\nmode = 'union'\npartial = true\nregression = 'mean'\noutside = 0.3\n"
    expected = CompareConfig(("bm25", "model"), "union", 0.3, (), True, "mean")
    assert compare_of(PLAIN + "[slots.home.compare]\n" + text) == expected
    clicks = compare_of(PLAIN + "[slots.home.compare]\nmode = 'coin'\nexamination = [1, 0.5, 0.25]")
    assert clicks == CompareConfig(mode="coin", examination=(1, 0.5, 0.25))


@pytest.mark.parametrize(
    ("slot", "compare", "said"),
    [
        ("learner = 'doubtsort'", "", "line 4: slots.home.learner = 'doubtsort': a slot that compares shows"),
        ("items = ['a', 'b']", "", "line 4: slots.home.items"),
        ("mode = 'shadow'", "", "line 4: slots.home.mode"),
        ("update = 'immediate'", "", "line 4: slots.home.update = 'immediate': a comparison counts feedback when"),
        ("feedback = 'click = 1; curve 1 0.5 0.3'", "", "line 4: slots.home.feedback"),
        ("max_grade = 31", "", "line 4: slots.home.max_grade = 31: comparisons take grades up to 30"),
        ("k = 1", "", "this is not TOML"),
        ("", "mode = 'team'", "line 6: slots.home.compare.mode = 'team'"),
        ("", "moed = 'coin'", "unknown field slots.home.compare.moed: did you mean 'mode'?"),
        ("", "names = ['a']", "slots.home.compare.names = ['a']: must be two different names"),
        ("", "names = ['a', 'a']", "must be two different names"),
        ("", "names = 'ab'", "must be a list"),
        ("", "names = [1, 2]", "must be two different names"),
        ("", "outside = 3", "slots.home.compare.outside = 3"),
        ("", "outside = 'much'", "slots.home.compare.outside = 'much'"),
        ("", "outside = true", "slots.home.compare.outside = True"),
        ("", "partial = 1", "slots.home.compare.partial = 1"),
        ("", "examination = [1.0, 0.5]", "slots.home.compare.examination = [1.0, 0.5]"),
        ("", "examination = [0.5, 1.0, 1.0]", "that do not increase"),
        ("", "examination = [1.0, 'x', 0.5]", "slots.home.compare.examination"),
        ("", "mode = 'coin'\noutside = 0.1", "only lists of mode = 'union'"),
        ("", "mode = ['coin']", "slots.home.compare.mode"),
    ],
)
def test_mistakes_give_line_and_reason(slot: str, compare: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"service\.toml") as error:
        compare_of(f"{PLAIN}{slot}\n[slots.home.compare]\n{compare}")
    assert said in str(error.value)


@pytest.mark.parametrize("measure", ["dcg", "dcg@5", "auc", "ndcg@3", "nonsense"])
def test_a_measure_must_fit_k(measure: str) -> None:
    with pytest.raises(ValueError, match=r"service.toml, line 3: slots.home.measure|slots.home.compare"):
        compare_of(PLAIN.replace("dcg@3", measure) + "[slots.home.compare]")


def test_a_table_is_needed() -> None:
    with pytest.raises(ValueError, match="must be a table"):
        compare_of(PLAIN + "compare = 'union'")
