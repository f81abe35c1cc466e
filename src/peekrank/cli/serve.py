"""``peekrank serve``."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._options import Imports, import_all
from peekrank.cli._outputs import echo

if TYPE_CHECKING:
    from peekrank.service.config import Config

PORT = 8000

EXAMPLES = """\
# See a service learn from simulated visitors.
peekrank serve --playground
# Write a file to begin with.
peekrank serve service.toml --init
# Check it.
peekrank serve service.toml --check
# Serve.
peekrank serve service.toml"""


def command(
    file: Annotated[
        Path | None, typer.Argument(metavar="SERVICE.toml", help="Describes the service.", show_default=False)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Read the file, say what it describes, and end.")] = False,
    init: Annotated[bool, typer.Option("--init", help="Write a commented file to begin with, and end.")] = False,
    playground: Annotated[
        bool,
        typer.Option("--playground", help="Show a service that learns from simulated visitors; needs no file."),
    ] = False,
    new_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make a key for callers, print it once, and end.")
    ] = None,
    role: Annotated[str, typer.Option(help="What a new key may do: app, reader or admin.")] = "app",
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, instead of the one in the file; 0 takes a free one.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Whether the playground opens the board.")] = True,
    log: Annotated[
        str, typer.Option(metavar="LEVEL", help="What is logged: debug, info, warning or error.")
    ] = "info",
    imports: Imports = None,
) -> None:
    """Run a ranking service over HTTP that learns from answers; none that it confirmed is ever lost."""
    _need_packages()
    import_all(imports)
    from peekrank._jit.progress import report_on_stderr
    from peekrank.service.logs import LEVELS, start_logs

    if log not in LEVELS:
        raise ValueError(f"--log {log}: must be one of {', '.join(LEVELS)}")
    if new_key is not None:
        _new_key(new_key, role)
    elif init:
        _init(file or Path("service.toml"))
    elif playground:
        start_logs("warning" if log == "info" else log)
        report_on_stderr()
        _playground(_free(PORT) if port is None else port, browser)
    elif file is None:
        raise ValueError("name a file, such as service.toml; --init writes one, --playground needs none")
    elif check:
        _check(file)
    else:
        start_logs(log)
        _serve(file, port)


def _need_packages() -> None:
    """Say what to install where the packages of a service are missing."""
    from importlib.util import find_spec

    missing = [name for name in ("httpx", "msgspec", "prometheus_client", "starlette", "structlog", "uvicorn")
               if find_spec(name) is None]  # fmt: skip
    if missing:
        raise ValueError(f"a service needs further packages ({', '.join(missing)}): pip install 'peekrank[serve]'")


def _described(config: Config) -> str:
    lines = [f"store        {'PostgreSQL' if config.store.url else config.store.path}"]
    lines += [f"listens on   {config.server.host}, port {config.server.port}"]
    lines += [f"keys         {', '.join(f'{key.name} ({key.role})' for key in config.keys) or 'none'}"]
    for slot in config.slots:
        what = pluralize(len(slot.items), "item") if slot.items else "lists"
        lines.append(f"slot         {slot.name}: {slot.learner}, {slot.measure}, k = {slot.k}, {what}")
    return "\n".join(lines)


def _check(file: Path) -> None:
    from peekrank.service.config import read_config
    from peekrank.service.keys import check_bind, keys_of

    config = read_config(file)
    check_bind(config.server.host, keys_of(config))
    echo(Text(_described(config)))


def _init(file: Path) -> None:
    from peekrank.service.reference import example

    if file.exists():
        raise ValueError(f"{file} is there already: it is not overwritten")
    file.write_text(example(), encoding="utf-8")
    echo(Text(f"Wrote {file}. Change it, then: peekrank serve {file} --check, and: peekrank serve {file}"))


def _new_key(name: str, role: str) -> None:
    from peekrank.service.keys import Key, Keys, new_key

    key, kept = new_key(name)
    Keys([Key(name, role, kept)])  # type: ignore[arg-type] # checked there
    echo(
        Text("The key, for whoever calls. It is shown this once, and kept nowhere:"),
        Text(f"  {key}"),
        Text("What belongs into the service's file:"),
        Text(f'  [[keys]]\n  name = "{name}"\n  role = "{role}"\n  hash = "{kept}"'),
    )


def _serve(file: Path, port: int | None) -> None:
    from dataclasses import replace

    from peekrank.service.config import read_config
    from peekrank.service.server import Running
    from peekrank.service.service import Service

    config = read_config(file)
    if port is not None:
        config = replace(config, server=replace(config.server, port=port))
    running = Running(Service(config), config)
    echo(Text(f"Service and board: {running.url}/ (Ctrl-C ends it)"))
    running.run()


def _playground(port: int, browser: bool) -> None:
    from peekrank.service.playground import NOTICE, SLOT, Visitors, fast_clock, playground_config
    from peekrank.service.server import Running
    from peekrank.service.service import Service

    with tempfile.TemporaryDirectory(prefix="peekrank-playground-") as folder:
        clock, config = fast_clock(), playground_config(Path(folder), port)
        service = Service(config, clock=clock)
        running = Running(service, config, clock=clock, notice=NOTICE)
        visitors = Visitors(service, clock)
        board = f"{running.url}/board/{SLOT}"
        echo(NOTICE, Text(f"Board: {board} (Ctrl-C ends it)"))
        visitors.start()
        if browser and _has_screen():
            webbrowser.open(board)
        try:
            running.run()
        finally:
            visitors.stop()


def _free(port: int) -> int:
    """The port, or 0, which means any that is free, where somebody listens on it already."""
    with socket.socket() as tried:
        return port if tried.connect_ex(("127.0.0.1", port)) else 0


def _has_screen() -> bool:
    """Whether there is a screen to open a page on; a browser for terminals would take this one over."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
