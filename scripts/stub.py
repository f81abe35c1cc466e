"""Write src/peekrank/__init__.pyi: the public names as editors and type checkers see them."""

from __future__ import annotations

from pathlib import Path

import peekrank

STUB = Path(__file__).parents[1] / "src" / "peekrank" / "__init__.pyi"


def stub() -> str:
    """Return the imports in ruff's order, and `__all__`."""
    homes: dict[str, str] = vars(peekrank)["_addresses"]()
    imports = sorted((module, _rank(name), name) for name, module in homes.items())
    names = sorted((_rank(name), name) for name in peekrank.__all__)
    return "\n".join(
        [
            *(f"from {module} import {name} as {name}" for module, _, name in imports),
            "",
            "__version__: str",
            "",
            "__all__ = [",
            *(f'    "{name}",' for _, name in names),
            "]",
            "",
        ]
    )


def _rank(name: str) -> int:
    """Return the sort key of a name: constants first, then classes, then all others."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
