"""Passages to rerank that every Python has, the docstrings of its library, with BM25 and simulated readers.

A passage is a docstring without its summary line, and its question is that line. A visit draws a question, by
Zipf's law unless the world is flat, in one of 3 fixed wordings, which keep each content word with probability 0.6.
BM25 picks 20 passages, and learners order them; the first k get a thumb, up with probability 0.85 for the
question's own passage and 0.1 for others. A list is worth 1/log2(1 + position) of the own passage.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from peekrank.engine import Agent
from peekrank.learners import learner as learner_named
from peekrank.measures import DCG
from peekrank.types import Floats, Ints

N = 20  # passages of a list
WORDINGS, KEPT, UP, UP_WRONG = 3, 0.6, 0.85, 0.1
_FEWEST = 100  # passages
MODULES = """
    argparse collections configparser contextlib copy datetime difflib email.headerregistry email.message enum
    fractions functools heapq http.client http.cookiejar imaplib inspect ipaddress json json.decoder json.encoder
    locale logging logging.handlers optparse os pickle random shutil smtplib socket socketserver statistics
    subprocess tempfile textwrap threading traceback unittest.case urllib.parse urllib.request uuid weakref
    xml.etree.ElementTree zipfile
"""
STOP = """
    a an and any are as at be been but by can do does each for from has have if in into is it its may must no not
    of on one only or other otherwise see should so some such than that the their them then there these they this
    to used using was when where which will with would you your
"""


class Passage(NamedTuple):
    """The content words of a docstring: those of its summary line once each, and the others."""

    question: tuple[str, ...]
    answer: tuple[str, ...]
    title: str = ""
    summary: str = ""


def words(text: str) -> list[str]:
    """Return the content words of a text."""
    stop = STOP.split()
    return [word for word in re.findall(r"[a-z]{2,}", text.lower()) if word not in stop]


@lru_cache
def passages() -> list[Passage]:
    """Read the docstrings of the modules that have a summary line and enough words after it, each text once.

    Raises ValueError if this Python comes without the sources of its library.
    """
    library, found = Path(sysconfig.get_path("stdlib")), dict[tuple[str, ...], Passage]()
    for module in MODULES.split():
        path = library / module.replace(".", "/")
        source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if not source.exists():
            continue
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            summary, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            question, answer = tuple(dict.fromkeys(words(summary))), tuple(words(rest))
            if 4 <= len(question) <= 20 and len(answer) >= 12:
                name = module if isinstance(node, ast.Module) else f"{module}: {node.name}"
                found.setdefault(answer, Passage(question, answer, name, " ".join(summary.split())))
    if len(found) < _FEWEST:
        raise ValueError(f"{library} has no sources of the standard library, whose docstrings are the passages")
    return list(found.values())


class BM25:
    """Score texts by the words that they share with a query (Robertson and Zaragoza's formula)."""

    def __init__(self, texts: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> None:
        self.column = {word: j for j, word in enumerate(sorted({word for text in texts for word in text}))}
        counts = np.zeros((len(texts), len(self.column)))
        for row, text in zip(counts, texts, strict=True):
            np.add.at(row, [self.column[word] for word in text], 1)
        having, length = (counts > 0).sum(axis=0), counts.sum(axis=1, keepdims=True)
        rarity = np.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        self.weights = rarity * counts * (k1 + 1) / (counts + k1 * (1 - b + b * length / length.mean()))

    def scores(self, query: Sequence[str]) -> Floats:
        """Return the score of each text."""
        found: Floats = self.weights[:, [self.column[word] for word in query if word in self.column]].sum(axis=1)
        return found


@dataclass(frozen=True)
class World:
    """How visits are drawn, and who answers."""

    name: str
    answering: float = 1.0
    k: int = 1
    strong: bool = False
    flat: bool = False
    fresh: float = 0.0  # share of the visits with a new wording


class Visits(NamedTuple):
    """The lists of a run in BM25's order, the own passage's position (-1: not among them), and the answers."""

    items: Ints
    scores: Floats
    keys: Ints
    own: Ints
    thumbs: Floats
    answered: Floats
    wordings: list[str]  # by key


@lru_cache
def bm25(*, strong: bool) -> BM25:
    """Return BM25 over the passages."""
    return BM25([(*p.question, *p.answer) if strong else p.answer for p in passages()])


def drawn(world: World, seed: int, visits: int) -> Visits:
    """Draw the visits of a run."""
    rng, texts, ranker = np.random.default_rng([seed, 26]), passages(), bm25(strong=world.strong)

    def worded(question: int) -> list[str]:
        every = texts[question].question
        kept = [word for word, coin in zip(every, rng.random(len(every)), strict=True) if coin < KEPT]
        return kept or [every[rng.integers(len(every))]]

    def listed(query: list[str]) -> tuple[Ints, Floats, str]:
        scores = ranker.scores(query)
        best = np.argsort(-scores, kind="stable")[:N]
        return best, scores[best], " ".join(query)

    lists = [listed(worded(question)) for question in range(len(texts)) for _ in range(WORDINGS)]
    popular = np.ones(len(texts)) if world.flat else 1 / rng.permutation(np.arange(1, len(texts) + 1))
    questions = rng.choice(len(texts), size=visits, p=popular / popular.sum())
    keys = WORDINGS * questions + rng.integers(WORDINGS, size=visits)
    for t in np.flatnonzero(rng.random(visits) < world.fresh):
        keys[t] = len(lists)
        lists.append(listed(worded(int(questions[t]))))
    items, scores = (np.array([lists[key][part] for key in keys]) for part in (0, 1))
    is_own = items == questions[:, None]
    thumbs = rng.random(items.shape) < np.where(is_own, UP, UP_WRONG)
    own = np.where(is_own.any(axis=1), is_own.argmax(axis=1), -1)
    return Visits(
        items, scores, keys, own, thumbs.astype(np.float64), rng.random(visits), [one[2] for one in lists]
    )


Player = Callable[[World, Visits, int], Ints]  # returns the position of the own passage in each list, -1 if none


def play(name: str, *, key: bool, scored: bool = True, watch: Callable[[Agent], None] | None = None) -> Player:
    """Return a player of a learner. ``watch`` is called with the agent after each answer."""

    def player(world: World, visits: Visits, seed: int) -> Ints:
        size, positions = int(visits.items.max()) + 1, np.full(len(visits.own), -1)
        agent = Agent(learner_named(name), m=size, k=world.k, seed=seed)
        for t, items in enumerate(visits.items):
            scores, of_wording = visits.scores[t] if scored else None, int(visits.keys[t]) if key else None
            decision = agent.rank(available=items, scores=scores, key=of_wording)
            ranking = decision.ranking
            if visits.own[t] >= 0:
                positions[t] = np.flatnonzero(ranking == items[visits.own[t]])[0]
            if visits.answered[t] < world.answering:
                rows = [int(np.flatnonzero(items == item)[0]) for item in ranking[: world.k]]
                agent.update(decision, visits.thumbs[t, rows])
                if watch:
                    watch(agent)
        return positions

    return player


def worth(positions: Ints) -> Floats:
    """Return the DCG of lists with the own passage at these positions."""
    found: Floats = np.where(positions >= 0, DCG().discount(N)[positions], 0.0)
    return found
