"""Rules in a configuration: every field, and every contradiction with its line."""

from __future__ import annotations

import pytest

from peekrank.engine.rules import AtMost, Rules
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.config.rules import RulesConfig

ALL = """
[slots.home]
k = 2
[slots.home.rules]
explore = 0.25
explore_at = 2
pins = { 1 = "tea", 3 = "milk" }
blocked = ["beer"]
new = { n = 1, within = 3 }
new_below = 5
group = { n = 2, within = 4 }
leash = 0.1
"""


def rules_of(text: str) -> RulesConfig:
    (slot,) = parse_config(Document(text, "service.toml")).slots
    return slot.rules


def test_every_rule_can_be_configured() -> None:
    rules = rules_of(ALL)
    assert rules.pins == ((1, "tea"), (3, "milk"))
    assert rules.blocked == ("beer",)
    assert rules.limits == Rules(0.25, 2, new=AtMost(1, 3), new_below=5, group=AtMost(2, 4), leash=0.1)
    assert str(rules) == (
        "explore at most 25 % of lists; explore at position 2; tea at position 1; milk at position 3; "
        "blocked: beer; at most 1 new in the first 3; at most 2 of a group in the first 4; "
        "lose at most 10 % against your order"
    )


def test_a_slot_without_rules_has_none() -> None:
    rules = rules_of("[slots.home]\nk = 2")
    assert (rules, rules.limits, str(rules)) == (RulesConfig(), Rules(), "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("explore = 1.5", "line 4: slots.home.rules.explore = 1.5: must be a share from 0 to 1, as in 0.05"),
        ("leash = '5 %'", "slots.home.rules.leash = '5 %'"),
        ("leash = true", "must be a share from 0 to 1"),
        ("explore_at = 0", "slots.home.rules.explore_at = 0"),
        ("explore_at = 3", "explore_at = 3: must be at most k = 2, or nothing is learned"),
        ("new = 3", "must be a table with n and within, for example { n = 1, within = 5 }"),
        ("group = { n = 1 }", "must be a table with n and within"),
        ("group = { n = 0, within = 3 }", "slots.home.rules.group: "),
        ("group = { n = 1, within = 'x' }", "slots.home.rules.group: "),
        ("new_below = 0", "slots.home.rules.new_below = 0"),
        ("pins = ['a']", "slots.home.rules.pins = ['a']: must map positions from 1 to 1000 to items"),
        ("pins = { 0 = 'a' }", "must map positions from 1 to 1000 to items"),
        ("pins = { 01 = 'a' }", "must map positions from 1 to 1000 to items"),
        ("pins = { 1001 = 'a' }", "must map positions from 1 to 1000 to items"),
        ("pins = { '١' = 'a' }", "must map positions from 1 to 1000 to items"),
        ("pins = { '" + "9" * 5000 + "' = 'a' }", "must map positions from 1 to 1000 to items"),
        ("pins = { 1 = 5 }", "slots.home.rules.pins: must name items"),
        ("pins = { 1 = 'a', 2 = 'a' }", "slots.home.rules.pins: must name each item once"),
        ("pins = { 1 = 'a' }\nblocked = ['a']", "slots.home.rules.pins: 'a' is pinned to position 1, and blocked"),
        ("blocked = 'a'", "slots.home.rules.blocked = 'a': must name items"),
        ("blocked = ['']", "'' is not a valid name"),
        ("explor = 0.1", "line 4: unknown field slots.home.rules.explor: did you mean 'explore'?"),
    ],
)
def test_wrong_rules_are_rejected_with_the_reason(line: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        rules_of(f"[slots.home]\nk = 2\n[slots.home.rules]\n{line}")
    assert said in str(error.value)


def test_rules_must_be_a_table() -> None:
    with pytest.raises(ValueError, match=r"slots.home.rules = 5: must be a table"):
        rules_of("[slots.home]\nrules = 5")


@pytest.mark.parametrize(
    ("slot", "line", "said"),
    [
        (
            "learner = 'marginftrl'",
            "explore = 0.1",
            "marginftrl cannot obey rules other than blocked: its lists are",
        ),
        ("learner = 'thompson'", "pins = { 1 = 'a' }", "thompson cannot obey rules other than blocked"),
        ("learner = 'rtopkf'\nfeatures = 2", "leash = 0.1", "rtopkf cannot obey rules other than blocked"),
        (
            "learner = 'champion'\nitems = ['a', 'b']",
            "group = { n = 1, within = 2 }",
            "champion cannot obey rules",
        ),
        (
            "learner = 'blockftrl'\nitems = ['a', 'b']",
            "blocked = ['a']",
            "blockftrl always ranks all of its items",
        ),
        ("learner = 'ridge'\nfeatures = 2", "new = { n = 1, within = 2 }", "ridge does not count the answers"),
    ],
)
def test_learners_that_cannot_obey_are_rejected_with_a_sentence(slot: str, line: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        rules_of(f"[slots.home]\n{slot}\n[slots.home.rules]\n{line}")
    assert "service.toml, line" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize("learner", ["thompson", "ucb", "marginftrl", "rtopkf", "ridge:explore=sampling"])
def test_every_learner_whose_items_may_change_can_block(learner: str) -> None:
    features = "features = 2" if learner.startswith(("r",)) else ""
    assert rules_of(f"[slots.home]\nlearner = '{learner}'\n{features}\nrules = {{ blocked = ['a'] }}").blocked == (
        "a",
    )
