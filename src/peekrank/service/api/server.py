"""The HTTP server of a service: one process, alive at once, ready once the log is read, stopped without loss."""

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

from peekrank.service.api.connection import Connection
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import check_bind, is_loopback
from peekrank.service.api.middleware import ServiceMiddleware
from peekrank.service.api.reload import Reloader
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import Config, read_config
from peekrank.service.core.service import Service

IDLE_SECONDS = 75.0  # how long an idle connection is kept
STOP_SECONDS = 10  # how long running calls may take when the service stops
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_log = structlog.get_logger()


class _Server(uvicorn.Server):
    """A server that returns after a signal, so that the service can close its log. SIGHUP may reload instead."""

    on_hangup: Callable[[], None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        if self.on_hangup is not None and hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._handle_hangup)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _handle_hangup(self, *_: object) -> None:
        if self.on_hangup is not None:  # in a thread, because it waits for the writer
            threading.Thread(target=self.on_hangup, name="reload", daemon=True).start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _log.info("stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)


class HttpServer:
    """A service and its HTTP server. `run` returns after a stop, once everything is written.

    Parameters
    ----------
    service
        The service. The server starts it in the background, and closes it after the last call.
    config
        The address to listen on, and the keys.
    reload
        Reads the configuration again, for SIGHUP and the call that reloads. None if it is from no file.
    clock
        The service's time, for the dashboard.
    banner
        Text at the top of every page of the dashboard.
    """

    def __init__(
        self,
        service: Service,
        config: Config,
        *,
        reload: Callable[[], Config] | None = None,
        clock: Callable[[], float] = time.time,
        banner: str = "",
    ) -> None:
        reloader = Reloader(service, reload)
        keys = reloader.keys
        check_bind(config.server.host, keys)
        self._socket = _listen(config.server.host, config.server.port)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
        self.url = f"http://{host}:{self.port}"
        self._failure: BaseException | None = None
        app = application(
            service,
            reloader=reloader,
            reranks=config.reranks,
            hosts=_LOCAL_HOSTS if not keys and is_loopback(config.server.host) else frozenset(),
            lifespan=lifespan(service, self._fail),
            clock=clock,
            banner=banner,
        )
        self._server = _Server(_settings(app))
        if reload is not None:
            self._server.on_hangup = reloader.reload_quietly

    def run(self) -> None:
        """Serve until a signal or `stop`. Raises the error if the service cannot start."""
        _log.info("listening", url=self.url)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
        if self._failure is not None:
            raise self._failure
        _log.info("stopped")

    def stop(self) -> None:
        """Make `run` return. May be called from any thread."""
        self._server.should_exit = True

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self.stop()


def lifespan(
    service: Service, on_failure: Callable[[BaseException], None]
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Start a service in the background when the server starts, and close it when the server stops."""

    def start() -> None:
        try:
            service.start()
        except BaseException as error:
            _log.error("start failed", reason=str(error))
            on_failure(error)
        else:
            if reason := service.unready_reason():
                _log.info("not ready", reason=reason)
            else:
                _log.info("ready")

    @asynccontextmanager
    async def around(_: Starlette) -> AsyncIterator[None]:
        starter = threading.Thread(target=start, name="start", daemon=True)
        starter.start()
        yield
        await asyncio.to_thread(starter.join, STOP_SECONDS)  # an interrupted replay changes nothing
        await asyncio.to_thread(service.close)

    return around


def _settings(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=Connection,
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
    """Build the application for your own server: ``uvicorn --factory peekrank.service.api.server:app``.

    The environment variable PEEKRANK_SERVICE names the configuration.
    """
    if multiprocessing.parent_process() is not None:
        raise ValueError(
            "a service runs in one process: several workers would compete for its log. Start one worker. It "
            "answers thousands of calls per second"
        )
    path = os.environ.get("PEEKRANK_SERVICE")
    if path is None:
        raise ValueError(
            "set the environment variable PEEKRANK_SERVICE to a configuration, for example service.toml"
        )
    config = read_config(path)
    configure_logging()
    service = Service(config)
    return application(
        service,
        reloader=Reloader(service, lambda: read_config(path)),
        reranks=config.reranks,
        lifespan=lifespan(service, lambda _: None),
    )
