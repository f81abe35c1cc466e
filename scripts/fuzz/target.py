"""A kind of file, with samples, mutants, its reader, and a use of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Target:
    """A kind of file.

    Parameters
    ----------
    suffix
        How the names of such files end.
    samples
        Files as they should be.
    mutate
        Makes a mutant.
    read
        Reads a file: a ValueError has to say in one line which file is wrong, and why.
    use
        Does something with what was read: a ValueError of one line is fine, a crash is not.
    """

    suffix: str
    samples: tuple[bytes, ...]
    mutate: Callable[[Random], bytes]
    read: Callable[[Path], Any]
    use: Callable[[Any], object]
