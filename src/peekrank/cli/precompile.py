"""``peekrank precompile``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize
from peekrank.cli._options import Quiet
from peekrank.cli._outputs import echo
from peekrank.cli._progress import status
from peekrank.cli._verbosity import configure_output
from peekrank.registry import LEARNERS, MEASURES, SURROGATES

if TYPE_CHECKING:
    from peekrank.types import Learner, Measure, Rounds

_M, _HORIZON = 3, 1_000

EXAMPLES = """\
# Compile everything.
peekrank precompile
# Compile only what one learner needs.
peekrank precompile doubtsort"""


def command(
    learners: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LEARNER",
            help="Learner to compile, such as blockftrl or rtopkf:surrogate=kl.",
            show_default="all",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compile learners and measures in advance, for example in a container image."""
    from peekrank._jit.compiler import cache_folder

    configure_output(quiet=quiet)
    folder = cache_folder()
    _check_writable(folder)
    for name in learners or _all_learners():
        before = len(_files(folder))
        with status(f"compiling {name}"), interrupt_later():
            _compile_learner(name)
        echo(Text(f"{name}: {pluralize(len(_files(folder)) - before, 'kernel')} compiled"))
    with status("compiling measures, readers and alarms"), interrupt_later():
        _compile_measures()
        _compile_readers()
        _compile_alarms()
    files = _files(folder)
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    echo(Text(f"{pluralize(len(files), 'kernel')}, {megabytes:.1f} MB, in {folder}"))


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        what = f"{folder} cannot be written ({error.strerror}); set NUMBA_CACHE_DIR to a writable folder"
        raise ValueError(what) from None


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("*.kernel"))


def _all_learners() -> Iterator[str]:
    """Yield all learners; one that takes a surrogate, with each surrogate it can estimate."""
    for name, cls in LEARNERS.items():
        if any(field.name == "surrogate" for field in fields(cls)):
            yield from (f"{name}:surrogate={s}" for s, one in SURROGATES.items() if one.estimates is not None)
        else:
            yield name


def _compile_learner(text: str) -> None:
    """Run a learner for a round with an agent and in the compiled loop."""
    from peekrank.engine import Agent, simulate

    learner, k, measure, rounds = _problem(text)
    d = rounds.features.shape[1]
    agent = Agent(learner, m=_M, k=k, d=d)
    decision = agent.rank(rounds.features[:_M] if d else None)
    agent.update(decision, [0] * agent.shape.k)
    simulate(learner, rounds, k=k, measure=measure)


def _problem(text: str) -> tuple[Learner, int, Measure, Rounds]:
    """Return a learner and the first of a few small problems that it accepts: k, a measure and rounds."""
    from peekrank.engine.validation import problem_shape
    from peekrank.learners import learner as learner_named
    from peekrank.measures import measure as measure_named

    first_error: ValueError | None = None
    for name, k in (("dcg", 1), ("dcg", _M - 1), ("p@1+sum", 1)):
        measure = measure_named(name)
        try:
            learner = learner_named(text, measure=measure, horizon=_HORIZON, max_grade=1)
            d = 2 if learner.contextual else 0
            learner.init(problem_shape(learner, m=_M, k=k, d=d))
        except ValueError as error:
            first_error = first_error or error
        else:
            return learner, k, measure, _rounds(d)
    raise first_error or ValueError(f"{text} is not a learner")


def _rounds(d: int) -> Rounds:
    import numpy as np

    from peekrank.types import Rounds

    lengths = np.array([_M, _M - 1 if d else _M])  # lists of several lengths if there are features
    rows = int(lengths.sum())
    relevance: Any = np.arange(rows) % 2
    return Rounds(np.ones((rows, d), np.float32), relevance.astype(np.uint8), np.append(0, np.cumsum(lengths)))


def _compile_measures() -> None:
    """Evaluate a round by each measure, and find the best ranking in hindsight."""
    from peekrank.experiments.experiment import Experiment
    from peekrank.experiments.run import compile_kernels

    for name, cls in MEASURES.items():
        needs_length = any(field.default is MISSING for field in fields(cls))
        measure = f"{name}@1" if needs_length else name
        compile_kernels(Experiment(("uniform",), f"ct15:m={_M}", measure, k=1, horizon=_HORIZON))


def _compile_readers() -> None:
    """Read judged documents and prepare them for a training."""
    from peekrank.data.dataset import describe
    from peekrank.data.letor import read_letor
    from peekrank.training.run import compile_kernels
    from peekrank.training.training import Training, prepare_data

    with TemporaryDirectory() as folder:
        text = Path(folder, "documents.txt")
        text.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n", encoding="utf-8")
        read = read_letor(text)
    describe(read)
    for scaling in ("query", "global", "robust"):
        material = prepare_data(read, None, scaling=scaling)
    compile_kernels(Training(("uniform",)), material)


def _compile_alarms() -> None:
    """Observe a decision, and feedback on an unknown one."""
    import numpy as np

    from peekrank.monitoring.alarms import Monitor, Outcome

    monitor, order = Monitor(), np.arange(_M)
    monitor.observe(Outcome(order, np.full(_M, 1 / _M), order, np.zeros(_M), 1))
    monitor.stray()
