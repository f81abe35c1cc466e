"""The package as others see it: its public names, and its version."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import peekrank
from helpers.scripts import ROOT, load_script
from peekrank import registry

STUB = load_script("stub")


@pytest.mark.parametrize("kind", registry.KINDS, ids=lambda kind: kind.kind)
def test_every_registered_class_can_be_imported_from_the_package(kind: registry.Registry) -> None:
    own = import_module(kind.group)  # peekrank.learners, ...
    for name in kind.built_in:
        cls = kind[name]
        assert getattr(peekrank, cls.__name__) is cls
        assert cls.__name__ in peekrank.__all__
        assert getattr(own, cls.__name__) is cls, f"{cls.__name__} is missing in {own.__file__}"


def test_every_check_can_be_imported_from_the_package() -> None:
    from peekrank import checks

    every = [name for name in checks.__all__ if name.startswith("check_")]
    assert every
    assert set(every) <= set(peekrank.__all__)


def test_every_public_name_is_there_and_names_one_thing() -> None:
    assert len(set(peekrank.__all__)) == len(peekrank.__all__)
    classes = [address.partition(":")[2] for kind in registry.KINDS for address in kind.built_in.values()]
    named = [name for names in vars(peekrank)["_HOMES"].values() for name in names]
    assert sorted([*classes, *named, "__version__"]) == sorted(peekrank.__all__)
    assert set(peekrank.__all__) <= set(dir(peekrank))
    for name in peekrank.__all__:
        assert getattr(peekrank, name) is not None


def test_the_stub_is_up_to_date() -> None:
    assert STUB.STUB.read_text(encoding="utf-8") == STUB.stub(), "make stub writes it anew"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'peekrank' has no attribute 'Ranker'"):
        getattr(peekrank, "Ranker")  # noqa: B009


def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import peekrank, sys; peekrank.__version__; print([n for n in sys.modules if n.startswith('peekrank.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_in_one_position() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert ROOT / project["tool"]["hatch"]["version"]["path"] == Path(peekrank.__file__ or "")


def test_pages_name_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {peekrank.__version__}" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    newest = next(line for line in changes if line.startswith("## "))
    assert newest.startswith(f"## {peekrank.__version__} - ")
