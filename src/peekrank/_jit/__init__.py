"""`kernel`: functions that are compiled when they are first used. Only this package imports numba.

numba is loaded with the first kernel that is called: importing learners, measures and games takes no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=tuple[Any, ...])

_PACKAGE = Path(__file__).parent.parent
_NOT_COMPILED = "{} is not compiled: decorate it with peekrank.kernel"
_LOCK = RLock()  # if two threads use a kernel for the first time, one of them makes its dispatcher


class Kernel:
    """A function that is compiled when Python or another kernel first uses it.

    Parameters
    ----------
    function
        A plain function.
    kept
        Whether its machine code is kept on disk.
    any_order
        Whether the compiler may reorder its sums.
    inline_all
        Whether to inline every kernel that it calls, directly or not.
    """

    def __init__(
        self, function: FunctionType, *, kept: bool, any_order: bool = False, inline_all: bool = False
    ) -> None:
        self.function, self.kept, self.any_order, self.inline_all = function, kept, any_order, inline_all
        self._compiled: dict[bool, Any] = {}  # dispatchers: for other kernels, and for Python
        self._codes: dict[Any, Any] = {}  # numba takes 1 ms to find the code for given types
        update_wrapper(self, function)

    @property
    def compiled(self) -> Any:
        """Return numba's dispatcher for calls from Python, or the function itself if compiling is switched off."""
        return self._made(for_python=True)

    @property
    def _numba_type_(self) -> Any:
        """Return the type of this kernel as a global of another one, which numba asks for."""
        return self._made(for_python=False)._numba_type_

    def _made(self, *, for_python: bool) -> Any:
        with _LOCK:
            if for_python not in self._compiled:
                from peekrank._jit.compiler import dispatcher

                self._compiled[for_python] = dispatcher(self, for_python=for_python)
        return self._compiled[for_python]

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*arguments)

    def code(self, arguments: tuple[object, ...]) -> Any:
        """Return the machine code for arguments of these types."""
        key = tuple(map(_kind, arguments))
        if key not in self._codes:
            from peekrank._jit.compiler import code

            self._codes[key] = code(self, arguments)
        return self._codes[key]


def kernel(function: F) -> F:
    """Compile a leaf function, and keep the machine code on disk if the function belongs to this package."""
    return cast("F", Kernel(cast("FunctionType", function), kept=_ours(function)))


def reassociating_kernel(function: F) -> F:
    """Compile a function whose sums may be added in any order, several terms at a time; all else stays strict."""
    return cast("F", Kernel(cast("FunctionType", function), kept=_ours(function), any_order=True))


class Primitive:
    """An operation that `simd` defines for compiled code. Called from Python, it is a plain function.

    Parameters
    ----------
    function
        A plain function.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call the plain function."""
        return self.function(*arguments)


def _primitive(function: F) -> F:
    return cast("F", Primitive(cast("FunctionType", function)))


@_primitive
def load(numbers: NDArray[np.float64], index: int) -> float:
    """Return an element. The index must not be negative; compiled code does not check this.

    >>> load(np.arange(3.0), 2)
    2.0
    """
    return float(numbers[index])


