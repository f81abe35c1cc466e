"""`kernel` and `driver`: the only place where numba is configured."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
import platformdirs
from numba.core.dispatcher import Dispatcher

from peekrank._jit.kernel_cache import KernelCache

F = TypeVar("F", bound=Callable[..., Any])

# Without numba's runtime (`_nrt`) arrays are not reference-counted, and a kernel that allocates does not compile.
# Inlined by force, kernels do not copy their state of many arrays to each other. Either halves a small round.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
_CONFIG: Any = numba.config  # its attributes are made at run time, unknown to type checkers
_PACKAGE = Path(__file__).parent.parent


def fingerprint(folder: Path) -> str:
    """Digest of every source file below a folder.

    numba notices a change in the file that defines a cached function, not one in the helpers it calls from other
    files; it would go on returning the old helper's results. Keying the cache by all sources closes that hole.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def sources() -> str:
    """Digest of this package as it was when its first kernel was defined, whatever becomes of its files."""
    return fingerprint(_PACKAGE)


@cache
def cache_folder() -> Path:
    """Where compiled kernels live."""
    return Path(_CONFIG.CACHE_DIR or platformdirs.user_cache_dir("peekrank", appauthor=False)) / "kernels"


def kernel(function: F) -> F:
    """Compile a leaf function, and keep the machine code on disk if the function belongs to this package."""
    return _compiled(function, **_OPTIONS)


def sum_kernel(function: F) -> F:
    """A kernel whose sums may be added up in any order, several at a time; all else stays as strict as ever."""
    return _compiled(function, fastmath={"reassoc"}, **_OPTIONS)


def _compiled(function: F, **options: Any) -> F:
    compiled: Any = numba.njit(function, **options)
    if not _CONFIG.DISABLE_JIT and Path(function.__code__.co_filename).is_relative_to(_PACKAGE):
        compiled._cache = KernelCache(cache_folder(), compiled.py_func, options, _helper)
    return cast("F", compiled)


def _helper(value: object) -> tuple[Any, object] | None:
    """The function and the options of a value that is a kernel."""
    return (value.py_func, value.targetoptions) if isinstance(value, Dispatcher) else None


def specialise(template: F, name: str, **kernels: Callable[..., Any]) -> F:
    """Compile a function that calls kernels by the names of globals, for these kernels.

    Unlike one that takes kernels as arguments, or that has them in a closure, it is kept on disk under its name,
    which must therefore tell it from its siblings. With a kernel of somebody else's it is never kept: a change in
    the file of that one would go unnoticed.

    Parameters
    ----------
    template
        A plain function; its module must have been executed as far as what it calls.
    name
        What is special about it, in characters that file names may have.
    kernels
        What its globals of these names stand for.

    >>> def twice(x):
    ...     return step(step(x))
    >>> @kernel
    ... def triple(x):
    ...     return 3 * x
    >>> specialise(twice, "triple", step=triple)(2)
    18
    """
    function = FunctionType(template.__code__, {**template.__globals__, **kernels}, template.__name__)
    function.__module__, function.__doc__ = template.__module__, template.__doc__
    function.__qualname__ = f"{template.__qualname__}-{name}"
    if all(map(_kept, kernels.values())):
        return cast("F", kernel(function))
    return cast("F", numba.njit(function, **_OPTIONS))


def _kept(kernel: Any) -> bool:
    """Whether a kernel is kept on disk."""
    return not _CONFIG.DISABLE_JIT and kernel.stats.cache_path is not None


def driver(function: F) -> F:
    """Compile a loop that takes kernels as arguments: never cached on disk, since such an entry is never hit."""
    return cast("F", numba.njit(function, **_OPTIONS))


def machine_code(kernel: F, *arguments: object) -> F:
    """A kernel compiled for arguments of these types: calls of it skip numba's dispatch, five times its work.

    The caller must pass arguments of exactly these types, since nothing checks them any more.
    """
    if _CONFIG.DISABLE_JIT:
        return kernel
    if not hasattr(kernel, "compile"):
        raise TypeError(f"{kernel.__name__} is not compiled: decorate it with peekrank.kernel")
    key = (kernel, *map(_kind, arguments))
    if key not in _FOUND:
        _FOUND[key] = kernel.compile(tuple(map(numba.typeof, arguments)))
    return cast("F", _FOUND[key])


_FOUND: dict[Any, Any] = {}  # numba takes a millisecond to find what it has compiled, as long as 3,000 rounds


def _kind(argument: object) -> Any:
    """What numba's type of an argument depends on, found without numba."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return (type(argument), *map(_kind, argument))
    return argument if hasattr(argument, "compile") else type(argument)  # a kernel is a type of its own
