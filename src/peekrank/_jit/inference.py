"""numba's flags and contexts with less repeated work, which takes a fifth off the time to compile a learner.

Nothing in numba is replaced: only the compilers of `linking` use these objects.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

from numba.core import compiler, types
from numba.core.targetconfig import ConfigStack
from numba.core.typing import context

# numba ships no annotations for these modules.
_FLAGS: Any = compiler.Flags
_CONTEXT: Any = context.Context
_STACK: Any = ConfigStack


class Flags(_FLAGS):  # type: ignore[misc]
    """Flags that compare only options that are set: numba builds two dictionaries of all options, 30,000 times."""

    __slots__ = ()

    def __hash__(self) -> int:
        return _HASH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _FLAGS):
            return NotImplemented
        flags: Any = other
        if self._values == flags._values:
            return True
        return all(
            getattr(self, name) == getattr(flags, name) for name in self._values.keys() | flags._values.keys()
        )


_HASH = hash(_FLAGS())  # numba hashes the names of the options, which are the same for all flags


class KernelTyping(_CONTEXT):  # type: ignore[misc]
    """A typing context that remembers the type of each call of a built-in function.

    numba tries up to 50 templates for each `+` that it meets. The result depends on the function, the types of the
    arguments and the flags: with other flags, numba compiles its own helpers again.
    """

    _calls: dict[Any, Any]

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        if not isinstance(func, types.Function):
            return super().resolve_function_type(func, args, kws)
        key = func, tuple(args), tuple(kws.items()), _STACK.top_or_none()
        if key not in self._calls:
            signature = super().resolve_function_type(func, args, kws)
            if signature is None:
                return None
            self._calls[key] = signature
        return self._calls[key]

    def load_additional_registries(self) -> None:
        """Do nothing: numba's own context has loaded them, and shares its tables with this one."""


@cache
def kernel_typing(default: Any) -> Any:
    """Return the typing context for kernels, which shares all tables with numba's own."""
    typing = copy(default)
    typing.__class__ = KernelTyping
    typing._calls = {}
    return typing


def kernel_target(target: Any, typing: Any) -> Any:
    """Return a target context that does not import numba's registries again for each call that it lowers.

    Parameters
    ----------
    target
        The context that numba made for one kernel.
    typing
        The typing context for kernels.
    """
    target.typing_context, target.load_additional_registries = typing, _do_nothing
    return target


def _do_nothing() -> None:
    """Do nothing."""
