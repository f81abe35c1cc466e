"""Batches: one line of JSON per call, which share commits, and one line per reply, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from peekrank.service.api import problems
from peekrank.service.api.auth import internal_error
from peekrank.service.api.codec import decode, problem_reply
from peekrank.service.api.keys import Key
from peekrank.service.api.limits import MAX_BATCH_REPLY
from peekrank.service.api.messages import BatchActivate, BatchLine, BatchRank, BatchReply, EventReply, RankReply
from peekrank.service.api.problems import Problem
from peekrank.service.core.commands import Activate, Command, Rank, SubmitFeedback
from peekrank.service.core.slot_manager import SlotManager

_encode = msgspec.json.Encoder().encode


class _Size:
    """Size of the replies of a batch so far, in bytes."""

    total = 0


class _Line:
    """A command of a batch, which the writer runs unless the replies before it used up the limit.

    Parameters
    ----------
    command
        The command.
    size
        Size of the replies before this one. The writer runs the commands in order, and adds to it.
    """

    def __init__(self, command: Command[RankReply | EventReply], size: _Size) -> None:
        self._command, self._size = command, size

    def run(self, manager: SlotManager) -> bytes:
        """Run the command, and encode its reply. Raises a `Problem`, before anything changes, beyond the limit."""
        if self._size.total >= MAX_BATCH_REPLY:
            raise problems.batch_reply_too_large(MAX_BATCH_REPLY)
        reply = self._command.run(manager)
        line = _encode(
            BatchReply(200, reply=reply) if isinstance(reply, RankReply) else BatchReply(200, event=reply)
        )
        self._size.total += len(line)
        return line


async def run_batch(lines: list[bytes], key: Key, submit: Callable[[Command[Any]], Awaitable[Any]]) -> bytes:
    """Run the lines of a batch, and return one line of reply for each that is not empty."""
    size = _Size()

    async def run(line: bytes) -> bytes:
        """Run one line. Its failure does not affect the others."""
        try:
            reply: bytes = await submit(_Line(_command(key, decode(line, BatchLine)), size))
        except Problem as problem:
            return _encode(BatchReply(problem.status, problem=problem_reply(problem)))
        except Exception:
            return _encode(BatchReply(500, problem=problem_reply(internal_error("batch"))))
        return reply

    replies = await asyncio.gather(*(run(line) for line in lines if line.strip()))
    return b"".join(reply + b"\n" for reply in replies)


def _command(key: Key, line: Any) -> Command[RankReply | EventReply]:
    """Convert a line to a command. Raises a `Problem` if the key is not valid for its slot."""
    if isinstance(line, BatchRank):
        key.check_slot(line.slot)
        return Rank(line.slot, line.request, key.slots)
    if isinstance(line, BatchActivate):
        return Activate(line.event_id, key.slots)
    return SubmitFeedback(line.event_id, line.request, key.slots)
