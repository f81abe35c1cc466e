"""Files for deployment: what can be said of them without a network, a daemon or a root."""

from __future__ import annotations

import configparser
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from helpers.command_line import peekrank
from helpers.scripts import ROOT
from peekrank.cli.app import COMMANDS

DEPLOY = ROOT / "deploy"


def unit() -> configparser.RawConfigParser:
    class Names(configparser.RawConfigParser):
        def optionxform(self, optionstr: str) -> str:
            return optionstr

    parser = Names(delimiters=("=",), strict=True)
    parser.read(DEPLOY / "peekrank.service", encoding="utf-8")
    return parser


def test_the_configuration_of_the_containers_is_right() -> None:
    said = peekrank("serve", DEPLOY / "service.toml", "--check").stdout
    assert "PostgreSQL" in said
    assert "0.0.0.0, port 8000" in said


def test_the_unit_starts_what_there_is_and_keeps_to_its_folders() -> None:
    service = unit()["Service"]
    words = shlex.split(service["ExecStart"])
    assert words == ["/opt/peekrank/bin/peekrank", "serve", "/etc/peekrank/service.toml"]
    assert shlex.split(service["ExecStartPre"]) == [*words, "--check"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["StateDirectory"] == service["CacheDirectory"] == "peekrank"
    assert service["Environment"] == "NUMBA_CACHE_DIR=/var/cache/peekrank"
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert "MemoryDenyWriteExecute" not in service  # kernels are compiled


def test_systemd_finds_nothing_wrong_with_the_unit() -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    words = [analyze, "verify", str(DEPLOY / "peekrank.service")]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stderr.splitlines()
    complaints = [line for line in said if "peekrank.service" in line and "is not executable" not in line]
    assert complaints == []


def test_files_that_the_containers_need_are_there() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"postgresql", "first", "second"}
    for name in ("first", "second"):
        build = services[name]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
        for volume in services[name]["volumes"]:
            assert (DEPLOY / volume.partition(":")[0]).is_file()
        assert services[name]["depends_on"] == {"postgresql": {"condition": "service_healthy"}}
    assert services["first"]["ports"] != services["second"]["ports"]
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    for source in re.findall(r"^COPY (?!--from)(\S+)", lines, flags=re.M):
        assert (ROOT / source).exists()


def test_the_pins_of_the_image_are_those_that_are_tested(tmp_path: Path) -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    command = re.search(r"^RUN (sed .*?) /source/(\S+) > ", lines, flags=re.M)
    assert command is not None
    words = [*shlex.split(command[1]), str(ROOT / command[2])]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    pins = [Requirement(line.strip()) for line in said.splitlines()]
    names = {pin.name for pin in pins}
    assert {"starlette", "uvicorn", "msgspec", "httpx", "psycopg", "numba", "numpy"} <= names
    assert not any(pin.extras for pin in pins)


def test_the_image_runs_commands_that_exist() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    names = re.findall(r'^(?:RUN |CMD \[")peekrank[", ]+([a-z-]+)', lines, flags=re.M)
    assert names == ["precompile", "serve"]
    assert set(names) <= set(COMMANDS)


def test_the_image_is_built_from_debian_and_its_commands_are_whole() -> None:
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    assert re.findall(r"^(?:ARG BASE=|FROM )(\S+)", lines, flags=re.M) == [
        "debian:trixie-slim",
        "$BASE",
        "python",
        "python",
    ]
    commands = re.findall(r"^RUN (.*)$", lines, flags=re.M)
    assert "python3-venv" in commands[0]
    for command in commands:
        words = [shutil.which("sh") or "sh", "-n", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_script_that_compiles_for_the_image_runs() -> None:
    runpy.run_path(str(DEPLOY / "precompile.py"))
