"""What the compiler makes of eight numbers: a vector of LLVM, which is as many of the processor's as it takes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core import typing as core_typing
from numba.core.typing import templates

_CGUTILS: Any = cgutils  # these have no types, as far as they are used here
_EXTENDING: Any = extending
_TYPING: Any = core_typing
_TEMPLATES: Any = templates
_BITS: Any = ir.IntType(8)
_WORD: Any = ir.IntType(64)
_VECTOR: Any = ir.VectorType(ir.DoubleType(), 8)
_ZEROS: Any = ir.Constant(_VECTOR, [0.0] * 8)
_SIZE = 8  # bytes of a number: a vector may begin at any of them


class EightType(types.Type):
    """Eight numbers."""

    def __init__(self) -> None:
        super().__init__("Eight")


_EIGHT, _NUMBER, _PLACE = EightType(), types.float64, types.intp


@_EXTENDING.register_model(EightType)
class _EightModel(_EXTENDING.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _taught(key: Any, code: Callable[..., Any], result: Any, *kinds: Any) -> Any:
    """Teach the compiler an operation: its code gets the address of the data of an array."""

    class Typing(_TEMPLATES.AbstractTemplate):  # type: ignore[misc]
        def generic(self, given: Any, _: Any) -> Any:
            if len(given) != len(kinds):
                return None
            pairs = list(zip(kinds, given, strict=True))
            if any((kind == _EIGHT) != (one == _EIGHT) for kind, one in pairs):
                return None
            return _TYPING.signature(result, *(one if kind is types.Array else kind for kind, one in pairs))

    def lowered(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        arguments = list(values)
        for i, kind in enumerate(sig.args):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, values[i])
                if context.enable_boundscheck:  # as NUMBA_BOUNDSCHECK=1 wants it
                    _check_bounds(context, builder, array, values[-1], 1 if result == _NUMBER else 8)
                arguments[i] = array.data
        made = code(builder, *arguments)
        return context.get_dummy_value() if result == types.none else made

    Typing.key = key
    _EXTENDING.lower_builtin(key, *kinds)(lowered)
    return Typing


def _check_bounds(context: Any, builder: Any, array: Any, start: Any, count: int) -> None:
    """Raise an IndexError unless all numbers from `start` on are in the array."""
    for position in (start, builder.add(start, _WORD(count - 1))):
        _CGUTILS.do_boundscheck(context, builder, position, array.nitems)


def _vector_at(builder: Any, data: Any, start: Any) -> Any:
    return builder.bitcast(builder.gep(data, [start]), _VECTOR.as_pointer())


def _same(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _WORD(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))


def _put(builder: Any, eight: Any, data: Any, start: Any) -> None:
    builder.store(eight, _vector_at(builder, data, start), align=_SIZE)


def _total(builder: Any, eight: Any) -> Any:
    parts = [builder.extract_element(eight, _WORD(i)) for i in range(8)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(parts[i], parts[i + half]) for i in range(half)]
    return parts[0]


def _marks(builder: Any, eight: Any) -> Any:
    """Which numbers are not 0."""
    return builder.fcmp_unordered("!=", eight, _ZEROS)


def _primitive(name: str, code: Callable[..., Any], result: Any, *kinds: Any) -> Any:
    return types.Function(_taught(f"peekrank {name}", code, result, *kinds))


PRIMITIVES = {
    "at": _primitive(
        "at", lambda b, data, position: b.load(b.gep(data, [position])), _NUMBER, types.Array, _PLACE
    ),
    "eight": _primitive(
        "eight",
        lambda b, data, start: b.load(_vector_at(b, data, start), align=_SIZE),
        _EIGHT,
        types.Array,
        _PLACE,
    ),
    "same": _primitive("same", _same, _EIGHT, _NUMBER),
    "put": _primitive("put", _put, types.none, _EIGHT, types.Array, _PLACE),
    "total": _primitive("total", _total, _NUMBER, _EIGHT),
    "some": _primitive(
        "some", lambda b, x: b.icmp_unsigned("!=", b.bitcast(_marks(b, x), _BITS), _BITS(0)), types.boolean, _EIGHT
    ),
    "nonzero": _primitive("nonzero", lambda b, x: b.uitofp(_marks(b, x), _VECTOR), _EIGHT, _EIGHT),
    "if_at_most": _primitive(
        "if_at_most",
        lambda b, low, high, here, there: b.select(b.fcmp_ordered("<=", low, high), here, there),
        *[_EIGHT] * 5,
    ),
}

for _symbol, _combine in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _TEMPLATES.infer_global(_symbol)(
        _taught(_symbol, lambda b, x, y, how=_combine: getattr(b, how)(x, y), _EIGHT, _EIGHT, _EIGHT)
    )
_TEMPLATES.infer_global(operator.mul)(
    _taught(operator.mul, lambda b, number, x: b.fmul(_same(b, number), x), _EIGHT, _NUMBER, _EIGHT)
)
