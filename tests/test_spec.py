"""Specifications: what they read, and how they complain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from peekrank import DCG, RTop1F, learner, measure
from peekrank.spec import format_spec, parse


@dataclass(frozen=True)
class Thing:
    size: int
    share: float = 0.5
    mode: Literal["fast", "slow"] = "fast"
    flag: bool = False
    path: Path = Path("x")
    limit: int | None = None
    weights: tuple[float, ...] = ()
    cap: int | None = 5
    name: ClassVar[str] = "thing"


REGISTRY: dict[str, type[Any]] = {"thing": Thing}


@pytest.mark.parametrize(
    "thing",
    [
        Thing(3),
        Thing(-3, 1e-7, "slow", True, Path("a/b.csv"), 4, (0.1, 2.0, 1e300)),
        Thing(1, share=1 / 3),
        Thing(1, weights=(1.0,)),
        Thing(1, path=Path("a,b.csv"), flag=True),
        Thing(1, path=Path("[a,b].csv"), flag=True),
        Thing(1, limit=None),
        Thing(1, cap=None),
    ],
)
def test_round_trip(thing: Thing) -> None:
    assert parse("thing", REGISTRY, format_spec(thing)) == thing


def test_text_leaves_out_defaults() -> None:
    assert format_spec(Thing(3, flag=True)) == "thing:size=3,flag=true"


def test_context_fills_what_is_open_and_only_what_exists() -> None:
    assert parse("thing", REGISTRY, "thing:share=0.25", size=7, share=0.1, other=3) == Thing(7, 0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thin", "unknown thing 'thin': did you mean 'thing'? Known: thing"),
        ("thing", "thing 'thing' needs size, as in 'thing:size=...'"),
        ("thing:size", "'size' is not of the form field=value"),
        ("thing:sice=3", "thing 'thing' has no field 'sice': did you mean 'size'?"),
        ("thing:size=1,size=2", "sets size twice"),
        ("thing:size=x", "field size: 'x' is not a whole number"),
        ("thing:size=1,share=x", "field share: 'x' is not a number"),
        ("thing:size=1,share=nan", "field share: 'nan' is not finite"),
        ("thing:size=1,mode=fats", "'fats' is not a valid choice: did you mean 'fast'?"),
        ("thing:size=1,flag=yes", "'yes' is neither true nor false"),
    ],
)
def test_complaints(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse("thing", REGISTRY, text)
    assert message in str(caught.value)


def test_a_value_without_fields_says_so() -> None:
    with pytest.raises(ValueError, match="learner 'uniform' has no field 'horizon': it has none"):
        learner("uniform:horizon=3")


def test_a_learner_takes_its_measure_by_name() -> None:
    made = learner("rtop1f:measure=dcg@5+linear,order=fixed", horizon=100)
    assert made == RTop1F(DCG(5, "linear"), horizon=100, order="fixed")
    assert learner(format_spec(made)) == made


def test_none_can_be_written_where_it_is_allowed() -> None:
    made = learner("setftrl:horizon=none", measure=measure("p@2"), horizon=100)
    assert made == learner("setftrl", measure=measure("p@2"))
    with pytest.raises(ValueError, match="'none' is not a whole number"):
        learner("rtop1f:horizon=none", measure=measure("dcg"))
