"""The cache notices edits in helpers of other files; results are the same without the compiler, and in bounds."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numba.core import compiler, types
from numba.core.codegen import JITCodeLibrary
from numpy.typing import NDArray

import peekrank
from helpers.scripts import ROOT
from peekrank._jit import (
    Kernel,
    compile_for,
    inference,
    kernel,
    linking,
    load,
    pinned,
    progress,
    specialise,
    unspecialised,
    vany,
    vload,
    vnonzero,
    vselect_le,
    vsplat,
    vstore,
    vsum,
)
from peekrank._jit.compiler import KernelCache, _typed
from peekrank._jit.fingerprint import fingerprint
from peekrank.engine.simulation import _loop
from peekrank.kernels.sorting import sort_descending

PACKAGE = Path(peekrank.__file__).parent

SORT = """
import numpy as np
from peekrank.learners._shared import perturbed_leader
from peekrank.kernels.sorting import sort_space
ranking = np.empty(3, np.int64)
perturbed_leader(np.array([1.0, 3.0, 2.0]), 0.0, np.zeros(3), np.zeros(3), ranking, sort_space(3))
print(*ranking)
"""

OUTSIDE = """
import numpy as np
from peekrank._jit import kernel, load, vload, vsplat, vstore

@kernel
def reads(x, start):
    return load(x, start)

@kernel
def loads(x, start):
    vstore(vload(x, start), x, 0)

@kernel
def stores(x, start):
    vstore(vsplat(1.0), x, start)

for call, last in ((reads, 8), (loads, 1), (stores, 1)):
    for start in (-1, 0, last, last + 1):
        try:
            call(np.zeros(9), start)
        except IndexError:
            print(call.__name__, start)
"""

TRACE = """
import numpy as np
from peekrank import CT15, DCG, FTPL, RTop1F, Uniform, simulate
for m in (1 + 1, 10, 33):
    rounds = CT15(m=m).rounds(60, np.random.default_rng(1))
    for learner in (Uniform(), FTPL(DCG(), horizon=60), RTop1F(DCG(), horizon=60)):
        trace = simulate(learner, rounds, k=2, measure=DCG(), seed=4)
        print(trace.value[-1].hex(), trace.explored[-1])
