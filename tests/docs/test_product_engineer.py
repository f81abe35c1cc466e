"""The product engineer's tutorial, followed from its beginning to its end as a reader would."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from helpers.command_line import peekrank
from helpers.pages import Scripts, blocks, commands, is_like
from helpers.scripts import ROOT

PAGE = ROOT / "docs" / "tutorials" / "product-engineer.md"
APP = ROOT / "examples" / "question" / "app.py"
THERE = "http://127.0.0.1:8000"  # on the page


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def until(url: str) -> httpx.Response:
    for _ in range(600):
        try:
            if (reply := httpx.get(url)).status_code == 200:
                return reply
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url} is not there after 30 s")


class Reader:
    """Somebody who follows the page, in a folder of their own; what they start runs on until they leave."""

    def __init__(self) -> None:
        self.url = THERE
        self.scripts = Scripts()
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> None:
        self.started.append(
            subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        )

    def leave(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait()

    def run(self, line: str, expected: str) -> None:
        words = shlex.split(line.replace(THERE, self.url))
        if words[:3] == ["peekrank", "serve", "service.toml"] and "--check" not in words:
            port = free_port()
            self.url = f"http://127.0.0.1:{port}"
            self.start(sys.executable, "-m", "peekrank", "serve", "service.toml", "--port", str(port))
            until(f"{self.url}/readyz")
        elif words[0] == "python":
            port = free_port()
            self.start(sys.executable, str(APP), words[2], str(port))
            self.answer(f"http://127.0.0.1:{port}/")
        else:
            printed = self.printed(words)
            assert is_like(expected, printed), f"{line}\n{printed}"

    def printed(self, words: list[str]) -> str:
        if words[0] == "curl":
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout + "\n"
        done = peekrank(*words[1:], columns=100)
        assert done.exit_code == 0, done.output
        return done.stdout

    def answer(self, url: str) -> None:
        """Look at the page that asks a question, and answer it twice, otherwise the second time."""
        page = until(url).text
        assert page.count("<li>") == 10
        event = re.search(r"value=([^>]*)>", page)
        assert event is not None
        assert "Thank you" in httpx.post(url, data={"event": event[1], "answer": "1"}).text
        assert "Not counted" in httpx.post(url, data={"event": event[1], "answer": "0"}).text
        assert httpx.get(f"{url}favicon.ico").status_code == 404

    def read(self, kind: str, content: str) -> None:
        """Do what a block of the page says."""
        if kind == "console":
            for line, expected in commands(content):
                self.run(line, expected)
        elif kind == "toml":
            edit(Path("service.toml"), content)
        elif kind == "text" and not content.startswith("$ "):
            self.scripts.told(content)
        elif kind == "python" and ">>>" not in content:
            self.scripts.run(content.replace(THERE, self.url))


def edit(file: Path, lines: str) -> None:
    """Put lines in the place of the one that begins as the first of them."""
    start = lines.partition("=")[0]
    text, done = re.subn(rf"^{start}=.*\n", lines, file.read_text(encoding="utf-8"), flags=re.M)
    assert done == 1
    file.write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.service
def test_the_tutorial_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    try:
        for kind, content in blocks(PAGE):
            reader.read(kind, content)
        assert reader.scripts.names["service"].slot("home").ranked == 1_003
    finally:
        if "service" in reader.scripts.names:
            reader.scripts.names["service"].close()
        reader.leave()
