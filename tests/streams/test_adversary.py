"""The stream of indistinguishable adversaries: its distribution, its files, and its linear regret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peekrank.checks import check_stream
from peekrank.engine import simulate
from peekrank.experiments.experiment import Experiment
from peekrank.games.analysis import analyse
from peekrank.games.certificate import certificate
from peekrank.games.ranking import ranking_game
from peekrank.regret import best_values, regret
from peekrank.spec import format_spec
from peekrank.streams import Adversary, stream
from peekrank.streams.adversary import Side

Proof = dict[str, Any]


def write(folder: Path, name: str, m: int, k: int, grades: int = 2) -> tuple[Path, Proof]:
    proof = certificate(analyse(ranking_game(name, m, k, grades)))
    path = folder / f"{name}-{m}-{k}-{grades}.json"
    path.write_text(json.dumps(proof))
    return path, proof


@pytest.mark.parametrize(
    ("name", "m", "k", "grades"), [("ndcg", 3, 1, 2), ("ap", 4, 2, 2), ("aucloss", 3, 2, 3), ("ndcg", 2, 1, 4)]
)
def test_outcomes_come_as_often_as_the_certificate_says(
    name: str, m: int, k: int, grades: int, tmp_path: Path
) -> None:
    path, proof = write(tmp_path, name, m, k, grades)
    n = 200_000
    weights = grades ** np.arange(m - 1, -1, -1)
    sides: tuple[Side, Side] = ("p", "q")
    for seed, side in enumerate(sides):
        made = Adversary(path, side)
        assert (made.m, made.d, made.max_grade) == (m, 0, grades - 1)
        relevance = made.rounds(n, np.random.default_rng(seed)).relevance.reshape(n, m)
        found = np.bincount(relevance @ weights, minlength=grades**m)
        expected = n * np.array(proof["adversaries"][side])
        assert np.all(np.abs(found - expected) <= 5 * np.sqrt(np.maximum(expected, 1)))


@pytest.mark.parametrize("side", ["p", "q"])
def test_it_passes_all_checks_of_streams(side: Side, tmp_path: Path) -> None:
    check_stream(Adversary(write(tmp_path, "aucloss", 4, 2)[0], side))


def test_both_sides_show_the_same_to_every_ranking(tmp_path: Path) -> None:
    """Frequencies of the feedback on the first k items of each ranking differ only by sampling error."""
    path, _ = write(tmp_path, "aucloss", 4, 2)
    n = 100_000
    p, q = (Adversary(path, side).rounds(n, np.random.default_rng(1)).relevance for side in ("p", "q"))
    for a in range(4):
        for b in range(a):
            tables = (side.reshape(n, 4).astype(np.int64) for side in (p, q))
            shown = [np.bincount(2 * table[:, a] + table[:, b], minlength=4) for table in tables]
            assert np.all(np.abs(shown[0] - shown[1]) <= 5 * np.sqrt(2 * n / 4))
    assert (
        np.bincount(p.reshape(n, 4).sum(axis=1), minlength=5).tolist()
        != np.bincount(q.reshape(n, 4).sum(axis=1), minlength=5).tolist()
    )


def test_specifications_go_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = write(tmp_path, "ndcg", 3, 1)
    monkeypatch.chdir(tmp_path)
    for text in (f"adversary:path={path.name}", f"adversary:path={path.name},side=q"):
        made = stream(text)
        assert format_spec(made) == text
        assert made == stream(format_spec(made))
    assert stream(f"adversary:path={path.name}") == Adversary(Path(path.name), "p")


def test_a_third_side_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="side"):
        stream(f"adversary:path={tmp_path / 'x.json'},side=r")


def drop(proof: Proof, *keys: str) -> None:
    for key in keys[:-1]:
        proof = proof[key]
    del proof[keys[-1]]


BROKEN: dict[str, tuple[Callable[[Proof], Any], str]] = {
    "no adversaries": (lambda p: drop(p, "adversaries"), "holds no adversaries"),
    "one adversary": (lambda p: drop(p, "adversaries", "q"), "cannot be read: KeyError"),
    "no game": (lambda p: drop(p, "game"), "cannot be read: KeyError"),
    "other outcomes": (lambda p: p["game"].update(outcomes=["fine", "worn"]), "cannot be read: ValueError"),
    "numbers for outcomes": (lambda p: p["game"].update(outcomes=[1, 2]), "cannot be read: AttributeError"),
    "no outcomes": (lambda p: p["game"].update(outcomes=[]), "not relevance vectors"),
    "negative grades": (lambda p: p["game"]["outcomes"].__setitem__(0, "-1 0 0"), "not relevance vectors"),
    "large grades": (lambda p: p["game"]["outcomes"].__setitem__(0, "256 0 0"), "not relevance vectors"),
    "outcomes of several lengths": (lambda p: p["game"]["outcomes"].__setitem__(0, "0 0"), "outcomes"),
    "a text for a distribution": (lambda p: p["adversaries"].update(p="half"), "cannot be read: ValueError"),
    "too few probabilities": (
        lambda p: p["adversaries"]["p"].pop(),
        "'p' is not a distribution over the 8 outcomes",
    ),
    "too many probabilities": (lambda p: p["adversaries"]["q"].append(0.0), "'q' is not a distribution"),
    "negative probabilities": (
        lambda p: p["adversaries"].update(q=[-1.0, 2.0, *[0] * 6]),
        "'q' is not a distribution",
    ),
    "more than one": (lambda p: p["adversaries"].update(p=[0.5] * 8), "'p' is not a distribution"),
    "a probability of 400 digits": (
        lambda p: p["adversaries"].update(p=[10**400] * 8),
        "cannot be read: OverflowError",
    ),
    "not a number": (lambda p: p["adversaries"].update(p=[float("nan")] * 8), "'p' is not a distribution"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_certificates_are_named(fault: str, tmp_path: Path) -> None:
    path, proof = write(tmp_path, "ndcg", 3, 1)
    change, message = BROKEN[fault]
    change(proof)
    path.write_text(json.dumps(proof))
    with pytest.raises(ValueError, match=message) as caught:
        Adversary(path).rounds(1, np.random.default_rng(0))
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a certificate"),
        (b"{", "is not a certificate"),
        (b"\xff\xfe", "is not a certificate"),
        (b"[1, 2]", "holds no adversaries"),
        (b"[" * 950 + b"]" * 950, "is not a certificate: is nested too deeply"),
        (b"[" * 5000 + b"]" * 5000, "is not a certificate: is nested too deeply"),
        (b"3", "holds no adversaries"),
    ],
)
def test_files_that_are_no_certificates_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        _ = Adversary(path).m


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        _ = Adversary(tmp_path / "nowhere.json").m


def test_the_certificate_of_a_game_that_can_be_learned_is_rejected(tmp_path: Path) -> None:
    path, _ = write(tmp_path, "dcg", 3, 1)
    with pytest.raises(ValueError, match="must be the certificate of a hopeless game"):
        Adversary(path).rounds(1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "m", "k"),
    [("ndcg", 3, 1), ("ndcg", 4, 2), ("ap", 4, 2), ("aucloss", 4, 2)],
)
def test_no_learner_escapes_both(name: str, m: int, k: int, tmp_path: Path) -> None:
    """Regret on p plus regret on q is gap x T at least, in expectation: 5 runs of 5,000 rounds on each side."""
    path, proof = write(tmp_path, name, m, k)
    horizon, runs, learners = 5_000, 5, ("uniform", "rtop1f:measure=dcg")
    lost = np.zeros(len(learners))
    for side in "pq":
        experiment = Experiment(learners, f"adversary:path={path},side={side}", name, k, horizon, runs, seed=2)
        measure, checkpoints = experiment.parts.measure, np.array([horizon])
        for run in range(runs):
            rounds = experiment.rounds(run)
            best = best_values(measure, rounds, checkpoints)
            for n, learner in enumerate(experiment.parts.learners):
                trace = simulate(
                    learner,
                    rounds,
                    k=k,
                    measure=measure,
                    checkpoints=checkpoints,
                    seed=experiment.learner_seed(run),
                )
                lost[n] += regret(measure, trace, best)[0] / runs
    assert np.all(lost >= 0.8 * proof["adversaries"]["gap"] * horizon)
