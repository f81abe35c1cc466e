"""Digests of the code that a result depends on.

Modules are parsed, not imported, and followed through their imports. Comments, docstrings and layout do not count,
because they cannot change a result.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


class Sources:
    """Snapshot of the source files of a package.

    Parameters
    ----------
    package
        The folder of the package, named like the package.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in {"a": "from p import b", "b": "x = 1  # one", "c": "from p.a import y"}.items():
    ...         (Path(folder) / "p").mkdir(exist_ok=True)
    ...         _ = (Path(folder) / "p" / f"{name}.py").write_text(text)
    ...     Sources(Path(folder) / "p").closure("p.a")
    ['p.a', 'p.b']
    """

    def __init__(self, package: Path) -> None:
        self._package = package.name
        self._files = {_module(package, path): path for path in sorted(package.rglob("*.py"))}
        self._content = {name: path.read_bytes() for name, path in self._files.items()}
        self._trees: dict[str, ast.Module] = {}
        self._digests: dict[str, str] = {}

    def closure(self, *modules: str) -> list[str]:
        """Return these modules and all modules of the package that they import, directly or indirectly.

        The name of a package stands for its ``__init__``. Modules outside this package are skipped. Raises
        ValueError if a module inside it does not exist.
        """
        reached: set[str] = set()
        left = [name for name in modules if self._inside(name)]
        for name in left:
            if name not in self._files:
                raise ValueError(f"no module '{name}' in {self._package}")
        while left:
            name = left.pop()
            if name not in reached:
                reached.add(name)
                left += self._imported(name)
        return sorted(reached)

    def digest(self, *modules: str) -> str:
        """Return the digest of these modules and of all they import."""
        whole = hashlib.sha256()
        for name in self.closure(*modules):
            whole.update(f"{name}\0{self._digest(name)}\0".encode())
        return whole.hexdigest()[:16]

    def fingerprint(self) -> str:
        """Return the digest of every source file, including comments."""
        whole = hashlib.sha256()
        for name, content in self._content.items():
            whole.update(f"{name}\0{len(content)}\0".encode() + content)
        return whole.hexdigest()[:16]

    def _inside(self, name: str) -> bool:
        return name == self._package or name.startswith(f"{self._package}.")

    def _tree(self, name: str) -> ast.Module:
        if name not in self._trees:
            self._trees[name] = ast.parse(self._content[name], str(self._files[name]))
        return self._trees[name]

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = _digest(self._tree(name))
        return self._digests[name]

    def _imported(self, name: str) -> set[str]:
        """Return the modules of the package that a module imports.

        A parent package counts only if something is imported from it: although the ``__init__`` of a package of
        learners imports all of them, no learner depends on the others. Imports for type checkers are never
        executed and do not count, and neither does the package's version.
        """
        imports = set()
        for node in _executed(self._tree(name)):
            if isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(name, node)
                lazy = self._lazy(base)
                for alias in node.names:
                    if alias.name == "__version__":
                        continue
                    member = f"{base}.{alias.name}"
                    imports |= {member} if member in self._files else {base, lazy.get(alias.name, base)}
        return imports & self._files.keys()

    def _lazy(self, name: str) -> dict[str, str]:
        """Return the names that a package imports on first use, with modules, from its TYPE_CHECKING block."""
        if name not in self._files:
            return {}
        blocks = [node for node in self._tree(name).body if _is_for_type_checkers(node)]
        nodes = [node for block in blocks for node in ast.walk(block) if isinstance(node, ast.ImportFrom)]
        return {alias.asname or alias.name: self._base(name, node) for node in nodes for alias in node.names}

    def _base(self, name: str, node: ast.ImportFrom) -> str:
        """Return the module that names are imported from, with leading dots resolved."""
        if not node.level:
            return node.module or ""
        is_package = self._files[name].name == "__init__.py"
        above = name.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
        return ".".join([*above, *([node.module] if node.module else [])])


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a tree in any order, except those below ``if TYPE_CHECKING:``."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.If) and _is_for_type_checkers(node):
            left += node.orelse
        elif not isinstance(node, ast.expr):  # an expression holds no import
            left += ast.iter_child_nodes(node)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _module(package: Path, path: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def text_digest(code: str | bytes) -> str:
    """Return the digest of the text of one module, without comments and layout.

    >>> text_digest("x = 1  # one") == text_digest("x=1")
    True
    """
    return _digest(ast.parse(code))[:16]


def _digest(tree: ast.Module) -> str:
    parts: list[str] = []
    _write(tree, parts)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _write(node: ast.AST, parts: list[str]) -> None:
    """Write a tree in a form that is the same for all versions of Python, without docstrings and empty fields."""
    parts.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, ast.AST):
                if not _is_text(part):
                    parts.append(name)
                    _write(part, parts)
            elif part is not None and name != "kind":
                parts.append(f"{name}={part!r}")
    parts.append(".")


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is only a string, as a docstring is."""
    return (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


@cache
def package_sources() -> Sources:
    """Return the sources of this package, as they were at the first call."""
    return Sources(_PACKAGE)


@cache
def code_digest(*modules: str) -> str:
    """Return the digest of modules of this package and of all they import.

    >>> code_digest("peekrank.regret") == code_digest("peekrank.regret", "peekrank.types")
    True
    """
    return package_sources().digest(*modules)
