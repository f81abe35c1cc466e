"""Change the sources in small ways, one at a time and in a copy, and count the changes that tests notice.

    python scripts/mutants.py [--mutants 60] [--seed 0] [MODULE ...]

A mutant has one operator, constant or statement of a module changed: ``<`` becomes ``<=``, ``+`` becomes ``-``, 3
becomes 4, a statement is dropped. It is killed if a test of its module fails: a test in the file of the same name,
of the same folder, or one of the module's own doctests. Those that survive are printed: each is a hole in the
tests, or a change that makes no difference. The same seed gives the same mutants of the same sources.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src", "peekrank")
# Slow to test; with nothing to change; or with signals and files that a mutant must not send or remove
LEFT_OUT = ("cli", "papers", "reports", "jobs", "__main__.py", "types.py", "_util/atomic.py", "_util/signals.py")
ELSEWHERE = {  # tests that do not stand where the module does
    "checks/common.py": "tests/measures/test_every_measure.py",
    "checks/learners": "tests/learners/test_every_learner.py",
    "checks/measures.py": "tests/measures/test_every_measure.py",
    "checks/streams.py": "tests/streams/test_every_stream.py",
    "checks/surrogates.py": "tests/surrogates/test_every_surrogate.py",
}
WIDTH = 90  # of what is shown of a change
MADE = ("results", "site", "dist", "peekrank-demo")  # folders that commands make
QUICK = "not slow and not browser and not ray"
LONGER = 10  # times as long as the tests take, and a test hangs
AT_LEAST = 120.0  # seconds: a mutant may have to compile what the original found in the cache

_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A module with one change: location, old text, new text, and the whole module."""

    module: Path
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.module.relative_to(PACKAGE)}:{self.line}: {self.before}  ->  {self.after}"


class Site(NamedTuple):
    """A possible change of a module: the number of the node, and of the change."""

    node: int
    change: int


def sites_of(source: str) -> list[Site]:
    """List all possible changes of a module."""
    tree = ast.parse(source)
    parents = _parents(tree)
    return [
        Site(number, change)
        for number, node in enumerate(ast.walk(tree))
        if not any(_said(above, node) for above in _upwards(node, parents))
        for change in range(_changes(node))
    ]


def mutant_at(module: Path, source: str, site: Site) -> Mutant:
    r"""Make the mutant of a module with this change.

    >>> source = "def f(x):\n    return x < 3"
    >>> for site in sites_of(source):
    ...     print(mutant_at(PACKAGE / "m.py", source, site))
    m.py:2: x < 3  ->  x <= 3
    m.py:2: x < 3  ->  x < 4
    """
    tree = ast.parse(source)
    parents, node = _parents(tree), list(ast.walk(tree))[site.node]
    shown = parents[node] if isinstance(node, ast.Constant | ast.UnaryOp) else node
    before = ast.unparse(shown)
    _change(node, site.change, parents)
    after = ast.unparse(shown) if shown in ast.walk(tree) else "pass"
    line = next(above.lineno for above in _upwards(node, parents) if isinstance(above, ast.expr | ast.stmt))
    return Mutant(module, line, _short(before), _short(after), ast.unparse(tree))


def _short(text: str) -> str:
    first = text.splitlines()[0]
    return first if first == text and len(first) <= WIDTH else f"{first[:WIDTH]} ..."


def _parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}


def _upwards(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        yield node
        node = parents[node]


def _said(above: ast.AST, position: ast.AST) -> bool:
    """Return whether a node is in an annotation, a decorator or an error message, which are not executed."""
    if isinstance(above, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(above, ast.If) and ast.unparse(above.test) == "TYPE_CHECKING":
        return True
    noted = [getattr(above, "annotation", None), getattr(above, "returns", None)]
    noted += getattr(above, "decorator_list", [])
    return any(note is not None and any(part is position for part in ast.walk(note)) for note in noted)


def _changes(node: ast.AST) -> int:
    """Count the possible changes of a node."""
    if isinstance(node, ast.Compare):
        return int(type(node.ops[0]) in _OPERATORS)
    if isinstance(node, ast.BinOp | ast.BoolOp):
        return int(type(node.op) in _OPERATORS)
    if isinstance(node, ast.AugAssign):
        return 1 + int(type(node.op) in _OPERATORS)
    if isinstance(node, ast.UnaryOp):
        return int(isinstance(node.op, ast.Not))
    if isinstance(node, ast.Constant):
        return int(isinstance(node.value, int | float))
    if isinstance(node, ast.Assign):
        return int(isinstance(node.targets[0], ast.Subscript | ast.Attribute))
    return int(isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))


def _change(node: Any, change: int, parents: dict[ast.AST, ast.AST]) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = _OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp) or (isinstance(node, ast.AugAssign) and change == 1):
        node.op = _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        value: Any = node.value
        node.value = not value if isinstance(value, bool) else value + 1
    elif isinstance(node, ast.UnaryOp):
        _replace(node, node.operand, parents)
    else:
        _replace(node, ast.Pass(), parents)


