"""A digest of code changes with the computation, and with nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peekrank._util.code_digest import Sources, code_digest, package_sources

FILES = {
    "__init__.py": "",
    "leaf.py": '"""A leaf."""\n\n\ndef f(x):\n    """Twice."""\n    return 2 * x  # twice\n',
    "inner/__init__.py": "from . import one, two\n",
    "inner/one.py": "from ..leaf import f\n",
    "inner/two.py": "from . import helper as h\nfrom .helper import g\n",
    "inner/helper.py": "import math\n\ndef g():\n    import p.late\n    return math.pi\n",
    "late.py": "y = 1.0\n",
    "top.py": "from p.inner import one\n",
    "all.py": "import p.inner\n",
    "some.py": "from p.inner import ALL\n",
    "lazy/__init__.py": "if TYPE_CHECKING:\n    from p.leaf import f\n    from p.late import y as z\n",
    "lazy/mine.py": "",
    "versioned.py": "from p import __version__\n",
    "asks.py": "from p.lazy import mine, z\n",
    "typed.py": "if TYPE_CHECKING:\n    from p.leaf import f\nelse:\n    import p.late\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "p"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("p.leaf", ["p.leaf"]),
        ("p.inner.one", ["p.inner.one", "p.leaf"]),
        ("p.inner.two", ["p.inner.helper", "p.inner.two", "p.late"]),
        ("p.top", ["p.inner.one", "p.leaf", "p.top"]),
        ("p.lazy", ["p.lazy"]),
        ("p.versioned", ["p.versioned"]),
        ("p.asks", ["p.asks", "p.late", "p.lazy", "p.lazy.mine"]),
        ("p.typed", ["p.late", "p.typed"]),
        *(
            (f"p.{name}", sorted([f"p.{name}", "p.inner", "p.inner.helper", "p.inner.one", "p.inner.two",
                                  "p.late", "p.leaf"]))
            for name in ("all", "some")
        ),
    ],
)  # fmt: skip
def test_closure_follows_imports_of_every_form(package: Path, module: str, expected: list[str]) -> None:
    assert Sources(package).closure(module) == expected


def test_unknown_modules(package: Path) -> None:
    assert Sources(package).closure("numpy", "p.leaf") == ["p.leaf"]
    with pytest.raises(ValueError, match=r"no module 'p\.lea' in p"):
        Sources(package).closure("p.lea")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (FILES["leaf.py"].replace("# twice", "# two times"), True),
        (FILES["leaf.py"].replace("Twice.", "Two times."), True),
        (FILES["leaf.py"].replace("2 * x", "(2*x)"), True),
        ('"""A leaf."""\n\ndef f(x):\n    return 2 * x\n', True),
        (FILES["leaf.py"].replace("2 * x", "3 * x"), False),
        (FILES["leaf.py"].replace("2 * x", "2.0 * x"), False),
        (FILES["leaf.py"].replace("2 * x", "x * 2"), False),
        (FILES["leaf.py"].replace("def f", "@cache\ndef f"), False),
        (FILES["leaf.py"].replace("def f(x)", "def f(x=1)"), False),
    ],
)
def test_digest_sees_what_is_computed(package: Path, text: str, same: bool) -> None:
    before = Sources(package).digest("p.top")
    (package / "leaf.py").write_text(text)
    assert (Sources(package).digest("p.top") == before) is same


def test_digest_does_not_see_what_is_not_imported(package: Path) -> None:
    before, elsewhere = Sources(package).digest("p.top"), Sources(package).digest("p.all")
    (package / "late.py").write_text("y = 2.0\n")
    assert Sources(package).digest("p.top") == before
    assert Sources(package).digest("p.all") != elsewhere


def test_digest_is_of_the_files_as_they_were(package: Path) -> None:
    sources = Sources(package)
    before = Sources(package).digest("p.top")
    (package / "leaf.py").write_text("x = 1\n")
    assert sources.digest("p.top") == before


def test_a_fingerprint_is_of_every_byte(package: Path) -> None:
    before = Sources(package).fingerprint()
    assert Sources(package).fingerprint() == before
    (package / "leaf.py").write_text(FILES["leaf.py"].replace("# twice", "# two times"))
    assert Sources(package).fingerprint() != before


def test_nesting_is_seen(package: Path) -> None:
    """Two texts with the same words in the same order, of which one has a statement in the loop."""
    digests = set()
    for end in ("    y = x\n", "y = x\n"):
        (package / "leaf.py").write_text(f"for x in z:\n    x = 1\n{end}")
        digests.add(Sources(package).digest("p.leaf"))
    assert len(digests) == 2


def test_closure_and_enclosing_packages_are_what_python_loads() -> None:
    """The independent implementation of following imports is Python's own, in a fresh interpreter."""
    module = "peekrank.regret"
    code = f"import sys, {module}; print(*(m for m in sys.modules if m.split('.')[0] == 'peekrank'))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    found: set[str] = {module}
    while True:
        enclosing = {name.rpartition(".")[0] for name in found} - {""}
        grown = set(package_sources().closure(*found, *enclosing))
        if grown == found:
            break
        found = grown
    eager = set(loaded)
    assert eager <= found
    assert len(eager) > 10


def test_the_command_line_is_no_part_of_what_a_learner_computes() -> None:
    found = package_sources().closure("peekrank.learners.rtop1f", "peekrank.regret")
    assert "peekrank.learners._shared" in found
    assert not any(name.startswith(("peekrank.cli", "peekrank.reports", "peekrank.papers")) for name in found)
    assert "peekrank.learners.nw2.learner" not in found
    assert len(code_digest("peekrank.engine.simulation")) == 16