"""


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the package, to be edited, and the environment to run it in with a cache of its own."""
    shutil.copytree(PACKAGE, tmp_path / "peekrank", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "peekrank", {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}


def cached(environment: dict[str, str]) -> dict[Path, int]:
    """The files of a cache, and when each was written."""
    files = Path(environment["NUMBA_CACHE_DIR"]).rglob("*.kernel")
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.mark.slow
def test_an_edit_in_a_helper_of_another_file_is_noticed(copied: tuple[Path, dict[str, str]]) -> None:
    package, where = copied
    assert run(SORT, **where) == "1 2 0\n"
    assert any("perturbed_leader" in path.name for path in cached(where)), "the caller is not cached at all"
    helper = package / "kernels" / "sorting.py"
    helper.write_text(helper.read_text().replace("int(scores[j] < score)", "int(scores[j] > score)"))
    assert run(SORT, **where) == "0 2 1\n"


def test_comments_docstrings_and_other_code_compile_nothing_anew(copied: tuple[Path, dict[str, str]]) -> None:
    package, where = copied
    assert run(SORT, **where) == "1 2 0\n"
    before = cached(where)
    helper = package / "kernels" / "sorting.py"
    text = helper.read_text().replace("a stable sort, O(m log m)", "another docstring")
    helper.write_text(f"# a comment that moves every line\n\n{text}\n\nOTHER = 'code'\n")
    assert run(SORT, **where) == "1 2 0\n"
    assert cached(where) == before


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda whole: b"",
    lambda whole: b"no code",
    lambda whole: whole[: len(whole) // 2],
    lambda whole: whole[:-99] + bytes([whole[-99] ^ 1]) + whole[-98:],
]


def test_damaged_files_of_the_cache_are_compiled_anew(tmp_path: Path) -> None:
    here = {"NUMBA_CACHE_DIR": str(tmp_path)}
    script = "from peekrank.engine.entry_points import *\nx = np.zeros(2)\n" + "".join(
        f"print({call})\n"
        for call in (
            "are_uniform(x)", "are_known(np.arange(2), 2)", "is_permutation(np.arange(2), x > 0)",
            "first_invalid_item(np.zeros((2, 1), np.float32))", "fill_rows(*[np.arange(2)] * 3)",
        )
    )  # fmt: skip
    said = run(script, **here)
    assert said == "True\nTrue\nTrue\n-1\nTrue\n"
    *files, last = sorted(cached(here))
    assert len(files) >= len(DAMAGES)
    for path, damage in zip(files, cycle(DAMAGES), strict=False):
        path.write_bytes(damage(path.read_bytes()))
    last.unlink()
    last.mkdir()  # can be neither read nor written
    damaged = {path: path.read_bytes() for path in files}
    assert run(script, **here) == said
    assert not [path.name for path in files if path.read_bytes() == damaged[path]]


def digest_of(text: str, **names: object) -> str:
    """The digest of the kernel `f` of a text, whose functions all are kernels."""
    space: dict[str, Any] = {"__name__": "m", **names}
    exec(text, space)  # noqa: S102
    functions = {name: value for name, value in space.items() if isinstance(value, FunctionType)}
    space.update({name: Kernel(function, kept=False) for name, function in functions.items()})
    return fingerprint(space["f"])


HELPED = "LIMIT = 3\ndef helper(x):\n    return min(x, LIMIT)\ndef f(x):\n    return helper(x) + 1\n"


def test_what_a_kernel_is_compiled_from() -> None:
    assert digest_of(HELPED) == digest_of(HELPED.replace("def f", "# more\n\ndef f") + "LATER = 4\n")
    edits = [("= 3", "= 4"), ("= 3", "= 3.0"), ("min", "max"), ("+ 1", "+ 2"), ("def f(x)", "def f(x=1)")]
    others = {digest_of(HELPED.replace(old, new)) for old, new in edits}
    assert len(others | {digest_of(HELPED)}) == 1 + len(edits)
    assert digest_of("def f(x):\n    return f(x - 1)")  # recursion ends


def test_a_kernel_that_names_what_cannot_be_digested_is_not_cached() -> None:
    with pytest.raises(TypeError, match="a list in a kernel"):
        digest_of("def f(x):\n    return things", things=[1])


class Pair(NamedTuple):
    a: float
    b: float


def test_names_of_fields_count_in_the_types_of_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = types.NamedUniTuple
    forth = _typed(kind(types.float64, 2, Pair))
    monkeypatch.setattr(Pair, "_fields", ("b", "a"))
    assert _typed(kind(types.float64, 2, Pair)) != forth


@pytest.mark.slow
def test_a_learner_of_a_script_runs_again(tmp_path: Path) -> None:
    """No other process can import the class of its state: code for it is of no use there."""
    learner = (ROOT / "examples/own/src/own_ranking/learner.py").read_text(encoding="utf-8")
    script = f"{learner}\nfrom peekrank import Agent\nprint(len(Agent(Sometimes(), m=3, k=1).rank().ranking))"
    assert [run(script, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)] == ["3\n", "3\n"]


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "HOME"])
def test_a_cache_that_cannot_be_written_is_done_without(variable: str, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    unset = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    assert run(SORT, **{**unset, variable: str(blocked)}) == "1 2 0\n"


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_same_bits_without_the_compiler_and_within_bounds(setting: str, tmp_path: Path) -> None:
    assert run(TRACE, **{setting: "1"}, NUMBA_CACHE_DIR=str(tmp_path)) == run(TRACE)


def test_operations_on_eight_numbers_stay_within_bounds_that_are_checked() -> None:
    outside = "reads -1\nreads 9\nloads -1\nloads 2\nstores -1\nstores 2\n"
    assert run(OUTSIDE, NUMBA_BOUNDSCHECK="1") == outside


def test_importing_learners_loads_no_compiler() -> None:
    modules = (
        "learners.rtop1f, peekrank.learners.rtopkf.learner, peekrank.measures, peekrank.engine, peekrank.advice"
    )
    late = "{'numba', 'llvmlite', 'matplotlib'}"
    assert run(f"import sys, peekrank.{modules}; print({late} & set(sys.modules))") == "set()\n"


def test_what_only_kernels_call_is_not_compiled_for_python() -> None:
    @kernel
    def triple(x: int) -> int:
        return 3 * x

    @kernel
    def more(x: int) -> int:
        return triple(x) + 1

    assert more(2) == 7
    assert more.__name__ == "more"
    helper = cast("Kernel", triple)
    assert helper._made(for_python=False).signatures
    assert not helper.compiled.signatures
    assert triple(2) == 6


def test_only_entry_points_have_machine_code(tmp_path: Path) -> None:
    here = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(SORT, **here) == "1 2 0\n"
    (path,) = cached(here)
    assert "perturbed_leader" in path.name


HELPERS = """
import numpy as np
from numba import njit
from peekrank._jit import kernel
from peekrank.kernels.sorting import sort_descending, sort_space

@kernel
def fail(x):
    if x > 2:
        raise ValueError("more than two")
    return x

@kernel
def count(x):
    return 0 if x == 0 else 1 + count(x - 1)

@kernel
def several(x, out):
    def plus(y):
        return y + count(x)
    for i, y in enumerate((0, 1)):
        out[i] = plus(y)
    return fail(x)

@njit
def foreign(scores, ranking, space):
    sort_descending(scores, ranking, space)
    return count(3) + fail(1)

out = np.zeros(2)
print(several(2, out), out)
ranking = np.zeros(3, np.int64)
print(foreign(np.array([1.0, 3.0, 2.0]), ranking, sort_space(3)), ranking)
try:
    several(3, out)
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_kernels_with_closures_recursion_and_errors_and_functions_of_numba_that_call_them(tmp_path: Path) -> None:
    said = run(HELPERS, NUMBA_CACHE_DIR=str(tmp_path))
    assert said == "2 [2. 3.]\n4 [1 2 0]\nmore than two\n"


def test_a_template_is_not_called_itself() -> None:
    with pytest.raises(TypeError, match="specialise it"):
        unspecialised(1)


def test_a_specialised_function_is_kept_if_its_kernels_are() -> None:
    def template(x: float) -> float:
        return x

    assert cast("Kernel", specialise(_loop, "ours", _rank=sort_descending)).kept
    assert not cast("Kernel", specialise(_loop, "theirs", _rank=kernel(template))).kept
    assert not cast("Kernel", specialise(template, "theirs", _rank=sort_descending)).kept


def test_only_kernels_of_the_package_are_kept_on_disk() -> None:
    @kernel
    def outside(x: int) -> int:
        return x

    assert isinstance(cast("Kernel", sort_descending).compiled._cache, KernelCache)
    assert not isinstance(cast("Kernel", outside).compiled._cache, KernelCache)


class Inner(NamedTuple):
    table: NDArray[np.float64]
    marks: NDArray[np.bool_]


class Mixed(NamedTuple):
    yes: bool
    whole: int
    share: float
    single: np.float32
    inner: Inner
    pair: tuple[int, int]
    numbers: NDArray[np.uint8]


@kernel
def read_all(record: Mixed, out: NDArray[np.float64]) -> int:
    """A number from each field; and a mark is set."""
    out[0], out[1], out[2], out[3] = record.yes, record.whole, record.share, record.single
    out[4] = record.inner.table[1, 2]
    out[5], out[6] = record.pair[1], record.numbers[-1]
    out[7] = record.inner.table[1].sum() + record.inner.table.shape[1]
    record.inner.marks[1] = True
    return len(record.inner.marks)


def test_a_pinned_record_reads_like_the_record() -> None:
    table = np.arange(6.0).reshape(2, 3)
    record = Mixed(
        True, -3, -0.1, np.float32(0.1), Inner(table, np.zeros(2, np.bool_)), (7, -8), np.array([1, 255], np.uint8)
    )
    out, address = np.empty(8), pinned(record)
    call = compile_for(read_all, address, out)
    assert call(address, out) == 2
    assert out.tolist() == [1.0, -3.0, -0.1, float(np.float32(0.1)), 5.0, -8.0, 255.0, 15.0]
    assert record.inner.marks.tolist() == [False, True]
    table[1, 2] = 9  # it is the array itself that is read
    call(address, out)
    assert out[4] == 9
    other = pinned(record._replace(yes=False, inner=Inner(table + 1, np.zeros(2, np.bool_))))
    assert compile_for(read_all, other, out) is call  # the same types
    call(other, out)
    assert (out[0], out[4]) == (0, 10)


class Named(NamedTuple):
    name: str
    numbers: NDArray[np.float64]


def test_a_record_with_other_fields_is_not_pinned() -> None:
    record = Named("x", np.ones(1))
    assert pinned(record) is record


@pytest.mark.parametrize("on", [True, False])
def test_compiling_leaves_the_garbage_collector_as_it_was(on: bool) -> None:
    @kernel
    def twice(x: float) -> float:
        return 2 * x

    @kernel
    def impossible(x: float) -> float:
        return x.no_such_field  # type: ignore[attr-defined,no-any-return]

    was_on = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        assert compile_for(twice, 1.0)(1.5) == 3
        with pytest.raises(Exception, match="no_such_field"):
            compile_for(impossible, 1.0)
        assert gc.isenabled() == on
    finally:
        (gc.enable if was_on else gc.disable)()


def eights(x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.float64]) -> tuple[float, bool, bool]:
    a, b = vload(x, 1), vload(y, 2)
    vstore(a + b, out, 0)
    vstore(a - b, out, 8)
    vstore(a * b, out, 16)
    vstore(load(x, 3) * a, out, 24)
    vstore(vnonzero(a), out, 32)
    vstore(vselect_le(a, b, vsplat(load(y, 1)), a), out, 40)
    return vsum(a), vany(a), vany(a - a)


def test_eight_numbers_are_the_same_bits_without_the_compiler() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10)) * 10.0 ** rng.integers(-9, 9, (2, 10))
    x[[4, 7]], y[5] = 0.0, x[4]
    found, expected = np.zeros(56), np.zeros(56)
    assert kernel(eights)(x, y, found) == eights(x, y, expected)
    assert found.tolist() == expected.tolist()
    assert not found[48:].any()
    assert eights(x, y, expected)[1:] == (True, False)


def test_not_a_number_is_not_0_and_not_at_most_anything() -> None:
    x, out = np.full(10, np.nan), np.zeros(56)
    assert kernel(eights)(x, x, out)[1]
    assert np.all(out[32:40] == 1)
    assert np.isnan(out[40:48]).all()


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress._COMPILING, "announced", False)
    caplog.set_level("INFO", logger="peekrank.kernels")
    return caplog


def test_a_long_compilation_is_reported_once_with_its_duration(messages: pytest.LogCaptureFixture) -> None:
    for kept in (True, False):
        with progress.compiling(kept=kept):
            assert progress.seconds_compiling() is not None
            time.sleep(0.05)
    assert progress.seconds_compiling() is None
    said = [record.getMessage() for record in messages.records]
    assert said[0] == "compiling kernels (once per machine)"
    assert [text[:19] for text in said[1:]] == ["compiled kernels in"] * 2


def test_compiling_is_reported_on_standard_error_and_can_be_silenced(tmp_path: Path) -> None:
    script = "from peekrank._jit import progress; progress._PATIENCE = 0\n" + SORT
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "peekrank: compiled kernels in" in shown.stderr
    silent = 'import logging; logging.getLogger("peekrank.kernels").setLevel("WARNING")\n' + script
    for text in (script, silent):  # the first finds its kernels in the cache
        where = tmp_path if text is script else tmp_path / "empty"
        done = subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "NUMBA_CACHE_DIR": str(where)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""


def test_numba_still_has_what_the_compilers_of_kernels_rely_on() -> None:
    """Fails if a new numba has other internals than `_jit/linking` and `_jit/inference` subclass."""
    flags_type: Any = compiler.Flags
    state = type("State", (dict,), {"__getattr__": dict.get})(func_ir=None, flags=flags_type())
    default = {one for one, _ in compiler.DefaultPassBuilder.define_nopython_pipeline(state).passes}  # type: ignore[no-untyped-call]
    assert default >= linking._UNUSED_PASSES
    assert hash(inference.Flags()) == hash(flags_type())
    one, other = flags_type(), flags_type()
    one.nrt = True
    fast = [inference.Flags(flags) for flags in (one, other)]
    assert (fast[0] == fast[1], fast[0] == one, fast[1] == one) == (False, True, False)
    for name in ("_get_module_for_linking", "_optimize_functions", "finalize", "get_pointer_to_function"):
        assert hasattr(JITCodeLibrary, name)
