"""Learners, measures, surrogates and streams of one's own, named on the command line and in sweeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import peekrank, refused
from helpers.own import LEARNER, MEASURE
from peekrank import Agent, learner, registry
from peekrank.cli.app import COMMANDS
from peekrank.experiments.sweep import Sweep, read_sweep

pytestmark = pytest.mark.usefixtures("own_registry")

# kernels of one's own are not kept, the others name nothing
WITHOUT = {"log backup", "data", "demo", "position-bias", "reproduce", "precompile", "monitor"}
SWEEP = """
name = "own"
import = ["mine.py"]
learners = ["stubborn", "stubborn:first=1"]
streams = "ct15"
measures = ["mine", "dcg"]
k = 1
horizons = 100
runs = 2
"""


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MEASURE + LEARNER)


def forget_imports() -> None:
    """Reset the registry, as a new process would."""
    registry._FILES.clear()
    registry._digest.cache_clear()
    for kind in registry.KINDS:
        for name in set(kind) - set(kind.built_in):
            del kind._known[name]


def simulate(*more: str) -> list[str]:
    small = ["--measure", "mine", "--horizon", "100", "--runs", "1", "--out", "out"]
    return ["simulate", "stubborn:first=2", *small, "--import", "mine.py", *more]


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - WITHOUT))
def test_every_command_that_names_something_imports(command: str) -> None:
    assert "--import" in peekrank(*command.split(), "--help").stdout


def test_what_is_imported_can_be_named_and_is_in_the_manifest() -> None:
    done = peekrank(*simulate())
    assert done.exit_code == 0, done.output
    assert "stubborn:first=2" in done.stdout
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert list(manifest["own"]) == ["Stubborn of mine.py", "Mine of mine.py"]
    assert all(len(digest) >= 16 for digest in manifest["own"].values())


@pytest.mark.slow
def test_folders_of_other_code_are_refused_and_comments_are_no_code() -> None:
    assert peekrank(*simulate()).exit_code == 0
    forget_imports()
    Path("mine.py").write_text("# a comment\n" + MEASURE + LEARNER)
    assert peekrank(*simulate("--runs", "1")).exit_code == 0
    forget_imports()
    Path("mine.py").write_text(MEASURE + LEARNER.replace("+ s.first", "+ s.first + 1"))
    said = refused(*simulate())
    assert "with different code of Stubborn of mine.py, code of Mine of mine.py; choose another folder" in said


@pytest.mark.slow
def test_folders_are_compared_with_what_they_name() -> None:
    small = ["--horizon", "100", "--runs", "3", "--out", "out", "--import", "mine.py"]
    assert peekrank("simulate", "stubborn", "uniform", *small).exit_code == 0
    forget_imports()
    assert "unknown learner 'stubborn'" in refused("compare", "out")  # a folder alone runs no code
    done = peekrank("compare", "out", "--import", "mine.py")
    assert done.exit_code == 0, done.output


def test_a_sweep_imports() -> None:
    Path("own.toml").write_text(SWEEP)
    done = peekrank("sweep", "own.toml", "--out", "out")
    assert done.exit_code == 0, done.output
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["sweep"]["imports"] == ["mine.py"]
    owners = [sorted(run["own"]) for run in manifest["runs"].values()]
    assert sorted(owners) == [["Mine of mine.py", "Stubborn of mine.py"]] * 2 + [["Stubborn of mine.py"]] * 2


@pytest.mark.slow
def test_a_sweep_does_again_what_changed_with_the_file() -> None:
    Path("own.toml").write_text(SWEEP)
    ended = []
    for text in (MEASURE + LEARNER, MEASURE + LEARNER, MEASURE + LEARNER.replace("+ s.first", "+ 3")):
        forget_imports()
        Path("mine.py").write_text(text)
        assert peekrank("sweep", "own.toml", "--out", "out").exit_code == 0
        ended.append(Path("out/summary.csv").read_text())
    assert ended[0].split("\n")[0] == ended[2].split("\n")[0]
    assert ended[0] != ended[2]
    assert len(json.loads(Path("out/manifest.json").read_text())["runs"]) == 8


def test_a_sweep_with_imports_round_trips() -> None:
    sweep = Sweep("s", ("stubborn",), ("ct15",), ("mine",), (1,), (100,), imports=("mine.py",))
    Path("again.toml").write_text(sweep.toml())
    assert 'import = ["mine.py"]' in sweep.toml()
    assert read_sweep(Path("again.toml")) == sweep
    assert "import" not in Sweep("s", ("uniform",), ("ct15",), ("dcg",), (1,), (100,)).toml()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('["nothing.py"]', r"own.toml, line 3: nothing.py: there is no such file to import"),
        ("[3]", r"own.toml, line 3: import = 3: must be a file such as mine.py, or a module"),
        ('["mine.py", "mine"]', r"own.toml, line 3: mine cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_sweep_tells_the_line_of_a_wrong_import(wrong: str, said: str) -> None:
    Path("own.toml").write_text(SWEEP.replace('["mine.py"]', wrong))
    assert said in refused("sweep", "own.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "error: mine.py: there is no such file to import"),
        ("1 / 0", "error: mine.py, line 1 cannot be imported: ZeroDivisionError: division by zero"),
        ("x = 1", "error: mine.py defines no learner, measure, surrogate or stream"),
        (LEARNER.replace("def n_uniforms", "def n_uniformz"), "Stubborn would be a learner if it had n_uniforms"),
        (MEASURE.replace('"mine"', '"dcg"'), "error: measure 'dcg' is both DCG of peekrank.measures"),
        (MEASURE.replace("(frozen=True)", ""), "must be a frozen dataclass"),
    ],
)
def test_what_is_wrong_with_a_file_is_a_line(text: str | None, said: str) -> None:
    if text is None:
        Path("mine.py").unlink()
    else:
        Path("mine.py").write_text(text)
    assert said in refused(*simulate())
    assert not Path("out").exists()


@pytest.mark.filterwarnings("default")
def test_a_class_that_is_nearly_a_learner_is_a_note_beside_others() -> None:
    Path("mine.py").write_text(MEASURE + LEARNER.replace("def n_uniforms", "def n_uniformz"))
    done = peekrank("list", "--import", "mine.py")
    assert done.exit_code == 0
    assert "note: mine.py: Stubborn would be a learner if it had n_uniforms" in done.stderr
    assert "Relevance over rank." in done.stdout


@pytest.mark.slow
def test_the_other_commands_know_what_is_imported(tmp_path: Path) -> None:
    done = peekrank("study", "mine", "stubborn", "--m", "2", "--k", "1", "--horizons", "50,100", "--runs", "2",
                    "--out", "study", "--import", "mine.py")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert list(json.loads(Path("study/manifest.json").read_text())["own"]) == [
        "Stubborn of mine.py",
        "Mine of mine.py",
    ]
    assert peekrank("game", "mine", "--m", "2", "--k", "1", "--import", "mine.py").exit_code == 0


def test_a_saved_agent_is_loaded_by_name() -> None:
    registry.load("mine.py")
    agent = Agent(learner("stubborn:first=1"), m=3, k=1)
    agent.update(agent.rank(), [1])
    saved = agent.dump()
    assert Agent.load(saved).rank().ranking.tolist() == [1, 2, 0]
    forget_imports()
    with pytest.raises(ValueError, match="unknown learner 'stubborn'"):
        Agent.load(saved)
