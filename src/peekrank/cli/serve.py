"""``peekrank serve``."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.extras import extra
from peekrank._util.text import pluralize
from peekrank.cli._options import Imports, import_all
from peekrank.cli._outputs import echo

if TYPE_CHECKING:
    from peekrank.service.config import Config

PORT = 8000

EXAMPLES = """\
# See a service learn from simulated visitors.
peekrank serve --playground
# Write a commented configuration.
peekrank serve service.toml --init
# Check it.
peekrank serve service.toml --check
# Start the service.
peekrank serve service.toml"""


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="SERVICE.toml", help="Configuration of the service.", show_default=False),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, print a summary and exit.")
    ] = False,
    init: Annotated[bool, typer.Option("--init", help="Write a commented configuration and exit.")] = False,
    playground: Annotated[
        bool,
        typer.Option("--playground", help="Run a service with simulated visitors. Needs no configuration."),
    ] = False,
    new_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Create a key, print it once and exit.")
    ] = None,
    role: Annotated[str, typer.Option(help="Role of the new key: app, reader or admin.")] = "app",
    port: Annotated[
        int | None, typer.Option(help="Listen on this port instead of the configured one. 0 picks a free port.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the dashboard of the playground in a browser.")] = True,
    log_level: Annotated[
        str,
        typer.Option(metavar="LEVEL", help="Log messages at this level and above: debug, info, warning or error."),
    ] = "info",
    imports: Imports = None,
) -> None:
    """Run a ranking service that learns from answers.

    It listens for HTTP requests, and no feedback that it acknowledged is ever lost.
    """
    _need_packages()
    import_all(imports)
    from peekrank._jit.progress import report_on_stderr
    from peekrank.service.api.structured_logging import LEVELS, configure_logging

    if log_level not in LEVELS:
        raise ValueError(f"--log-level {log_level}: must be one of {', '.join(LEVELS)}")
    if new_key is not None:
        _new_key(new_key, role)
    elif init:
        _init(file or Path("service.toml"))
    elif playground:
        configure_logging("warning" if log_level == "info" else log_level)
        report_on_stderr()
        _playground(_free(PORT) if port is None else port, browser)
    elif file is None:
        raise ValueError(
            "name a configuration, for example service.toml: --init writes one, --playground needs none"
        )
    elif check:
        _check(file)
    else:
        configure_logging(log_level)
        _serve(file, port)


def _need_packages() -> None:
    """Raise MissingExtraError with the command to run if a package of the service is not installed."""
    with extra("serve"):
        for name in ("httpx", "msgspec", "prometheus_client", "starlette", "structlog", "uvicorn"):
            import_module(name)


def _summary(config: Config) -> str:
    lines = [f"store        {'PostgreSQL' if config.store.url else config.store.path}"]
    lines += [f"listens on   {config.server.host}, port {config.server.port}"]
    lines += [f"keys         {', '.join(f'{key.name} ({key.role})' for key in config.keys) or 'none'}"]
    for slot in config.slots:
        what = pluralize(len(slot.items), "item") if slot.items else "lists"
        learner = slot.learner if slot.compare is None else " against ".join(slot.compare.names)
        lines.append(f"slot         {slot.name}: {learner}, {slot.measure}, k = {slot.k}, {what}")
    return "\n".join(lines)


def _check(file: Path) -> None:
    from peekrank.service.api.keys import check_bind, keys_from_config
    from peekrank.service.config import read_config

    config = read_config(file)
    check_bind(config.server.host, keys_from_config(config))
    echo(Text(_summary(config)))


def _init(file: Path) -> None:
    from peekrank.service.config.reference import example

    if file.exists():
        raise ValueError(f"{file} already exists. Delete it first, or choose another name")
    file.write_text(example(), encoding="utf-8")
    echo(Text(f"Wrote {file}. Edit it, then run: peekrank serve {file} --check"))


def _new_key(name: str, role: str) -> None:
    from peekrank.service.api.keys import Key, Keys, new_key

    key, digest = new_key(name)
    Keys([Key(name, role, digest)])  # type: ignore[arg-type] # raises ValueError for an unknown role
    echo(
        Text("Key for the caller. It is shown only once and not stored:"),
        Text(f"  {key}"),
        Text("Add this to the service's configuration:"),
        Text(f'  [[keys]]\n  name = "{name}"\n  role = "{role}"\n  hash = "{digest}"'),
    )


def _serve(file: Path, port: int | None) -> None:
    from dataclasses import replace

    from peekrank.service.api.server import HttpServer
    from peekrank.service.config import read_config
    from peekrank.service.core.service import Service

    def read() -> Config:
        config = read_config(file)
        return config if port is None else replace(config, server=replace(config.server, port=port))

    config = read()
    server = HttpServer(Service(config), config, reload=read)
    echo(Text(f"Service and dashboard: {server.url}/ (press Ctrl-C to stop)"))
    server.run()


def _playground(port: int, browser: bool) -> None:
    from peekrank.service.api.server import HttpServer
    from peekrank.service.core.service import Service
    from peekrank.service.playground import BANNER, SLOT, Visitors, fast_clock, playground_config

    with tempfile.TemporaryDirectory(prefix="peekrank-playground-") as folder:
        clock, config = fast_clock(), playground_config(Path(folder), port)
        service = Service(config, clock=clock)
        server = HttpServer(service, config, clock=clock, banner=BANNER)
        visitors = Visitors(service, clock)
        dashboard = f"{server.url}/dashboard/{SLOT}"
        echo(BANNER, Text(f"Dashboard: {dashboard} (press Ctrl-C to stop)"))
        visitors.start()
        if browser and _has_screen():
            webbrowser.open(dashboard)
        try:
            server.run()
        finally:
            visitors.stop()


def _free(port: int) -> int:
    """Return the port, or 0 (any free port) if it is in use."""
    with socket.socket() as probe:
        return port if probe.connect_ex(("127.0.0.1", port)) else 0


def _has_screen() -> bool:
    """Check for a graphical screen. A text browser would take over the terminal."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
