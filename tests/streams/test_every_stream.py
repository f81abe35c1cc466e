"""Every check crossed with every stream; broken ones fail the check that names the fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from peekrank import CT15
from peekrank.checks import STREAM_CHECKS, CheckError, check_stream
from peekrank.registry import STREAMS
from peekrank.streams import stream
from peekrank.types import Rounds, Stream

ORDERS = "# NUMBER ALTERNATIVES: 3\n2: 1,2,3\n1: 3,1,2\n"
RATINGS = "1,2,3\n3,,1\n5,4,4\n"
PROOF = '{"game": {"outcomes": ["0 1 0", "1 1 0"]}, "adversaries": {"p": [0.5, 0.5], "q": [0.25, 0.75]}}'
SPECIFICATIONS = [
    "ct15",
    "ct15:m=5,noise=0.5",
    "bernoulli",
    "bernoulli:means=0.9+0.1",
    "bernoulli:means=0.9+0.1+0.5,grade=3",
    "joint:lists=012+100,probabilities=0.25+0.75",
    "binomial:m=4,max_grade=2",
    "switching",
    "drifting:periods=2.0",
    "available",
    "available:m=12,n=4,rule=churn,grade=3",
    "available:m=6,n=4,rule=joining",
    "orders:path=votes.soc,rule=top1",
    "ratings:path=ratings.csv,rule=quantile3",
    "adversary:path=proof.json,side=q",
    "clicks:stream=ct15",
    (
        "clicks:stream=[binomial:m=4,max_grade=2],model=[dependent:continuation=0.5+0.1,skip=0.25],"
        "feedback=[click = 1; curve 1 0.5]"
    ),
    "clicks:stream=orders:path=votes.soc,model=[position:if_relevant=0.9+0.5,if_irrelevant=0.1+0.0]",
]


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.chdir(tmp_path)
    Path("votes.soc").write_text(ORDERS)
    Path("ratings.csv").write_text(RATINGS)
    Path("proof.json").write_text(PROOF)
    return stream(request.param)


def test_every_registered_stream_is_checked() -> None:
    assert {text.partition(":")[0] for text in SPECIFICATIONS} == set(STREAMS.built_in)


@pytest.mark.parametrize("check", STREAM_CHECKS.values(), ids=STREAM_CHECKS.keys())
@pytest.mark.parametrize("made", SPECIFICATIONS, indirect=True)
def test_stream_passes(made: Stream, check: Callable[[Stream], None]) -> None:
    check(made)


class OneTooMany(CT15):
    def rounds(self, n: int, rng: np.random.Generator) -> Rounds:
        return super().rounds(n + 1, rng)


class OwnGenerator(CT15):
    def rounds(self, n: int, rng: np.random.Generator) -> Rounds:
        return super().rounds(n, np.random.default_rng())


@pytest.mark.parametrize(
    ("broken", "fault"), [(OneTooMany(), "rounds_are_well_formed"), (OwnGenerator(), "same_seed_same_rounds")]
)
def test_broken_stream_fails_the_check_that_names_its_fault(broken: Stream, fault: str) -> None:
    with pytest.raises(CheckError, match=f"^{fault}: "):
        check_stream(broken)
