"""A batch of mutants in one process, which may crash. A file records its progress.

python -m fuzz.batch TARGET SEED FIRST LAST SECONDS PATIENCE FOLDER
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzz.target import Target
from fuzz.targets import TARGETS, broken

STATE = "state"  # file with the number of the mutant that is being tried, and how many were read and refused
_CLOCK = 12  # seconds that may pass for each of processor time, on a machine that is busy
_MEMORY = 1 << 30  # bytes that reading may take besides what the process has
_MOST_WORDS = 1000  # characters of a message


class State(NamedTuple):
    """The progress of a batch."""

    at: int
    read: int
    refused: int

    def save(self, file: int) -> None:
        """Write the progress to a file for another process."""
        os.pwrite(file, struct.pack("<3q", *self), 0)

    @classmethod
    def load(cls, folder: Path) -> State:
        """Read the progress of the batch of a folder."""
        return cls(*struct.unpack("<3q", (folder / STATE).read_bytes()))


def make_target(name: str) -> Target:
    """Return the target of this name."""
    return broken() if name == broken.__name__ else TARGETS[name]()


def make_mutant(target: Target, name: str, seed: int, number: int) -> bytes:
    """Make the mutant of this number."""
    return target.mutate(Random(f"{name} {seed} {number}"))  # noqa: S311


def verdict(target: Target, path: Path) -> str:
    """Return "read" or "refused", or a description of what went wrong."""
    try:
        value = target.read(path)
    except (ValueError, MemoryError) as error:
        return _refusal(error, path.name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # polars' panics are no Exception
        return _fault(error, "reading")
    try:
        target.use(value)
    except ValueError as error:
        return _refusal(error, "")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _fault(error, "using")
    return "read"


def _refusal(error: BaseException, name: str) -> str:
    """Return whether an error is one that users can act on."""
    message = str(error)
    if name not in message or not message:
        return _fault(error, "a message that does not name the file,")
    if not message.isprintable():
        return _fault(error, "a message with lines or characters that are not printed,")
    return "refused" if len(message) <= _MOST_WORDS else _fault(error, "a message of many words,")


def _fault(error: BaseException, where: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "peekrank" in frame.filename]
    last = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{where} {type(error).__name__} from {last}\n{str(error)[:200]!r}"


def limit_memory() -> None:
    """Limit this process to one gigabyte more than it uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(name: str, seed: int, first: int, last: int, seconds: float, patience: float, folder: Path) -> None:
    """Try mutants, and print a line of JSON for each finding."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)  # advice about a file that is read
    target = make_target(name)
    file = os.open(folder / STATE, os.O_WRONLY | os.O_CREAT)
    state = State(first, 0, 0)
    for number, sample in enumerate(target.samples):  # compiles what there is to compile
        path = folder / f"sample{number}{target.suffix}"
        path.write_bytes(sample)
        if (found := verdict(target, path)) != "read":
            raise SystemExit(f"{name}: sample {number} is not read: {found}")
    limit_memory()
    end = time.monotonic() + seconds
    for number in range(first, last):
        state._replace(at=number).save(file)
        if time.monotonic() > end:
            return
        path = folder / f"{number}{target.suffix}"
        path.write_bytes(make_mutant(target, name, seed, number))
        signal.setitimer(signal.ITIMER_PROF, patience)  # both end the process
        signal.setitimer(signal.ITIMER_REAL, _CLOCK * patience)
        found = verdict(target, path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        path.unlink()
        state = state._replace(read=state.read + (found == "read"), refused=state.refused + (found == "refused"))
        if found not in ("read", "refused"):
            sys.stdout.write(json.dumps([number, found]) + "\n")
            sys.stdout.flush()
    state._replace(at=last).save(file)


if __name__ == "__main__":
    _name, _seed, _first, _last, _seconds, _patience, _folder = sys.argv[1:]
    main(_name, int(_seed), int(_first), int(_last), float(_seconds), float(_patience), Path(_folder))
