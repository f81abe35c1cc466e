"""A service behind a server: one process, started at once, ready after the log is read, stopped without a loss."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import check_bind, is_loopback, keys_from_config
from peekrank.service.api.middleware import ServiceMiddleware
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import Config, read_config
from peekrank.service.core.service import Service

HEADER_SECONDS = 10.0  # that a caller may take to send its first header
IDLE_SECONDS = 75.0  # that a connection is kept between two calls
STOP_SECONDS = 10  # that calls have to end when the service stops
_HERE = frozenset({"localhost", "127.0.0.1", "[::1]"})
_log = structlog.get_logger()


class _Patient(HttpToolsProtocol):
    """A connection that is closed if nothing is asked on it: whoever holds one open must not fill the table."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEADER_SECONDS, transport.close)

    def on_headers_complete(self) -> None:
        self._calm()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server that stops at a signal and then returns, so that the log is closed in peace."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _log.info("stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)


class HttpServer:
    """A service and its server: `run` returns when it was told to stop, and everything is written.

    Parameters
    ----------
    service
        What is served. It is started here, beside the server, and closed after the last call.
    config
        Where to listen, and who may call.
    clock
        The service's time, for the board.
    banner
        What stands above every page of the board.
    """

    def __init__(
        self, service: Service, config: Config, *, clock: Callable[[], float] = time.time, banner: str = ""
    ) -> None:
        keys = keys_from_config(config)
        check_bind(config.server.host, keys)
        self._socket = _listen(config.server.host, config.server.port)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
        self.url = f"http://{host}:{self.port}"
        self._failure: BaseException | None = None
        app = application(
            service,
            keys,
            hosts=_HERE if not keys and is_loopback(config.server.host) else frozenset(),
            lifespan=lifespan(service, self._failed),
            clock=clock,
            banner=banner,
        )
        self._server = _Server(_settings(app))

    def run(self) -> None:
        """Serve until a signal or `stop`; a failure to start is raised."""
        _log.info("listening", url=self.url)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
        if self._failure is not None:
            raise self._failure
        _log.info("stopped")

    def stop(self) -> None:
        """Have `run` return, from any thread."""
        self._server.should_exit = True

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        self.stop()


def lifespan(
    service: Service, failed: Callable[[BaseException], None]
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Start a service beside the server, which is not ready until the log is read, and close it afterwards."""

    def start() -> None:
        try:
            service.start()
        except BaseException as error:
            _log.error("the service cannot start", reason=str(error))
            failed(error)
        else:
            _log.info("ready")

    @asynccontextmanager
    async def around(_: Starlette) -> AsyncIterator[None]:
        starter = threading.Thread(target=start, name="start", daemon=True)
        starter.start()
        yield
        await asyncio.to_thread(starter.join, STOP_SECONDS)  # what is read of the log by then changes nothing
        await asyncio.to_thread(service.close)

    return around


def _settings(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=_Patient,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def app() -> ServiceMiddleware:
    """The application for a server of one's own, such as ``uvicorn --factory peekrank.service.api.server:app``.

    Reads the configuration that the environment variable PEEKRANK_SERVICE names.
    """
    if multiprocessing.parent_process() is not None:
        raise ValueError(
            "a service runs in one process: several workers would each keep a log of their own, and learn from a "
            "part of the answers. Start one worker; it answers thousands of calls per second"
        )
    path = os.environ.get("PEEKRANK_SERVICE")
    if path is None:
        raise ValueError(
            "the environment variable PEEKRANK_SERVICE must name a configuration, such as service.toml"
        )
    config = read_config(path)
    configure_logging()
    service = Service(config)
    return application(service, keys_from_config(config), lifespan=lifespan(service, lambda _: None))
