"""``peekrank data``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.filesize import decimal
from rich.text import Text

from peekrank.cli._inputs import read_data, read_like
from peekrank.cli._options import (
    Categories,
    Columns,
    Id,
    JsonFile,
    Missing,
    Query,
    Relevance,
    table_options,
)
from peekrank.cli._outputs import check_outputs, check_replaceable, echo, labelled, write_json
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from rich.table import Table

    from peekrank.data.dataset import Dataset, Description, Provenance

_ODDITIES = {
    "single_document_queries": "queries with a single document",
    "all_zero_queries": "queries without a relevant document",
    "all_equal_queries": "queries whose documents all have the same grade, above 0",
    "scattered_queries": "queries whose lines were not contiguous, now gathered",
    "queries_in_comments": "queries with their id in the comment",
    "queries_in_group_file": "queries with their size in a separate group file",
    "duplicate_documents": "documents with the same features as an earlier one of their query",
    "missing_values": "feature values missing in the file, taken as 0",
    "filled_values": "missing values, replaced by the median or by no category",
    "unseen_categories": "values of categories that the training part does not have",
    "blank_lines": "blank lines",
    "comment_lines": "comment lines",
}

_MAX_NAMED = 20

EXAMPLES = """\
# Describe a file.
peekrank data train.txt
# Convert it to a file that opens instantly.
peekrank data train.txt --out train.peek
# Describe a table.
peekrank data shop.csv --relevance sold --query search --id sku"""
JSON_KEYS = {
    "queries, documents, features, used, constant": "counts",
    "lengths": "documents per query: smallest, median, largest",
    "smallest, largest": "feature values",
    "least_relevance, most_relevance, grades": "smallest and largest relevance, and documents of each grade",
    "warnings": "counts, by name",
    "heavy_tailed, badly_scaled": "feature columns, from 0",
    "about": "source, digest, base, scaling, fitted_on, rounded, warnings, and columns of a table",
}


def command(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="LETOR or SVMlight text, a .csv, .parquet, .jsonl or .peek file."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.peek", help="Convert to a .peek file, which opens instantly.")
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(help="Scale features: none, query (min-max), global (mean, sd), robust (asinh, mean, sd)."),
    ] = "none",
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Training part, from which scaling and feature ids are taken.",
            show_default="FILE itself",
        ),
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Number of features.", show_default="the largest id")
    ] = None,
    first_feature_id: Annotated[
        int | None, typer.Option(help="Smallest feature id, 0 or 1.", show_default="as in the file")
    ] = None,
    relevance: Relevance = None,
    query: Query = None,
    document: Id = None,
    columns: Columns = None,
    categories: Categories = None,
    missing: Missing = "reject",
    json_file: JsonFile = None,
) -> None:
    """Describe a file of judged documents, or convert it to a form that opens instantly."""
    from peekrank.data.dataset import describe
    from peekrank.data.peek import SUFFIX, save_dataset

    configure_output(json_file)
    if out and out.suffix != SUFFIX:
        raise ValueError(f"{out}: --out must end in {SUFFIX}")
    check_outputs(out, json_file, read=[file, *([train] if train else [])])
    if json_file:
        check_replaceable(json_file)
    table = table_options(relevance, query, document, columns, categories, missing)
    loaded = _load(file, scaling, train, partial(read_data, features=features, base=first_feature_id, table=table))
    description = describe(loaded)
    echo(_render(description))
    if out:
        save_dataset(loaded, out)
        echo(Text(f"Wrote {out}, {decimal(out.stat().st_size)}"))
    write_json(json_file, description.as_dict)


def _load(file: Path, scaling: str, train: Path | None, read: Callable[..., Dataset]) -> Dataset:
    """Read a file and scale its features."""
    from peekrank._util.validate import check_choice
    from peekrank.data.dataset import check_finite
    from peekrank.data.scaling import Scaling, fit_robustly, fit_standardisation, scale_within_queries, standardise

    check_choice("--scaling", scaling, Scaling)
    if train is None:
        loaded = fitted_on = read(file, documents=True)
    else:
        if scaling not in ("global", "robust"):
            raise ValueError(f"--train needs --scaling global or robust, got {scaling}")
        fitted_on = read(train)
        loaded = read_like(file, fitted_on, read, documents=True)
    for path, part in ((train or file, fitted_on), (file, loaded)):
        check_finite(part, path.name)
    if scaling == "query":
        return scale_within_queries(loaded)
    fits = {"global": fit_standardisation, "robust": fit_robustly}
    return standardise(loaded, fits[scaling](fitted_on)) if scaling in fits else loaded


def _render(data: Description) -> Table:
    """Render a description with labels in a column."""
    grid = labelled()
    about = data.about
    source = f"{about.source}, sha256 {about.digest[:16]}" if about.digest else about.source
    shortest, median, longest = data.lengths
    scaling = f"{about.scaling}, fitted on {about.fitted_on[:16]}" if about.fitted_on else about.scaling
    for label, text in (
        ("source", source),
        ("queries", f"{data.queries:,}"),
        ("documents", f"{data.documents:,}; {shortest:,} to {longest:,} per query, median {median:g}"),
        (
            "features",
            f"{data.features:,}, {_names(about)}; {data.used:,} used, {data.constant:,} constant",
        ),
        ("values", f"{data.smallest:g} to {data.largest:g}"),
        ("relevance", _relevance(data)),
        ("scaling", scaling),
        *(("tails" if "tails" in text else "scales", text) for text in _unusual_features(data)),
        *(
            ("oddity", f"{what}: {data.warnings[name]:,}")
            for name, what in _ODDITIES.items()
            if data.warnings.get(name)
        ),
    ):
        grid.add_row(label, Text(text))
    return grid


def _names(about: Provenance) -> str:
    """Return the names of the first features, or what their ids are."""
    names = ", ".join(about.feature(i) for i in range(min(len(about.feature_names), _MAX_NAMED)))
    return (
        f"{names}{' ...' if len(about.feature_names) > _MAX_NAMED else ''}" if names else f"ids from {about.base}"
    )


def _unusual_features(data: Description) -> Iterator[str]:
    """Yield which features have heavy tails or other scales, and how `peekrank train` handles them."""
    from peekrank.data.feature_stats import counted_features

    if data.about.scaling != "none":
        return
    heavy, wild = np.array(data.heavy_tailed, np.int64), np.array(data.badly_scaled, np.int64)
    about = data.about.feature, data.features
    if len(heavy):
        do = "train scales robustly, unless query or global does clearly better in a trial"
        yield f"{counted_features(heavy, *about, 'have heavy tails')}: {do}"
    if len(wild):
        do = "" if len(heavy) else ": train scales by mean and standard deviation (global)"
        yield f"{counted_features(wild, *about, 'have a different scale from the rest')}{do}"


def _relevance(data: Description) -> str:
    if not data.grades:
        return f"real-valued, {data.least_relevance:g} to {data.most_relevance:g}"
    parts = (f"{grade}: {count:,} ({count / data.documents:.1%})" for grade, count in data.grades.items())
    return ", ".join(parts) + (" (rounded)" if data.about.rounded else "")
