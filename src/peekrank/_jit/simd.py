"""SIMD primitives: eight float64 values as one LLVM vector, lowered to whatever registers the CPU has.

Kernels that use them do not depend on loops that the compiler can vectorise, and give the same bits on every CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

from peekrank import _jit

# numba ships no annotations for these modules.
_CGUTILS: Any = cgutils
_EXTENDING: Any = extending
_BITS: Any = ir.IntType(8)
_WORD: Any = ir.IntType(64)
_LANES: Any = ir.VectorType(ir.DoubleType(), 8)
_ZEROS: Any = ir.Constant(_LANES, [0.0] * 8)
_ALIGNMENT = 8  # bytes: a vector may begin at any element of an array


class VectorType(types.Type):
    """Type of eight float64 values."""

    def __init__(self) -> None:
        super().__init__("Vector")


@_EXTENDING.register_model(VectorType)
class _VectorModel(_EXTENDING.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _LANES)


_VECTOR: Any = VectorType()
_NUMBER: Any = types.float64
_INDEX: Any = types.intp
_ARRAY: Any = types.Array


def _define(function: Any, emit: Callable[..., Any], result: Any, *kinds: Any) -> None:
    """Define a function for compiled code.

    Parameters
    ----------
    function
        What kernels call: a primitive or an operator.
    emit
        Emits its code, given a builder and the arguments. Instead of an array it gets the address of its data.
    result
        Type of the result.
    kinds
        Types of the arguments, `types.Array` for a C-contiguous array of float64.
    """

    def signature(*given: Any) -> Any:
        if not all(map(_fits, kinds, given)):
            return None
        return result(*(one if kind is _ARRAY else kind for kind, one in zip(kinds, given, strict=True)))

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        arguments = list(values)
        for i, kind in enumerate(sig.args):
            if isinstance(kind, _ARRAY):
                array = context.make_array(kind)(context, builder, values[i])
                if context.enable_boundscheck:
                    _check_bounds(context, builder, array, values[-1], 1 if result == _NUMBER else 8)
                arguments[i] = array.data
        value = emit(builder, *arguments)
        return context.get_dummy_value() if result == types.none else value

    # numba wants to see as many parameters as there are arguments.
    signature.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(f"argument{i}", Parameter.POSITIONAL_OR_KEYWORD) for i in range(len(kinds))]
    )
    _EXTENDING.type_callable(function)(lambda _: signature)
    _EXTENDING.lower_builtin(function, *kinds)(lower)


def _fits(kind: Any, given: Any) -> bool:
    """Return whether an argument may have this type. Numbers are converted, vectors and arrays are not."""
    if kind is _ARRAY:
        return isinstance(given, _ARRAY) and bool(given.dtype == _NUMBER and given.layout == "C")
    return bool((kind == _VECTOR) == (given == _VECTOR))


def _check_bounds(context: Any, builder: Any, array: Any, start: Any, count: int) -> None:
    """Raise IndexError in compiled code unless all `count` elements from `start` on are in the array."""
    for index in (start, builder.add(start, _WORD(count - 1))):
        _CGUTILS.do_boundscheck(context, builder, index, array.nitems)


def _address(builder: Any, data: Any, start: Any) -> Any:
    return builder.bitcast(builder.gep(data, [start]), _LANES.as_pointer())


def _load(builder: Any, data: Any, index: Any) -> Any:
    return builder.load(builder.gep(data, [index]))


def _vload(builder: Any, data: Any, start: Any) -> Any:
    return builder.load(_address(builder, data, start), align=_ALIGNMENT)


def _vstore(builder: Any, vector: Any, data: Any, start: Any) -> None:
    builder.store(vector, _address(builder, data, start), align=_ALIGNMENT)


def _vsplat(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_LANES, ir.Undefined), number, _WORD(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))


def _vsum(builder: Any, vector: Any) -> Any:
    parts = [builder.extract_element(vector, _WORD(i)) for i in range(8)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(parts[i], parts[i + half]) for i in range(half)]
    return parts[0]


def _is_nonzero(builder: Any, vector: Any) -> Any:
    return builder.fcmp_unordered("!=", vector, _ZEROS)


def _vany(builder: Any, vector: Any) -> Any:
    return builder.icmp_unsigned("!=", builder.bitcast(_is_nonzero(builder, vector), _BITS), _BITS(0))


def _vnonzero(builder: Any, vector: Any) -> Any:
    return builder.uitofp(_is_nonzero(builder, vector), _LANES)


def _vselect_le(builder: Any, left: Any, right: Any, if_true: Any, if_false: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<=", left, right), if_true, if_false)


_define(_jit.load, _load, _NUMBER, _ARRAY, _INDEX)
_define(_jit.vload, _vload, _VECTOR, _ARRAY, _INDEX)
_define(_jit.vstore, _vstore, types.none, _VECTOR, _ARRAY, _INDEX)
_define(_jit.vsplat, _vsplat, _VECTOR, _NUMBER)
_define(_jit.vsum, _vsum, _NUMBER, _VECTOR)
_define(_jit.vany, _vany, types.boolean, _VECTOR)
_define(_jit.vnonzero, _vnonzero, _VECTOR, _VECTOR)
_define(_jit.vselect_le, _vselect_le, *[_VECTOR] * 5)
_define(operator.add, lambda builder, x, y: builder.fadd(x, y), _VECTOR, _VECTOR, _VECTOR)
_define(operator.sub, lambda builder, x, y: builder.fsub(x, y), _VECTOR, _VECTOR, _VECTOR)
_define(operator.mul, lambda builder, x, y: builder.fmul(x, y), _VECTOR, _VECTOR, _VECTOR)
_define(operator.mul, lambda builder, x, y: builder.fmul(_vsplat(builder, x), y), _VECTOR, _NUMBER, _VECTOR)