@_primitive
def vload(numbers: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Return the vector of eight elements from `start` on. Vectors can be added, subtracted and multiplied.

    >>> 2.0 * vload(np.arange(16.0), 4)
    array([ 8., 10., 12., 14., 16., 18., 20., 22.])
    """
    return np.array(numbers[start : start + 8])


@_primitive
def vsplat(number: float) -> NDArray[np.float64]:
    """Return a vector of eight equal numbers."""
    return np.full(8, float(number))


@_primitive
def vstore(vector: NDArray[np.float64], numbers: NDArray[np.float64], start: int) -> None:
    """Write a vector to an array, from `start` on."""
    numbers[start : start + 8] = vector


@_primitive
def vsum(vector: NDArray[np.float64]) -> float:
    """Return the sum of a vector.

    >>> vsum(np.arange(8.0))
    28.0
    """
    fours = vector[:4] + vector[4:]
    twos = fours[:2] + fours[2:]
    return float(twos[0] + twos[1])


@_primitive
def vany(vector: NDArray[np.float64]) -> bool:
    """Return whether an element of a vector is not 0.

    >>> vany(np.zeros(8))
    False
    """
    return bool(vector.any())


@_primitive
def vselect_le(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    if_true: NDArray[np.float64],
    if_false: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Select elements of `if_true` where `left` is at most `right`, and of `if_false` elsewhere."""
    return np.where(left <= right, if_true, if_false)


@_primitive
def vnonzero(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 where an element is not 0, and 0 elsewhere."""
    return np.not_equal(vector, 0).astype(np.float64)


def _ours(function: Callable[..., Any]) -> bool:
    return Path(function.__code__.co_filename).is_relative_to(_PACKAGE)


def unspecialised(*_: Any) -> Any:
    """Stand for a kernel in a template, until `specialise` replaces it by one."""
    raise TypeError("this function is a template: specialise it for its kernels")


def specialise(template: F, name: str, *, inline_all: bool = False, **kernels: Callable[..., Any]) -> F:
    """Compile a function that calls kernels by the names of globals, for these kernels.

    Unlike a function that takes kernels as arguments, it is kept on disk if all of them are.

    Parameters
    ----------
    template
        A plain function; its module must have been executed up to the last name that it uses.
    name
        A name that distinguishes it from its siblings, in characters that file names may have.
    inline_all
        Whether to inline every kernel that it calls, directly or not. It takes longer to compile, and makes loops
        over many rounds some 5 % faster.
    kernels
        Kernels by the names of the globals that stand for them, which are `unspecialised` in the template.

    >>> step = unspecialised
    >>> def twice(x):
    ...     return step(step(x))
    >>> @kernel
    ... def triple(x):
    ...     return 3 * x
    >>> specialise(twice, "triple", step=triple)(2)
    18
    """
    for part in kernels.values():
        if not isinstance(part, Kernel):
            raise TypeError(_NOT_COMPILED.format(part.__name__))
    function = FunctionType(template.__code__, {**template.__globals__, **kernels}, template.__name__)
    function.__module__, function.__doc__ = template.__module__, template.__doc__
    function.__qualname__ = f"{template.__qualname__}-{name}"
    kept = _ours(template) and all(cast("Kernel", part).kept for part in kernels.values())
    return cast("F", Kernel(function, kept=kept, inline_all=inline_all))


def compile_for(kernel: F, *arguments: object) -> F:
    """Compile a kernel for arguments of these types. Calls of the result skip numba's dispatch, 3 us a call.

    The caller must pass arguments of exactly these types: nothing checks them any more.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(_NOT_COMPILED.format(kernel.__name__))
    return cast("F", kernel.code(arguments))


class Pinned(int):
    """The address of a record that `pinned` has taken apart into words for compiled code."""

    record: tuple[Any, ...]  # must live as long as the address is used
    words: NDArray[np.int64]


def pinned(record: R) -> R:
    """Return the address of a record, so that calls need not take its arrays apart, which takes 20 ns an array.

    Pass the result to `compile_for`, and to its result in place of the record. Kernels may write to the arrays,
    but nobody may move them. A record with fields other than arrays, numbers and records of these is returned
    unchanged.
    """
    from peekrank._jit.compiler import words_of

    if (words := words_of(record)) is None:
        return record
    address = Pinned(words.ctypes.data)
    address.record, address.words = cast("tuple[Any, ...]", record), words
    return cast("R", address)


def _kind(argument: object) -> Any:
    """Return all that numba's type of an argument depends on, without numba."""
    if isinstance(argument, Pinned):
        return (Pinned, _kind(argument.record))
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return (type(argument), *map(_kind, argument))
    return type(argument)
