"""The agent of a slot, as its configuration asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from peekrank.engine import Agent
from peekrank.engine.rules import Rules
from peekrank.service.config import SlotConfig
from peekrank.service.config.compare import CompareConfig
from peekrank.types import ExplainsItems


def new_agent(config: SlotConfig, n_items: int) -> Agent:
    """Create the agent of a slot that knows some number of items."""
    learner = config.learner_object
    if learner.variable_length:
        m = config.max_list_length
    elif learner.kernels.set_items is not None:
        m = max(config.k, n_items, 1)  # an unused number gets its item later
    else:
        m = len(config.items)
    agent = Agent(learner, m=m, k=config.k, d=config.d, rules=agent_rules(config)).compile()
    if isinstance(learner, ExplainsItems):  # compile that now, not when somebody opens the dashboard
        learner.explain(agent.state, np.full(m, np.nan), None)
    return agent


def agent_rules(config: SlotConfig) -> Rules | None:
    """Return the rules of the agent. Pins and blocked items come with each list; shadow lists obey no rules."""
    limits = config.rules.limits
    return None if limits == Rules() or config.mode == "shadow" else limits


def identity(config: SlotConfig) -> tuple[Any, ...]:
    """Return everything that the learner's state depends on. If it changes, the learner starts from scratch."""
    learner = config.learner_object
    is_fixed = learner.kernels.set_items is None and not learner.variable_length
    items = config.items if is_fixed else config.max_list_length if learner.variable_length else None
    features = (config.features, config.context, config.features_from, config.item_effects)
    compare = config.compare and (replace(config.compare, names=CompareConfig.names), config.measure)
    return config.specification, config.k, config.grade_range, items, *features, compare
