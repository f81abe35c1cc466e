"""Execute the notebooks of docs/notebooks, each in a kernel of its own, and store their outputs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))
_FORMAT: Any = nbformat  # has no types


def read(path: Path) -> NotebookNode:
    """Read a notebook."""
    notebook: NotebookNode = _FORMAT.read(path, as_version=4)
    return notebook


def executed(path: Path) -> NotebookNode:
    """Execute all cells of a notebook from top to bottom in an empty folder, and return it."""
    notebook = read(path)
    with TemporaryDirectory() as folder:
        sockets = Config(ConnectionFileMixin={"transport": "ipc", "ip": f"{folder}/kernel"})  # listen on no port
        options: Any = {"timeout": 300, "record_timing": False, "coalesce_streams": True, "config": sockets}
        NotebookClient(notebook, resources={"metadata": {"path": folder}}, **options).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _only_reports_compilation(output)]
    return notebook


def _only_reports_compilation(output: NotebookNode) -> bool:
    """Return whether an output is about nothing but the compilation of kernels, which happens once per machine."""
    if output.output_type != "stream" or output.name != "stderr":
        return False
    return all(line.startswith("peekrank: compil") for line in output.text.splitlines())


def shown(notebook: NotebookNode) -> list[list[str]]:
    """Return the outputs of each code cell: texts, and a placeholder for pictures."""
    return [[_shown(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _shown(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    if "image/png" in output.data:
        return "a picture"
    return str(output.data["text/plain"])


def store(path: Path) -> None:
    """Execute a notebook and write it back without metadata that depends on place and time."""
    notebook = executed(path)
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}
    _FORMAT.write(notebook, path)


if __name__ == "__main__":
    for path in NOTEBOOKS:
        store(path)
