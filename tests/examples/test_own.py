"""examples/own: a package outside of this one, installed as a user installs it, passes its tests by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.scripts import ROOT

OWN = ROOT / "examples" / "own"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package is installed in, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder), str(OWN)]
    subprocess.run(command, check=True)
    return folder


def run(folder: Path, cwd: Path, *arguments: str) -> str:
    """What a module of Python prints, with this folder among those that are searched."""
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    command = [sys.executable, "-m", *arguments]
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_passes_its_own_tests(installed: Path, tmp_path: Path) -> None:
    assert "4 passed" in run(
        installed, tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(OWN / "tests")
    )


@pytest.mark.slow
def test_its_classes_are_known_by_name(installed: Path, tmp_path: Path) -> None:
    listed = run(installed, tmp_path, "peekrank", "list")
    for name in ("sometimes", "rd", "logistic", "one-hot"):
        assert f"\n{name} " in listed
    learners = ["sometimes:share=0.2", "uniform"]
    what = ["--measure", "rd:power=0.5", "--stream", "one-hot:m=4", "--horizon", "100", "--runs", "2"]
    run(installed, tmp_path, "peekrank", "simulate", *learners, *what, "--out", "results")
    own = json.loads((tmp_path / "results" / "manifest.json").read_text())["own"]
    assert sorted(own) == [
        "OneHot of own_ranking.stream",
        "ReciprocalDiscount of own_ranking.measure",
        "Sometimes of own_ranking.learner",
    ]


@pytest.mark.slow
def test_it_can_be_imported_where_it_is_not_installed(tmp_path: Path) -> None:
    assert "one-hot" in run(OWN / "src", tmp_path, "peekrank", "list", "--import", "own_ranking")
    file = str(OWN / "src" / "own_ranking" / "measure.py")
    assert "\nrd " in run(tmp_path, tmp_path, "peekrank", "list", "--import", file)
