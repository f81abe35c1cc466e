"""The code that results depend on: what can change them, and nothing else, makes finished folders refused."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import peekrank
from peekrank._util.code_digest import Sources, package_sources
from peekrank.experiments.experiment import Experiment
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.registry import modules_of
from peekrank.surrogates import KL

PACKAGE = Path(peekrank.__file__).parent
EXPERIMENT = Experiment(("rtop1f", "uniform"), "ct15:m=5", "dcg", k=1, horizon=50, runs=2)
COMMENT, CODE = "\n# a thought\n", "\n_ANOTHER = 1\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, for changes."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copy") / "peekrank", ignore=ignored))


@pytest.fixture(scope="module")
def digest(copy: Path) -> str:
    return Sources(copy).digest(*modules(EXPERIMENT))


def modules(experiment: Experiment) -> list[str]:
    stream, measure, learners = experiment.parts
    return ["peekrank.experiments.run", *modules_of(*learners, measure, stream)]


@contextmanager
def changed(file: Path, more: str) -> Iterator[None]:
    original = file.read_bytes()
    file.write_bytes(original + more.encode())
    try:
        yield
    finally:
        file.write_bytes(original)


@pytest.mark.parametrize(
    "file",
    [
        "learners/rtop1f.py", "learners/uniform.py", "learners/_shared.py", "kernels/sorting.py",
        "engine/simulation.py",
        "measures/dcg.py", "streams/synthetic.py", "experiments/run.py", "regret.py",
    ],
)  # fmt: skip
def test_what_can_change_results_counts(file: str, copy: Path, digest: str) -> None:
    with changed(copy / file, CODE):
        assert Sources(copy).digest(*modules(EXPERIMENT)) != digest


def test_nothing_else_counts(copy: Path, digest: str) -> None:
    """Comments, words, the command line, reports, what keeps results, and a learner that takes no part."""
    files = {
        "learners/rtop1f.py": COMMENT, "learners/uniform.py": '\n"""More words."""\n',
        "engine/simulation.py": COMMENT,
        "cli/app.py": COMMENT, "cli/simulate.py": CODE, "reports/templates/report.html": "<p>more</p>",
        "reports/plots.py": CODE, "papers/ct15/figures.py": CODE, "advice/measures.py": CODE,
        "jobs/results_dir.py": CODE, "jobs/executor.py": CODE, "experiments/runs.py": CODE,
        "learners/feedexp3/learner.py": CODE,
    }  # fmt: skip
    with ExitStack() as changes:
        for file, more in files.items():
            changes.enter_context(changed(copy / file, more))
        assert Sources(copy).digest(*modules(EXPERIMENT)) == digest


def test_what_a_value_holds_counts() -> None:
    assert {"peekrank.learners.rtopkf.learner", "peekrank.surrogates.kl"} <= modules_of(RTopKF(KL(), horizon=10))


LOADED = """
import json, sys
from pathlib import Path
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.runs import run

run(Experiment(**json.loads(sys.argv[1])), Path(sys.argv[2]))
print(*(name for name in sys.modules if name.partition(".")[0] == "peekrank"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment",
    [
        EXPERIMENT,
        Experiment(("nw2",), "ct15:m=3", "p@1+sum", k=1, horizon=20, runs=1),
        Experiment(("blockftrl",), "binomial:m=3", "rbp", k=1, horizon=20, runs=1),
    ],
    ids=lambda experiment: experiment.learners[0],
)
def test_all_that_python_loads_for_a_run_counts(experiment: Experiment, tmp_path: Path) -> None:
    """But for what keeps the results, the list of public names, and packages that are empty but for a text."""
    given = json.dumps({name: getattr(experiment, name) for name in experiment.__dataclass_fields__})
    command = [sys.executable, "-c", LOADED, given, str(tmp_path / "x")]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    empty = {name for name in loaded if is_empty(name)}
    guard = "peekrank.experiments"  # its __init__ only says which extra is missing
    keeping = {"peekrank", guard, f"{guard}.runs", "peekrank.jobs.executor", "peekrank.jobs.results_dir"}
    keeping |= {"peekrank.jobs.csv_text", "peekrank.jobs.parquet"}
    assert loaded - empty - keeping == set(package_sources().closure(*modules(experiment))) & loaded
    assert keeping <= loaded


def is_empty(module: str) -> bool:
    path = PACKAGE.parent.joinpath(*module.split("."), "__init__.py")
    return path.exists() and all(isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)


FIRST = """
import numpy
from peekrank import CT15, DCG, RTop1F, simulate

rounds = CT15(m=4).rounds(10, numpy.random.default_rng(0))
simulate(RTop1F(DCG(), horizon=10, max_grade=1), rounds, k=1, measure=DCG())
"""


@pytest.mark.slow
@pytest.mark.compiled
def test_comments_compile_nothing_anew(copy: Path, tmp_path: Path) -> None:
    """In the command line, a template, a report, and in the files of the kernels themselves."""

    def kernels() -> dict[str, int]:
        environment = {**os.environ, "PYTHONPATH": str(copy.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", FIRST], env=environment, cwd=tmp_path, check=True)
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kernels").iterdir()}

    before = kernels()
    assert before
    for file in (
        "cli/app.py",
        "reports/plots.py",
        "learners/rtop1f.py",
        "kernels/sorting.py",
        "engine/simulation.py",
    ):
        path = copy / file
        path.write_bytes(b"# a thought\n" + path.read_bytes())
    (copy / "reports" / "templates" / "report.html").write_text("<p>other</p>")
    assert kernels() == before
