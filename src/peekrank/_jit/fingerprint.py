"""What a kernel is compiled from: its code, the constants it names, and the kernels it calls."""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from peekrank._jit import Kernel, Primitive


def fingerprint(kernel: Kernel) -> str:
    """Digest of all that the machine code of a kernel depends on; a TypeError if something in it has no digest.

    numba itself notices a change in the file that defines a function, not one in the helpers that it calls from
    other files: it would go on returning the old helper's results. It also compiles anew after any change of that
    file. This digest is made of bytecode, so that comments, docstrings and all other code count for nothing.

    >>> def area(radius):
    ...     return pi * radius**2
    >>> def digest(pi):
    ...     return fingerprint(Kernel(FunctionType(area.__code__, {"pi": pi}), kept=False))
    >>> digest(3.0) == digest(3.14)
    False
    """
    kernels = [kernel]
    digest = hashlib.sha256()
    for one in kernels:  # it grows while it is read, until it has all helpers of helpers
        function = one.function
        parts = [f"{function.__module__}.{function.__qualname__}", f"{one.any_order} {function.__defaults__}"]
        parts += _instructions(function.__code__)
        for name, value in _named(function):
            if isinstance(value, Kernel) and value not in kernels:
                kernels.append(value)
            what = f"kernel {kernels.index(value)}" if isinstance(value, Kernel) else _constant(value)
            parts.append(f"{name} = {what}")
        digest.update("\0".join([*parts, ""]).encode())
    return digest.hexdigest()


def _instructions(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, CodeType):
            yield from _instructions(instruction.argval)
        else:
            yield f"{instruction.opname} {instruction.argval!r}"


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, and the variables of functions around it."""
    for name in sorted({i.argval for i in dis.get_instructions(function.__code__) if i.opname == "LOAD_GLOBAL"}):
        if name in function.__globals__:  # else it is built in
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _constant(value: object) -> str:
    """A text that differs where values differ; a TypeError for a value that may hide more than it shows."""
    if isinstance(value, Primitive):
        return f"primitive {value.function.__name__}: {list(_instructions(value.function.__code__))}"
    if isinstance(value, bool | int | float | str | np.number):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, ModuleType) and value.__name__ in ("math", "numpy"):
        return value.__name__
    if isinstance(value, BuiltinFunctionType | np.ufunc):
        return str(value)
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return f"{value.__module__}.{value.__qualname__} {value._fields}"
    raise TypeError(f"a {type(value).__name__} in a kernel")
