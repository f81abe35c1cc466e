"""A PostgreSQL server of the tests' own, in a temporary folder, on a socket of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def programs() -> Path:
    """Where the server's programs are; the test is skipped where there are none, unless that is forbidden."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if path := shutil.which("postgres"):
        return Path(path).parent
    if os.environ.get("PEEKRANK_POSTGRESQL") == "required":
        pytest.fail("no PostgreSQL server is installed, and PEEKRANK_POSTGRESQL=required")
    pytest.skip("no PostgreSQL server is installed")


class Server:
    """A server that listens on a socket in its folder; `stop` and `start` keep what it holds."""

    def __init__(self) -> None:
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="peekrank-postgresql-"))
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "--auth=trust", "--username=peekrank", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        """Where it can be reached."""
        return f"postgresql://peekrank@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c max_connections=50"
        self._run("pg_ctl", "start", "--wait", f"--options={options}", f"--log={self.folder}/log")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: immediately is as a crash would."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}")

    def remove(self) -> None:
        """Stop it, and delete what it holds."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        as_other = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*as_other, str(self._programs / program), f"--pgdata={self.folder}/data", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
