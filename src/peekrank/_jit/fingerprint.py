"""Fingerprint of a kernel: a digest of its code, of the constants it names, and of the kernels it calls."""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from peekrank._jit import Kernel, Primitive


def fingerprint(kernel: Kernel) -> str:
    """Digest everything that the machine code of a kernel depends on.

    numba itself notices a change in the file that defines a function, but not in helpers from other files: it
    would keep returning the old helper's results. It also recompiles after any change of that file. This
    digest is made of bytecode, so that comments, docstrings and other code do not count.

    Raises TypeError if the kernel names a value that has no digest.

    >>> def area(radius):
    ...     return pi * radius**2
    >>> def digest(pi):
    ...     return fingerprint(Kernel(FunctionType(area.__code__, {"pi": pi}), kept=False))
    >>> digest(3.0) == digest(3.14)
    False
    """
    kernels = {kernel: 0}
    digest = hashlib.sha256()
    remaining = [kernel]
    for one in remaining:  # grows until it has all helpers of helpers
        function = one.function
        parts = [f"{function.__module__}.{function.__qualname__}", f"{one.any_order} {function.__defaults__}"]
        parts += _instructions(function.__code__)
        for name, value in _named(function):
            if isinstance(value, Kernel):
                if value not in kernels:
                    kernels[value] = len(kernels)
                    remaining.append(value)
                parts.append(f"{name} = kernel {kernels[value]}")
            else:
                parts.append(f"{name} = {_constant(value)}")
        digest.update("\0".join([*parts, ""]).encode())
    return digest.hexdigest()


@lru_cache(maxsize=1024)  # the same helpers are in the fingerprints of many kernels
def _instructions(code: CodeType) -> tuple[str, ...]:
    lines: list[str] = []
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, CodeType):
            lines += _instructions(instruction.argval)
        else:
            lines.append(f"{instruction.opname} {instruction.argval!r}")
    return tuple(lines)


@lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> tuple[str, ...]:
    return tuple(sorted({i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}))


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that a function names, and the variables of enclosing functions."""
    for name in _global_names(function.__code__):
        if name in function.__globals__:  # otherwise it is a built-in
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _constant(value: object) -> str:
    """Return a text that differs if values differ. Raises TypeError for a value that may hide more than that."""
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
