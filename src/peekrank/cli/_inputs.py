"""Readers of the data sets that commands take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import DownloadColumn, TransferSpeedColumn

from peekrank.cli._progress import transient_progress

if TYPE_CHECKING:
    from peekrank.data.columns import Column
    from peekrank.data.dataset import Dataset
    from peekrank.training.table_files import TableOptions


def read_data(
    file: Path,
    features: int | None = None,
    base: int | None = None,
    *,
    table: TableOptions,
    columns: Sequence[Column] = (),
    relevance: bool = True,
    documents: bool = False,
) -> Dataset:
    """Read a table or a text file, or open a compact one.

    `table` and `columns`, those of the training part, are passed to `read_table`; all else to `read_letor`.
    """
    from peekrank.data.letor import read_letor
    from peekrank.data.peek import is_compact, open_dataset
    from peekrank.training.table_files import TableOptions, is_table, read_table

    if is_table(file):
        if features is not None or base is not None:
            raise ValueError(f"{file.name} is a table, whose features have names: choose them with --columns")
        if relevance and not table.relevance:
            use = (
                "name its column with relevance, --relevance COLUMN, or see docs/evaluation/log.md if it is a log"
            )
            raise ValueError(f"{file.name} is a table: {use}")
        with transient_progress(f"reading {file.name}", DownloadColumn(), TransferSpeedColumn()) as progress:
            return read_table(file, table, tuple(columns), progress)
    if table != TableOptions():
        raise ValueError(
            f"{file.name} is no table (.csv, .parquet, .jsonl): convert it to one to name its columns"
        )
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


def read_like(file: Path, train: Dataset, read: Callable[..., Dataset], **options: bool) -> Dataset:
    """Read a file with the columns of a training part; `read` is `read_data` with its other arguments."""
    from peekrank.training.table_files import is_table

    if not is_table(file):
        return read(file, features=train.features.shape[1], base=train.about.base, **options)
    if not train.about.columns:
        raise ValueError(f"{file.name} is a table, but {train.about.source} has no names of columns")
    return read(file, features=None, base=None, columns=train.about.columns, **options)


def note_rounding(data: Dataset) -> None:
    """Warn if relevance was rounded to grades."""
    if data.about.rounded:
        warnings.warn(f"{data.about.source}: real-valued relevance is rounded to grades", stacklevel=2)