def _replace(node: ast.AST, new: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
    for name, value in ast.iter_fields(parents[node]):
        if value is node:
            setattr(parents[node], name, new)
        elif isinstance(value, list) and node in value:
            value[value.index(node)] = new


def what_tests(module: Path) -> list[list[str]]:
    """List the tests of a module: doctests, tests with its name or its folder's, then all of its folder."""
    inside = module.relative_to(PACKAGE)
    folder, name = Path("tests") / inside.parent, inside.stem.strip("_")
    own = folder / f"test_{name if name != 'init' else inside.parent.name}.py"
    of_folder = folder.parent / f"test_{inside.parent.name.strip('_')}.py"
    elsewhere = [ELSEWHERE[part.as_posix()] for part in (inside, inside.parent) if part.as_posix() in ELSEWHERE]
    near = [*elsewhere, str(own), str(of_folder), str(module)]
    whole = [[str(folder)]] if inside.parent != Path() and (ROOT / folder).is_dir() else []
    return [[path for path in near if (ROOT / path).exists()], *whole]


class Copy:
    """A copy of the project in which one module at a time is replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._limits: dict[tuple[str, ...], float] = {}
        for path in ROOT.iterdir():
            if path.is_dir() and not path.name.startswith((".", *MADE)):
                shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.is_file():
                shutil.copy(path, folder)

    def passes(self, tests: list[str], seconds: float) -> bool:
        """Return whether these tests pass in time."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", QUICK, *tests]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with subprocess.Popen(  # noqa: S603 - the tests of this project
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            try:
                return running.wait(seconds) in (0, 5)  # 5: there is none
            except subprocess.TimeoutExpired:
                running.kill()
                return False

    def kills(self, mutant: Mutant) -> bool:
        """Return whether a test of its module fails for a mutant. Raises RuntimeError if one fails without it."""
        return any(self._fails(mutant, tests) for tests in what_tests(mutant.module))

    def _fails(self, mutant: Mutant, tests: list[str]) -> bool:
        limit = self._limit(tests)
        position = self.folder / mutant.module
        original = position.read_text(encoding="utf-8")
        position.write_text(mutant.text, encoding="utf-8")
        try:
            return not self.passes(tests, limit)
        finally:
            position.write_text(original, encoding="utf-8")

    def _limit(self, tests: list[str]) -> float:
        """Return how many seconds these tests may take: a multiple of what they take without a mutant."""
        if tuple(tests) not in self._limits:
            begun = time.monotonic()
            if not self.passes(tests, float("inf")):
                raise RuntimeError(f"{' '.join(tests)}: tests fail without a mutant")
            self._limits[tuple(tests)] = max(AT_LEAST, LONGER * (time.monotonic() - begun))
        return self._limits[tuple(tests)]


def chosen(modules: list[Path], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, equally many of each module if possible."""
    rng = random.Random(seed)  # noqa: S311
    sources = {module: (ROOT / module).read_text(encoding="utf-8") for module in modules}
    piles = [[(module, site) for site in sites_of(source)] for module, source in sources.items()]
    for pile in piles:
        rng.shuffle(pile)
    rng.shuffle(piles)
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    return [mutant_at(module, sources[module], site) for module, site in sorted(turns[:count])]


def _modules(named: list[str]) -> list[Path]:
    found = [path.relative_to(ROOT) for path in sorted((ROOT / PACKAGE).rglob("*.py"))]
    if named:
        return [path for path in found if any(str(path.relative_to(PACKAGE)).startswith(name) for name in named)]
    return [path for path in found if not str(path.relative_to(PACKAGE)).startswith(LEFT_OUT)]


def main() -> int:
    """Test mutants, and print the survivors and their share."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="learners/rtop1f.py, kernels ...; all but a few"
    )
    parser.add_argument("--mutants", type=int, default=60, help="how many to try")
    parser.add_argument("--seed", type=int, default=0, help="which")
    options = parser.parse_args()
    tried = chosen(_modules(options.modules), options.mutants, options.seed)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        there = Copy(Path(folder))
        for mutant in tried:
            if there.kills(mutant):
                killed += 1
            else:
                print(f"survives: {mutant}", flush=True)  # noqa: T201
    print(f"{killed} of {len(tried)} mutants killed ({killed / max(1, len(tried)):.0%})")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
