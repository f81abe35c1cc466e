"""Readers of the data sets that commands take."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import DownloadColumn, TransferSpeedColumn

from peekrank.cli._progress import transient_progress

if TYPE_CHECKING:
    from peekrank.data.dataset import Dataset


def read_data(
    file: Path, features: int | None, base: int | None, *, relevance: bool = True, documents: bool = False
) -> Dataset:
    """Read a text file or open a compact one; `relevance` and `documents` are passed to `read_letor`."""
    from peekrank.data.letor import read_letor
    from peekrank.data.peek import is_compact, open_dataset

    if is_compact(file):
        opened = open_dataset(file)
        n_features, first = opened.features.shape[1], opened.about.base
        if features not in (None, n_features) or base not in (None, first):
            what = f"{n_features} features with ids from {first}"
            raise ValueError(f"{file.name} has {what}; convert the text again")
        return opened
    with transient_progress(f"reading {file.name}", DownloadColumn(), TransferSpeedColumn()) as progress:
        return read_letor(
            file, features=features, base=base, relevance=relevance, documents=documents, progress=progress
        )


def note_rounding(data: Dataset) -> None:
    """Warn if relevance was rounded to grades."""
    if data.about.rounded:
        warnings.warn(f"{data.about.source}: real-valued relevance is rounded to grades", stacklevel=2)
