"""Records that compiled code reads from memory by their address, as words of 8 bytes.

An array is its address, its shape and its strides. A number is one word. A record is the words of its fields.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.np import arrayobj

_EXTENDING: Any = extending  # numba ships no annotations for these
_ARRAYOBJ: Any = arrayobj
_WORD: Any = ir.IntType(64)
_FLOATS = {types.float32, types.float64}


class PinnedType(types.Type):
    """Type of the address of a record. It has the fields of the record.

    Parameters
    ----------
    record
        The type of the record.
    deep
        Whether records within the record are addresses as well. A kernel can neither unpack nor index them then.
    """

    def __init__(self, record: Any, *, deep: bool) -> None:
        self.record, self.deep = record, deep
        super().__init__(f"Pinned({record}, {deep})")

    @property
    def key(self) -> Any:
        """Return the key that identifies the type. Names do not suffice: two classes may have the same."""
        return self.record, self.deep


def words(value: object) -> list[int] | None:
    """Return the words of a value, or None if it holds anything other than arrays and numbers.

    This does without numba, which takes a millisecond to find the type of a state.

    >>> words((3, True, np.float32(0.5), np.zeros((2, 3), np.uint8)))[:3]
    [3, 1, 4602678819172646912]
    """
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape, *value.strides]
    if isinstance(value, int | np.integer | np.bool_):
        return [int(value)] if -(2**63) <= value < 2**63 else None
    if isinstance(value, float | np.float32):
        return list(struct.unpack("q", struct.pack("d", value)))
    if isinstance(value, tuple):
        found: list[int] = []
        for part in value:
            if (more := words(part)) is None:
                return None
            found += more
        return found
    return None


def _parts(kind: Any) -> tuple[Any, ...]:
    return tuple(kind)


def _length(kind: Any) -> int:
    """Return the number of words of a value of this type."""
    if isinstance(kind, types.Array):
        return 1 + 2 * kind.ndim
    return sum(map(_length, _parts(kind))) if isinstance(kind, types.BaseTuple) else 1


def _take_address(_: PinnedType, address: Any, c: Any) -> Any:
    return _EXTENDING.NativeValue(c.pyapi.long_as_voidptr(address))


class _Fields(AttributeTemplate):
    key = PinnedType

    def generic_resolve(self, pinned: Any, name: str) -> Any:  # type: ignore[override]
        fields = pinned.record.fields
        if name not in fields:
            return None
        kind = pinned.record[fields.index(name)]
        return PinnedType(kind, deep=True) if _is_address(pinned, kind) else kind


def _is_address(pinned: PinnedType, kind: Any) -> bool:
    return pinned.deep and isinstance(kind, types.BaseNamedTuple)


def _load_field(context: Any, builder: Any, pinned: PinnedType, address: Any, name: str) -> Any:
    index = pinned.record.fields.index(name)
    kind, start = pinned.record[index], sum(map(_length, _parts(pinned.record)[:index]))
    words = builder.bitcast(address, _WORD.as_pointer())
    if _is_address(pinned, kind):
        return builder.bitcast(builder.gep(words, [_WORD(start)]), address.type)
    return _load(context, builder, kind, words, start)


def _load(context: Any, builder: Any, kind: Any, address: Any, start: int) -> Any:
    """Emit code that loads a value of this type, whose words begin at `start`."""
    unchanging = builder.module.add_metadata([])

    def word(offset: int) -> Any:
        load = builder.load(builder.gep(address, [_WORD(start + offset)]))
        load.set_metadata("invariant.load", unchanging)  # `pinned` promises it, so LLVM loads a word once
        return load

    wanted = context.get_value_type(kind)
    if isinstance(kind, types.Array):
        array = _ARRAYOBJ.make_array(kind)(context, builder)
        data = builder.inttoptr(word(0), array.data.type)
        shape, strides = ([word(1 + i * kind.ndim + axis) for axis in range(kind.ndim)] for i in (0, 1))
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        return _ARRAYOBJ.populate_array(array, data, shape, strides, size, meminfo=None)._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = []
        for part in _parts(kind):
            parts.append(_load(context, builder, part, address, start))
            start += _length(part)
        return context.make_tuple(builder, kind, parts)
    if kind in _FLOATS:
        number = builder.bitcast(word(0), context.get_value_type(types.float64))
        return number if kind == types.float64 else builder.fptrunc(number, wanted)
    return builder.trunc(word(0), wanted) if wanted != _WORD else word(0)


_EXTENDING.register_model(PinnedType)(_EXTENDING.models.OpaqueModel)
_EXTENDING.unbox(PinnedType)(_take_address)
_EXTENDING.infer_getattr(_Fields)
_EXTENDING.lower_getattr_generic(PinnedType)(_load_field)
