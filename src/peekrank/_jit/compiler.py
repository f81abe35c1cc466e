"""numba, loaded with the first kernel that is used, and its machine code on disk.

The cache has a file for each entry point and types of its arguments, named by all that its content depends on.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
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

# Without numba's runtime (`_nrt`) arrays are not reference-counted, which halves the time of a small round, and a
# kernel that allocates does not compile.
_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
# numba ships no annotations for these.
_CONFIG: Any = config
_RESULT: Any = CompileResult
_SERIALIZE: Any = serialize
_TYPEOF: Any = numba.typeof
_CHECKSUM = hashlib.sha256().digest_size


def dispatcher(kernel: Kernel, *, for_python: bool) -> Any:
    """Return numba's dispatcher for a kernel.

    Only one for Python can take Python's objects apart: that code is larger than many a kernel. Only its machine
    code is kept on disk.
    """
    options = _OPTIONS | {"no_cpython_wrapper": not for_python}
    made: Any = numba.njit(
        kernel.function,
        fastmath={"reassoc"} if kernel.any_order else False,
        pipeline_class=compiler_class(for_python=for_python, plain=kernel.kept, inline_all=kernel.inline_all),
        **options,
    )
    if kernel.kept and for_python and not _CONFIG.DISABLE_JIT:
        made._cache = KernelCache(kernel, options)
    return made


def code(kernel: Kernel, arguments: tuple[object, ...]) -> Any:
    """Return the machine code for arguments of these types."""
    if _CONFIG.DISABLE_JIT:
        return kernel.compiled
    with _no_garbage_collection():
        return kernel.compiled.compile(tuple(_type_of(one, deep=kernel.kept) for one in arguments))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off, which takes a tenth of the time: the compiler makes lasting objects."""
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
    """Return the words of a record for compiled code, or None without a compiler or if the record has no words."""
    found = None if _CONFIG.DISABLE_JIT else words(record)
    return None if found is None else np.array(found, dtype=np.int64)


def cache_folder() -> Path:
    """Return the folder of compiled kernels."""
    return Path(_CONFIG.CACHE_DIR or platformdirs.user_cache_dir("peekrank", appauthor=False)) / "kernels"


class KernelCache(NullCache):
    """Cache that numba asks for machine code before it compiles, and hands machine code to afterwards.

    Files that are damaged, or that cannot be read or written, are ignored.

    Parameters
    ----------
    kernel
        The kernel.
    options
        The options of its dispatcher.
    """

    def __init__(self, kernel: Kernel, options: dict[str, bool]) -> None:
        self._kernel, self._options = kernel, options | {"inline_all": kernel.inline_all}

    @cached_property
    def _fingerprint(self) -> str:
        """Computed when it is first needed: not before all helpers are defined."""
        return fingerprint(self._kernel)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for arguments of these types, or None."""
        target_context.refresh()
        try:
            blob = self._path(sig, target_context.codegen()).read_bytes()
            if hashlib.sha256(blob[_CHECKSUM:]).digest() != blob[:_CHECKSUM]:
                return None
            return _RESULT._rebuild(target_context, *_SERIALIZE.loads(blob[_CHECKSUM:]))
        except Exception:  # whatever is wrong with the file
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code."""
        if data.library.has_dynamic_globals:  # addresses that are valid in this process only
            return
        with suppress(OSError, ValueError, TypeError):
            path = self._path(sig, data.codegen)
            body = _SERIALIZE.dumps(data._reduce())
            write_whole(path, lambda part: part.write_bytes(hashlib.sha256(body).digest() + body))

    def _path(self, sig: Any, codegen: Any) -> Path:
        about = (
            self._fingerprint, _compiler_digest(), self._options, *map(_typed, sig), codegen.magic_tuple(),
            _CONFIG.BOUNDSCHECK, _CONFIG.OPT, numba.__version__, np.__version__, sys.version,
        )  # fmt: skip
        name = f"{self._kernel.function.__module__}.{self._kernel.function.__qualname__}"
        return cache_folder() / f"{name}-{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}.kernel"


@cache
def _compiler_digest() -> str:
    """Return a digest of this package's files: they determine the machine code of every kernel."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _typed(kind: Any) -> str:
    """Describe a type. numba's own names leave out the fields of a record."""
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
    """Return the module that every process can import this class from. Raises TypeError for a class of a script.

    Code for such a class would hold a copy of the class, which is of no use to another process.
    """
    module = record.__module__
    if module == "__main__" or getattr(sys.modules.get(module), record.__qualname__, None) is not record:
        raise TypeError(f"{record} cannot be imported")
    return module


def _members(kind: Any) -> str:
    return f"({', '.join(map(_typed, kind))})"
