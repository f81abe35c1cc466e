"""``peekrank rank``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from peekrank._util.text import pluralize, presentable
from peekrank.cli._errors import print_error
from peekrank.cli._inputs import note_rounding, read_data
from peekrank.cli._options import DOCUMENTS, Id, Imports, JsonFile, Query, Relevance, import_all, table_options
from peekrank.cli._outputs import check_outputs, check_replaceable, echo, write_json
from peekrank.cli._verbosity import STANDARD_OUTPUT, configure_output

if TYPE_CHECKING:
    from peekrank.data.dataset import Dataset
    from peekrank.training.model import Model, Ranked
    from peekrank.training.table_files import TableOptions
    from peekrank.types import Floats, Measure

EXAMPLES = """\
# Rank new documents with a trained model.
peekrank rank trained/models/ridge-0.json test.txt --out ranked.tsv
# Measure its quality.
peekrank rank trained/models/ridge-0.json test.txt --measure ndcg@10
# Rank the rows of a table.
peekrank rank shop/models/ridge-0.json new.csv --query search --id sku"""
JSON_KEYS = {
    "queries, documents": "counts",
    "measure, judged, quality": "with --measure: its name, the number of queries it counts, and their mean",
}


def command(
    model: Annotated[Path, typer.Argument(help="Model saved by `peekrank train`.")],
    data: Annotated[Path, typer.Argument(help=f"Documents: {DOCUMENTS}")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File for the table, or FILE.run for a TREC run.", show_default="standard output"
        ),
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="Also compute this measure, if DATA has relevance: ndcg@10, p@3+sum ...")
    ] = None,
    relevance: Relevance = None,
    query: Query = None,
    document: Id = None,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Rank the documents of each query with a trained model.

    The table has the columns qid, document, position and score. Documents and positions count from 1; document
    3 is the query's third in the file. With --id, or document ids in comments (# docid = X, or # X), the table
    has a column docid. DATA needs no relevance.
    """
    from peekrank._util.atomic import write_whole
    from peekrank.measures import measure as measure_named
    from peekrank.training.model import load_model

    import_all(imports)
    quality = measure_named(measure) if measure else None
    configure_output(json_file)
    if json_file == STANDARD_OUTPUT and not out:
        raise ValueError("--json - needs --out FILE, because the table goes to standard output otherwise")
    check_outputs(out, json_file, read=[model, data])
    for file in filter(None, (out, json_file)):
        check_replaceable(file)
    trained = load_model(model)
    ranked = trained.rank(_read(data, trained, table_options(relevance, query, document)))
    if quality and ranked.data.about.warnings.get("documents_without_relevance"):
        raise ValueError(f"{data.name} has no relevance, which --measure {measure} needs; leave --measure out")
    values = ranked.values(quality) if quality else None
    if out and out.suffix == ".run":
        _write_run(out, ranked)
    elif out:
        write_whole(out, lambda part: part.write_text(_as_table(ranked), encoding="utf-8"))
    else:
        sys.stdout.write(_as_table(ranked))
    about: dict[str, Any] = {"queries": len(ranked.data.queries), "documents": len(ranked.rankings)}
    if quality and values is not None:
        text = _quality(ranked, quality, values)
        echo(Text(text)) if out else print_error(text)  # standard output contains only the table
        about |= {
            "measure": measure,
            "judged": len(values),
            "quality": float(values.mean()) if len(values) else None,
        }
    if out:
        echo(Text(f"Wrote {out}"))
    write_json(json_file, about)


def _read(data: Path, trained: Model, table: TableOptions) -> Dataset:
    """Read the documents with the columns of the model."""
    from peekrank.training.table_files import is_table

    prepared = trained.preparation
    if not is_table(data):
        return read_data(data, None, prepared.base, table=table, relevance=False, documents=True)
    if not prepared.columns:
        raise ValueError(f"{data.name} is a table, but the model was trained on features without names")
    return read_data(data, table=table, columns=prepared.columns, relevance=False)


def _quality(ranked: Ranked, measure: Measure, values: Floats) -> str:
    """Describe the mean quality and the number of queries."""
    from peekrank.training.no_relevant import queries_without_relevant

    note_rounding(ranked.data.graded())
    queries = len(ranked.data.queries)
    if not len(values):
        return f"{measure} counts none of {pluralize(queries, 'query', 'queries')}"
    skipped = f", {queries - len(values):,} skipped" if len(values) < queries else ""
    text = f"{measure} {values.mean():.4f} over {pluralize(len(values), 'query', 'queries')}{skipped}"
    no_relevant = queries_without_relevant(ranked.data, measure)
    if not no_relevant.number:
        return text
    without = no_relevant.mean_without(float(values.mean())) if len(values) == queries else None
    other = "" if without is None else f"; without them {measure} is {without:.4f}"
    return f"{text}\n{no_relevant.sentence(presentable(ranked.data.about.source))}{other}"


def _write_run(path: Path, ranked: Ranked) -> None:
    """Write the rankings as a TREC run."""
    from peekrank.evaluation.trec import write_run

    rankings: dict[str, list[str]] = {}
    offsets, names = ranked.data.offsets, ranked.data.documents
    for query, first, last in zip(
        ranked.data.names or ranked.data.queries, offsets[:-1], offsets[1:], strict=True
    ):
        order = ranked.rankings[first:last]
        rankings[str(query)] = [names[first + i] if names else str(i + 1) for i in order]
    write_run(path, rankings)


def _as_table(ranked: Ranked) -> str:
    import numpy as np
    import polars as pl

    from peekrank.jobs.csv_text import csv_text

    offsets = ranked.data.offsets
    lengths = np.diff(offsets)
    first = np.repeat(offsets[:-1], lengths)
    columns = {
        "qid": np.repeat(np.array(ranked.data.names or ranked.data.queries), lengths),
        "document": ranked.rankings + 1,
        **({"docid": np.array(ranked.data.documents)[first + ranked.rankings]} if ranked.data.documents else {}),
        "position": np.arange(len(first)) - first + 1,
        "score": ranked.scores[first + ranked.rankings].astype(np.float32),
    }
    return csv_text(pl.DataFrame(columns), "\t")
