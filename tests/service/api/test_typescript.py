"""`clients/typescript`: its types are those of the API, it compiles strictly, and it works against a service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.running import ITEMS, running
from helpers.scripts import ROOT
from peekrank import __version__
from peekrank.service.api.keys import new_key
from peekrank.service.api.openapi import openapi
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.config import Config, KeyConfig, RerankConfig, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.core.service import Service

PACKAGE = ROOT / "clients" / "typescript"
KEY, HASH = new_key("app")
ADAPTED = {  # the program of the README as a test
    '"peekrank-client"': '"../src/index.js"',
    '"http://127.0.0.1:8000"': 'process.argv[2] ?? ""',
    '"peek_app_..."': 'process.argv[3] ?? ""',
}


def missing(reason: str) -> None:
    """Skip the test, unless that is forbidden."""
    if os.environ.get("PEEKRANK_NODE") == "required":
        pytest.fail(f"{reason}, and PEEKRANK_NODE=required")
    pytest.skip(reason)


def run(folder: Path, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Node in a folder."""
    path = shutil.which(program)
    assert path is not None
    words = [path, *arguments]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def typed(folder: Path, document: dict[str, Any]) -> str:
    """Make types from a description, and return them."""
    (folder / "openapi.json").write_text(json.dumps(document))
    done = run(folder, "npm", "run", "types")
    assert done.returncode == 0, done.stderr
    return (folder / "src" / "schema.ts").read_text(encoding="utf-8")


def config(folder: Path) -> Config:
    """Two slots, one of which reranks, and a key for the app."""
    slots = (
        SlotConfig("home", learner="doubtsort", items=ITEMS, seed=1),
        SlotConfig("faq", learner="mixed", measure="dcg:gains=linear", k=2),
    )
    store = StoreConfig(path=str(folder / "peekrank.db"), synchronous="normal")
    return Config(
        slots,
        ServerConfig(port=0),
        store,
        keys=(KeyConfig("app", "admin", HASH),),
        reranks={"faq": RerankConfig()},
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package, with what it needs to be built."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("node and npm are not installed")
    folder = tmp_path_factory.mktemp("clients") / "typescript"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "openapi.json"))
    installed = run(folder, "npm", "ci", "--no-audit", "--no-fund")
    if installed.returncode:
        missing(f"npm cannot install the packages: {installed.stderr[-500:]}")
    return folder


@pytest.mark.slow
@pytest.mark.service
def test_the_client_is_up_to_date_compiles_and_works(package: Path, tmp_path: Path) -> None:
    committed = (package / "src" / "schema.ts").read_text(encoding="utf-8")
    assert typed(package, openapi()) == committed, "the API has changed: run `make typescript`"
    about = json.loads((package / "package.json").read_text())
    assert about["version"] == __version__
    assert f"peekrank-client-{__version__}.tgz" in (package / "README.md").read_text()
    readme = (package / "README.md").read_text(encoding="utf-8").partition("```ts\n")[2].partition("```")[0]
    for written, meant in ADAPTED.items():
        assert written in readme
        readme = readme.replace(written, meant)
    (package / "test" / "readme.ts").write_text(readme)
    done = run(package, "npx", "--no-install", "tsc", "--project", ".")
    assert done.returncode == 0, done.stdout
    configure_logging("critical")
    made = config(tmp_path)
    with running(Service(made), made) as one:
        with Client(one.url, KEY, retries=20) as client:
            client.slots()
        printed = run(package, "node", "dist/test/readme.js", one.url, KEY)
        minimal = run(package, "node", "dist/test/minimal.js", one.url, KEY)
        whole = run(package, "node", "--test", "dist/test/client.test.js", PEEKRANK_URL=one.url, PEEKRANK_KEY=KEY)
    assert printed.returncode == 0, printed.stderr
    assert minimal.returncode == 0, minimal.stderr
    assert json.loads(minimal.stdout)["first"] in ITEMS
    assert whole.returncode == 0, whole.stdout


@pytest.mark.slow
@pytest.mark.service
def test_a_description_with_defaults_or_gaps_does_not_compile(package: Path) -> None:
    document = json.loads(json.dumps(openapi()))
    schemas = document["components"]["schemas"]
    schemas["RankRequest"]["properties"]["event_id"]["default"] = None  # as it was described before
    schemas["SlotReply"]["required"].remove("ranked")
    typed(package, document)
    done = run(package, "npx", "--no-install", "tsc", "--project", ".", "--noEmit")
    assert "Property 'event_id' is missing" in done.stdout
    assert "'slot.ranked' is possibly 'undefined'" in done.stdout
