"""peekrank without the packages of its extras: what still works, and what the rest reports."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from helpers.scripts import ROOT
from peekrank._util.extras import PURPOSES, MissingExtraError, extra

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES = {"python-flint": "flint", "prometheus-client": "prometheus_client"}  # imported by other names

BLOCK = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""


def modules(name: str) -> set[str]:
    """Return the modules that an extra installs, those of other extras that it includes among them."""
    found: set[str] = set()
    for text in EXTRAS[name]:
        package, others = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", text).groups()  # type: ignore[union-attr]
        if package == "peekrank":
            found = found.union(*map(modules, others.split(",")))
        else:
            found.add(MODULES.get(package, package))
    return found


def run(blocked: set[str], code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import some modules."""
    script = BLOCK.format(blocked=blocked) + code
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=folder)


def command(*arguments: str) -> str:
    return f"import sys; sys.argv = {['peekrank', *arguments]!r}\nfrom peekrank.cli import main\nmain()"


def test_every_extra_has_a_purpose_and_all_installs_every_package() -> None:
    assert {*PURPOSES, "all"} == set(EXTRAS)
    assert modules("all") == set().union(*map(modules, PURPOSES))


APP = """
from pathlib import Path
import numpy as np
import peekrank
from peekrank import CT15, DCG, NW2, Agent, DoubtSort, Precision, advise, evaluate, learner, simulate
from peekrank.evaluation.jsonl import LogWriter

agent = Agent(learner("doubtsort", measure=DCG()), m=5, k=1)
with LogWriter("log.jsonl", agent.learner) as log:
    decision = agent.rank()
    event = log.log_decision(decision, k=1)
    agent.update(decision, [1.0])
    log.log_feedback(event, [1.0])
with LogWriter("log.jsonl", agent.learner) as log:  # which reads what is there
    log.log_decision(agent.rank(), k=1)
copy = Agent.load(agent.dump())
assert (copy.best_ranking() == agent.best_ranking()).all()
rounds = CT15(m=5).rounds(100, np.random.default_rng(0))
trace = simulate(DoubtSort(DCG()), rounds, k=1, measure=DCG())
assert evaluate(DCG(), [2, 0, 1], [0, 1, 1]) == 1.5
assert advise("dcg", m=10, k=1, horizon=10_000).learner
assert NW2(Precision(2, mean=False), horizon=1000).bound(peekrank.Shape(5, 0, 1), 1000)
from peekrank.registry import KINDS
for kind in KINDS:
    assert all(kind.values())
print("done")
"""


def test_an_app_needs_no_extra(tmp_path: Path) -> None:
    done = run(modules("all"), APP, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


WALK = """
import pkgutil, peekrank
for found in pkgutil.walk_packages(peekrank.__path__, "peekrank.", onerror=lambda name: None):
    if found.name.split(".")[1] in ("cli", "service", "__main__"):
        continue
    try:
        __import__(found.name)
    except ImportError as error:
        print(found.name, type(error).__name__)
"""
NEED_CLI = "experiments|jobs|papers|reports|training|evaluation|monitoring.tail"


def test_every_module_says_which_extra_it_needs(tmp_path: Path) -> None:
    done = run(modules("all"), WALK, tmp_path)
    assert not done.stderr
    failed = dict(line.split() for line in done.stdout.splitlines())
    assert set(failed.values()) == {"MissingExtraError"}
    assert all(re.match(rf"peekrank\.({NEED_CLI})\b", name) for name in failed)
    needed_by_apps = ("evaluation.jsonl", "evaluation.value_bounds", "monitoring.alarms", "training.model")
    assert not {f"peekrank.{name}" for name in needed_by_apps} & set(failed)


PYTHON = {
    "cli": "import peekrank; peekrank.Experiment",
    "client": "from peekrank.service.client import Client",
    "games": "import peekrank; peekrank.analyse(peekrank.ranking_game('dcg', 3, 1, 2))",
    "postgresql": (
        "from peekrank.service.event_log.open import open_log; open_log('postgresql://localhost/peekrank')"
    ),
    "ray": "from peekrank.jobs.ray import Ray; Ray().run([1], None, None, None, str)",
}


@pytest.mark.parametrize("name", PYTHON)
def test_what_needs_an_extra_says_how_to_install_it(name: str, tmp_path: Path) -> None:
    alone = modules(name).difference(
        *(modules(other) for other in PURPOSES if not modules(name) <= modules(other))
    )
    message = run(alone, PYTHON[name], tmp_path).stderr.splitlines()[-1]
    assert message.startswith("peekrank._util.extras.MissingExtraError: peekrank needs the package ")
    assert f"Install the extra {name}: `pip install '.[{name}]'` in a clone" in message


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cli", ()),
        ("cli", ("--help",)),
        ("serve", ("serve", "--init")),
        ("serve", ("log", "audit", "log.db")),
        ("serve", ("log", "backup", "log.db", "copy.db")),
        ("serve", ("log", "export", "log.db", "home", "log.parquet")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_command_says_how_to_install_what_it_needs(
    name: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "log.db").touch()
    blocked = modules(name) - (modules("cli") if name == "serve" else set())
    done = run(blocked, command(*arguments), tmp_path)
    assert done.returncode == 2
    assert not done.stdout
    assert re.fullmatch(
        rf"error: peekrank needs the package \w+ for {PURPOSES[name]}. Install the extra {name}: "  # type: ignore[index]
        rf"`pip install '\.\[{name}\]'` in a clone of the repository \(README.md, Install\)",
        done.stderr.strip(),
    )


def test_a_package_that_is_broken_is_reported_with_its_own_words() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"cannot import .* \(no libpq\) .* '\.\[postgresql\]'"),
        extra("postgresql"),
    ):
        raise ImportError("no libpq")


def test_errors_of_our_own_modules_are_not_hidden() -> None:
    with pytest.raises(ImportError, match="no_such_name"), extra("cli"):
        from peekrank.types import no_such_name  # type: ignore[attr-defined] # noqa: F401
