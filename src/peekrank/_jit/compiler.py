"""numba, loaded with the first kernel that is used, and its machine code on disk.

There is a file for each kernel and types of its arguments, named by all that its content depends on.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs
from numba.core import config, serialize, types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numpy.typing import NDArray

from peekrank._jit import (
    Kernel,
    Pinned,
    simd,  # noqa: F401 - defines the primitives before anything is compiled
)
from peekrank._jit.fingerprint import fingerprint
from peekrank._jit.linking import compiler_class
from peekrank._jit.records import PinnedType, words
from peekrank._util.atomic import write_whole

# Without numba's runtime (`_nrt`) arrays are not reference-counted, and a kernel that allocates does not compile.
# Inlined by force, kernels do not copy their state of many arrays to each other. Either halves a small round.
_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
_CONFIG: Any = config  # these have no types, as far as they are used here
_RESULT: Any = CompileResult
_SERIALIZE: Any = serialize
_TYPEOF: Any = numba.typeof
_CHECKSUM = hashlib.sha256().digest_size


def compiled(kernel: Kernel, *, for_python: bool) -> Any:
    """What numba makes of a kernel's function; only what Python calls can take apart Python's objects.

    Code that takes a state of many arrays apart is larger than many a kernel.
    """
    options = _OPTIONS | {"no_cpython_wrapper": not for_python}
    made: Any = numba.njit(
        kernel.function,
        fastmath={"reassoc"} if kernel.any_order else False,
        pipeline_class=compiler_class(for_python=for_python, plain=kernel.kept),
        **options,
    )
    if kernel.kept and for_python and not _CONFIG.DISABLE_JIT:
        made._cache = KernelCache(kernel, options)
    return made


def code(kernel: Kernel, arguments: tuple[object, ...]) -> Any:
    """The machine code for arguments of these types."""
    if _CONFIG.DISABLE_JIT:
        return kernel.compiled
    with _no_garbage_collection():
        return kernel.compiled.compile(tuple(_type_of(one, deep=kernel.kept) for one in arguments))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Compiling makes many objects that live on, and looking through them again and again takes a tenth of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _type_of(argument: object, *, deep: bool) -> Any:
    return PinnedType(_TYPEOF(argument.record), deep=deep) if isinstance(argument, Pinned) else _TYPEOF(argument)


def words_of(record: tuple[Any, ...]) -> NDArray[np.int64] | None:
    """A record as the words that compiled code reads; None where there is no compiler, or no way to do so."""
    found = None if _CONFIG.DISABLE_JIT else words(record)
    return None if found is None else np.array(found, dtype=np.int64)


def cache_folder() -> Path:
    """Where compiled kernels live."""
    return Path(_CONFIG.CACHE_DIR or platformdirs.user_cache_dir("peekrank", appauthor=False)) / "kernels"


class KernelCache(NullCache):
    """What numba asks for compiled code before it compiles, and gives it to afterwards.

    A file that is damaged, cannot be read or cannot be written is done without.

    Parameters
    ----------
    kernel
        What is compiled.
    options
        What numba is told about it.
    """

    def __init__(self, kernel: Kernel, options: dict[str, bool]) -> None:
        self._kernel, self._options = kernel, options

    @cached_property
    def _content(self) -> str:
        """Found when it is first needed: not before all helpers are defined."""
        return fingerprint(self._kernel)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for arguments of these types; None if there is none."""
        target_context.refresh()
        try:
            blob = self._path(sig, target_context.codegen()).read_bytes()
            if hashlib.sha256(blob[_CHECKSUM:]).digest() != blob[:_CHECKSUM]:
                return None
            return _RESULT._rebuild(target_context, *_SERIALIZE.loads(blob[_CHECKSUM:]))
        except Exception:  # whatever it is that is wrong with the file
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code."""
        if data.library.has_dynamic_globals:  # addresses, true for this process only
            return
        with suppress(OSError, ValueError, TypeError):
            path = self._path(sig, data.codegen)
            body = _SERIALIZE.dumps(data._reduce())
            write_whole(path, lambda part: part.write_bytes(hashlib.sha256(body).digest() + body))

    def _path(self, sig: Any, codegen: Any) -> Path:
        about = (
            self._content, self._options, *map(_typed, sig), codegen.magic_tuple(),
            _CONFIG.BOUNDSCHECK, _CONFIG.OPT, numba.__version__, np.__version__, sys.version,
        )  # fmt: skip
        name = f"{self._kernel.function.__module__}.{self._kernel.function.__qualname__}"
        return cache_folder() / f"{name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}.kernel"


def _typed(kind: Any) -> str:
    """A type in words; numba's own leave out the names of the fields of a record."""
    if isinstance(kind, PinnedType):
        return f"pinned {kind.deep} {_typed(kind.record)}"
    if isinstance(kind, types.BaseNamedTuple):
        record: Any = kind
        module = _module_of(record.instance_class)
        return f"{module}.{record}{record.fields}{_members(kind)}"
    if isinstance(kind, types.BaseTuple):
        return _members(kind)
    if isinstance(kind, types.Callable):
        raise TypeError(f"{kind} as an argument")  # its name is an address
    return str(kind)


def _module_of(record: type) -> str:
    """Where every process finds this class; a TypeError if it is one of a script or a notebook.

    With the code for such a class, another process would be given a copy of the class, which is no use to it.
    """
    module = record.__module__
    if module == "__main__" or getattr(sys.modules.get(module), record.__qualname__, None) is not record:
        raise TypeError(f"{record} cannot be imported")
    return module


def _members(kind: Any) -> str:
    return f"({', '.join(map(_typed, kind))})"
