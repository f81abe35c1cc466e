"""``peekrank data``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.filesize import decimal
from rich.text import Text

from peekrank.cli._inputs import read_data
from peekrank.cli._options import JsonFile
from peekrank.cli._outputs import check_outputs, check_replaceable, echo, labelled, write_json
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from rich.table import Table

    from peekrank.data.dataset import Dataset, Description

_ODDITIES = {
    "single_document_queries": "queries with a single document",
    "all_zero_queries": "queries without a relevant document",
    "all_equal_queries": "queries whose documents all have the same grade, above 0",
    "scattered_queries": "queries that were scattered over the file, and are gathered",
    "queries_in_comments": "queries with their number in the comment",
    "queries_in_group_file": "queries with their size in a file beside",
    "duplicate_documents": "documents with the same features as an earlier one of their query",
    "missing_values": "feature values that the file leaves out, which are 0",
    "blank_lines": "blank lines",
    "comment_lines": "lines with nothing but a comment",
}

EXAMPLES = """\
# What is in a file?
peekrank data train.txt
# Convert it, so that it opens at once.
peekrank data train.txt --out train.peek"""
JSON_KEYS = {
    "queries, documents, features, used, constant": "counts",
    "lengths": "documents per query: smallest, median, largest",
    "smallest, largest": "feature values",
    "least_relevance, most_relevance, grades": "relevance, and documents of each grade",
    "warnings": "counts, by name",
    "heavy_tailed, badly_scaled": "feature columns, from 0",
    "about": "source, digest, base, scaling, fitted_on, rounded, warnings",
}


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A LETOR or SVMlight text, plain or gzip, or a .peek file.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.peek", help="Write it in the form that opens at once.")
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(help="Scale features: none, query (min-max), global (mean, sd), robust (asinh, mean, sd)."),
    ] = "none",
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Training part that scaling and feature ids come from.",
            show_default="FILE itself",
        ),
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Number of features.", show_default="the largest id")
    ] = None,
    base: Annotated[
        int | None, typer.Option(help="Smallest feature id, 0 or 1.", show_default="as in the file")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Describe a file of judged documents with features, and convert it into a form that opens at once."""
    from peekrank.data.dataset import describe
    from peekrank.data.peek import SUFFIX, save_dataset

    configure_output(json_file)
    if out and out.suffix != SUFFIX:
        raise ValueError(f"{out}: --out must end in {SUFFIX}, so that no text is replaced by the compact form")
    check_outputs(out, json_file, read=[file, *([train] if train else [])])
    if json_file:
        check_replaceable(json_file)
    loaded = _load(file, scaling, train, features, base)
    found = describe(loaded)
    echo(_shown(found))
    if out:
        save_dataset(loaded, out)
        echo(Text(f"Written to {out}, {decimal(out.stat().st_size)}"))
    write_json(json_file, found.as_dict())


def _load(file: Path, scaling: str, train: Path | None, features: int | None, base: int | None) -> Dataset:
    """Read or open, and scale."""
    from peekrank._util.validate import check_choice
    from peekrank.data.dataset import check_finite
    from peekrank.data.scaling import Scaling, fit_robustly, fit_standardisation, scale_within_queries, standardise

    check_choice("--scaling", scaling, Scaling)
    if train is None:
        loaded = fitted_on = read_data(file, features, base, documents=True)
    else:
        if scaling not in ("global", "robust"):
            raise ValueError(f"--train does not go with --scaling {scaling}, only with global or robust")
        fitted_on = read_data(train, features, base)
        loaded = read_data(file, fitted_on.features.shape[1], fitted_on.about.base, documents=True)
    for path, part in ((train or file, fitted_on), (file, loaded)):
        check_finite(part, path.name)
    if scaling == "query":
        return scale_within_queries(loaded)
    fits = {"global": fit_standardisation, "robust": fit_robustly}
    return standardise(loaded, fits[scaling](fitted_on)) if scaling in fits else loaded


def _shown(found: Description) -> Table:
    """What there is to say, with labels in a column."""
    grid = labelled()
    about = found.about
    source = f"{about.source}, sha256 {about.digest[:16]}" if about.digest else about.source
    shortest, median, longest = found.lengths
    scaling = f"{about.scaling}, fitted on {about.fitted_on[:16]}" if about.fitted_on else about.scaling
    for label, text in (
        ("source", source),
        ("queries", f"{found.queries:,}"),
        ("documents", f"{found.documents:,}; {shortest:,} to {longest:,} a query, median {median:g}"),
        (
            "features",
            f"{found.features:,}, ids from {about.base}; {found.used:,} used, {found.constant:,} constant",
        ),
        ("values", f"{found.smallest:g} to {found.largest:g}"),
        ("relevance", _relevance(found)),
        ("scaling", scaling),
        *(("tails" if "tails" in text else "scales", text) for text in _strange(found)),
        *(
            ("oddity", f"{what}: {found.warnings[name]:,}")
            for name, what in _ODDITIES.items()
            if found.warnings.get(name)
        ),
    ):
        grid.add_row(label, Text(text))
    return grid


def _strange(found: Description) -> Iterator[str]:
    """Which features have heavy tails or a scale of their own, and what `peekrank train` will do about them."""
    from peekrank.data.feature_stats import counted_features

    if found.about.scaling != "none":
        return
    heavy, wild = np.array(found.heavy_tailed, np.int64), np.array(found.badly_scaled, np.int64)
    about = found.about.base, found.features
    if len(heavy):
        do = "learn scales robustly, unless query or global does clearly better in a trial"
        yield f"{counted_features(heavy, *about, 'have heavy tails')}: {do}"
    if len(wild):
        do = "" if len(heavy) else ": learn scales by mean and deviation (global)"
        yield f"{counted_features(wild, *about, 'are of another scale than the rest')}{do}"


def _relevance(found: Description) -> str:
    if not found.grades:
        return f"real-valued, {found.least_relevance:g} to {found.most_relevance:g}"
    parts = (f"{grade}: {count:,} ({count / found.documents:.1%})" for grade, count in found.grades.items())
    return ", ".join(parts) + (" (rounded)" if found.about.rounded else "")
