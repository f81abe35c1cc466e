"""HTTP connections with limits that hold for every request, before any key is checked.

uvicorn limits neither the size of headers nor the time in which they arrive or replies are read, and it keeps a
connection whose caller still sends a body after the reply.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from peekrank.service.api.codec import encode_problem
from peekrank.service.api.limits import MAX_HEAD
from peekrank.service.api.problems import head_too_large

HEADER_SECONDS = 10.0  # time limit for the first line and the headers of each request
REPLY_SECONDS = 30.0  # time limit for the caller to take some 50 kB of a reply


class Connection(HttpToolsProtocol):
    """A connection that is closed if headers are too large or too slow, or if a reply is not read.

    It is also closed after a reply to half a request.

    The same number of bytes limits the first line and the headers of a request, and what separates and follows
    the parts of its body. `codec.read_body` limits the size and the time of the body itself.
    """

    _timer: asyncio.TimerHandle | None = None
    _reply_timer: asyncio.TimerHandle | None = None
    _reads_head = False  # whether a request has begun, and its headers are not complete
    _reads_body = False  # whether the headers are complete, and the request is not
    _received = 0  # bytes of the latest part
    _unparsed = 0  # bytes since the request began, or since the latest part of its body
    _is_too_large = False
    _keep_alive = True  # whether to keep the connection once the request is complete

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request."""
        if self.transport.is_closing():
            return
        self._received = len(data)
        self._unparsed += self._received
        super().data_received(data)
        if self._timer is None and (self._reads_head or (self._unparsed and not self._reads_body)):
            self._start_timer()
        if (self._is_too_large or self._unparsed > MAX_HEAD) and not self.transport.is_closing():
            self._reject()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._reads_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start a request, unless its headers are too large: `data_received` rejects it then."""
        self._stop_timer()
        self._reads_head = False
        if max(self._unparsed, self._received) > MAX_HEAD and self._head_size() > MAX_HEAD:
            self._is_too_large = True
            return
        self._reads_body, self._unparsed = True, 0
        super().on_headers_complete()
        self._keep_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        if self._reads_body:
            self._unparsed = 0
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request. Its connection may be kept from now on."""
        if self._reads_body:
            self._reads_body, self._unparsed = False, 0
            self.cycle.keep_alive = self._keep_alive
            super().on_message_complete()

    def shutdown(self) -> None:
        """Close the connection after the reply, because the server stops."""
        self._keep_alive = False
        super().shutdown()

    def pause_writing(self) -> None:
        """Start the time limit of a caller that does not read its reply."""
        super().pause_writing()
        self._reply_timer = self.loop.call_later(REPLY_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit, because the caller has read most of what was sent."""
        super().resume_writing()
        self._stop_reply_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limits."""
        self._stop_timer()
        self._stop_reply_timer()
        super().connection_lost(exc)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _reject(self) -> None:
        """Reply that the headers are too large, and close the connection. A reply that has begun is cut off."""
        before: Any = self.cycle
        if before is None or before.response_complete:
            reply = encode_problem(head_too_large(MAX_HEAD))
            lines = [b"HTTP/1.1 431 Request Header Fields Too Large", b"connection: close"]
            lines += [name + b": " + value for name, value in reply.raw_headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(reply.body)]))
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_reply_timer(self) -> None:
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None
