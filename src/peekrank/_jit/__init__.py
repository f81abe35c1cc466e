"""`kernel`: functions that are compiled when they are first used. numba is known to this folder only.

It is loaded with the first kernel that is called: importing learners, measures and games takes no compiler.
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
_LOCK = RLock()  # of two threads that use a kernel first, one makes it


class Kernel:
    """A function that is compiled when it is first used, by Python or by another kernel.

    Parameters
    ----------
    function
        A plain function.
    kept
        Whether its machine code is kept on disk.
    any_order
        Whether its sums may be added up in any order.
    """

    def __init__(self, function: FunctionType, *, kept: bool, any_order: bool = False) -> None:
        self.function, self.kept, self.any_order = function, kept, any_order
        self._compiled: dict[bool, Any] = {}  # for other kernels to call, and for Python
        self._codes: dict[Any, Any] = {}  # numba takes a millisecond to find one, as long as 3,000 rounds
        update_wrapper(self, function)

    @property
    def compiled(self) -> Any:
        """What numba makes of the function, to be called by Python: itself, if compiling is switched off."""
        return self._made(for_python=True)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a global that a kernel names."""
        return self._made(for_python=False)._numba_type_

    def _made(self, *, for_python: bool) -> Any:
        with _LOCK:
            if for_python not in self._compiled:
                from peekrank._jit.compiler import compiled

                self._compiled[for_python] = compiled(self, for_python=for_python)
        return self._compiled[for_python]

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.compiled(*arguments)

    def code(self, arguments: tuple[object, ...]) -> Any:
        """The machine code for arguments of these types."""
        key = tuple(map(_kind, arguments))
        if key not in self._codes:
            from peekrank._jit.compiler import code

            self._codes[key] = code(self, arguments)
        return self._codes[key]


def kernel(function: F) -> F:
    """Compile a leaf function, and keep the machine code on disk if the function belongs to this package."""
    return cast("F", Kernel(cast("FunctionType", function), kept=_ours(function)))


def reassociating_kernel(function: F) -> F:
    """A kernel whose sums may be added up in any order, several at a time; all else stays as strict as ever."""
    return cast("F", Kernel(cast("FunctionType", function), kept=_ours(function), any_order=True))


class Primitive:
    """An operation that the compiler is taught (see `simd`); without it, what a function of Python does.

    Parameters
    ----------
    function
        A plain function.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """What it does without the compiler."""
        return self.function(*arguments)


def _primitive(function: F) -> F:
    return cast("F", Primitive(cast("FunctionType", function)))


@_primitive
def load(numbers: NDArray[np.float64], place: int) -> float:
    """The number at a place that is not negative, which compiled code would look for otherwise.

    >>> load(np.arange(3.0), 2)
    2.0
    """
    return float(numbers[place])


@_primitive
def vload(numbers: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Eight numbers of an array, from `start` on, to be added, subtracted and multiplied at once.

    Kernels that use them need no loops that the compiler finds vectors in, and have the same bits everywhere.

    >>> 2.0 * vload(np.arange(16.0), 4)
    array([ 8., 10., 12., 14., 16., 18., 20., 22.])
    """
    return np.array(numbers[start : start + 8])


@_primitive
def vsplat(number: float) -> NDArray[np.float64]:
    """Eight times the same number."""
    return np.full(8, float(number))


@_primitive
def vstore(vector: NDArray[np.float64], numbers: NDArray[np.float64], start: int) -> None:
    """Write eight numbers to an array, from `start` on."""
    numbers[start : start + 8] = vector


@_primitive
def vsum(vector: NDArray[np.float64]) -> float:
    """The sum of eight numbers.

    >>> vsum(np.arange(8.0))
    28.0
    """
    fours = vector[:4] + vector[4:]
    twos = fours[:2] + fours[2:]
    return float(twos[0] + twos[1])


@_primitive
def vany(vector: NDArray[np.float64]) -> bool:
    """Whether one of eight numbers is not 0.

    >>> vany(np.zeros(8))
    False
    """
    return bool(vector.any())


@_primitive
def vselect_le(
    low: NDArray[np.float64], high: NDArray[np.float64], here: NDArray[np.float64], there: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`here` where `low` is not above `high`, else `there`."""
    return np.where(low <= high, here, there)


@_primitive
def vnonzero(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 where a number is not 0, else 0."""
    return np.not_equal(vector, 0).astype(np.float64)


def _ours(function: Callable[..., Any]) -> bool:
    return Path(function.__code__.co_filename).is_relative_to(_PACKAGE)


def unspecialised(*_: Any) -> Any:
    """What a global stands for that `specialise` replaces by a kernel."""
    raise TypeError("this function is a template: specialise it for its kernels")


def specialise(template: F, name: str, **kernels: Callable[..., Any]) -> F:
    """Compile a function that calls kernels by the names of globals, for these kernels.

    Unlike one that takes kernels as arguments it is kept on disk, if all of them are.

    Parameters
    ----------
    template
        A plain function; its module must have been executed as far as what it calls.
    name
        What is special about it, in characters that file names may have; must tell it from its siblings.
    kernels
        What its globals of these names stand for, which are `unspecialised` before.

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
    return cast("F", Kernel(function, kept=kept))


def compile_for(kernel: F, *arguments: object) -> F:
    """A kernel compiled for arguments of these types: calls of it skip numba's dispatch, five times its work.

    The caller must pass arguments of exactly these types, since nothing checks them any more.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(_NOT_COMPILED.format(kernel.__name__))
    return cast("F", kernel.code(arguments))


class Pinned(int):
    """The address of a record, taken apart into words for compiled code once and for all (see `pinned`)."""

    record: tuple[Any, ...]  # which must live as long as the address is used
    words: NDArray[np.int64]


def pinned(record: R) -> R:
    """A record whose fields kernels find without taking its arrays apart in each call, which takes 20 ns an array.

    What comes back is for `compile_for` and for the calls of it, and stands for the record. Its arrays may be
    written to; they must not be moved. A record with other fields than arrays, numbers and records of these is
    returned as it is.
    """
    from peekrank._jit.compiler import words_of

    if (words := words_of(record)) is None:
        return record
    address = Pinned(words.ctypes.data)
    address.record, address.words = cast("tuple[Any, ...]", record), words
    return cast("R", address)


def _kind(argument: object) -> Any:
    """What numba's type of an argument depends on, found without numba."""
    if isinstance(argument, Pinned):
        return (Pinned, _kind(argument.record))
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return (type(argument), *map(_kind, argument))
    return type(argument)
