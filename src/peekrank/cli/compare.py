"""``peekrank compare``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.text import Text

from peekrank._util.atomic import write_whole
from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize, presentable
from peekrank._util.validate import check_int
from peekrank.cli._options import Imports, JsonFile, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._tables import TextTable, compared, render, verdicts_explained, write_paper
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    import polars as pl

    from peekrank.experiments.comparison import Group
    from peekrank.types import Floats

_KINDS = {"experiment": "an experiment (peekrank simulate)", "training": "a training (peekrank train)"}

EXAMPLES = """\
# Compare the learners of an experiment.
peekrank compare results
# Write the table as LaTeX, and print it as JSON.
peekrank compare results --latex table.tex --json -"""
JSON_KEYS = {
    "what, test": "quantity compared, and significance test",
    "differences": "for each pair: group columns, learner, other, runs or folds, difference, low, high, p, "
    "adjusted, verdict",
    "remarks": "remarks as sentences",
}


def command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Results of `peekrank simulate` or `peekrank train`.")
    ],
    folds: Annotated[
        bool,
        typer.Option(
            "--folds", help="Compare over folders, which are folds of one data set, instead of over runs."
        ),
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as LaTeX.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as Markdown.")] = None,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Compare learners over runs or folds, with significance tests."""
    from peekrank.jobs.csv_text import csv_text

    import_all(imports)
    configure_output(json_file)
    _check_files(folders, csv, latex, markdown, json_file)
    result = _compare_folders(folders, folds=folds)
    with interrupt_later():
        if csv:
            write_whole(csv, lambda part: part.write_text(csv_text(result.table), encoding="utf-8"))
        write_paper(result.sheet, latex=latex, markdown=markdown)
    table = render(result.title, result.sheet, "--csv FILE writes all")
    echo(*table, verdicts_explained(result.test, few=result.few), *map(Text, result.remarks))
    write_json(json_file, result.as_dict)


class _Results(NamedTuple):
    """Results of one folder, prepared for a comparison."""

    folder: Path
    kind: str
    what: str  # quantity compared
    lower_is_better: bool
    outcomes: dict[str, Floats]  # for each learner, one number per run
    about: dict[str, str | int]
    common: dict[str, object]  # must be the same in all folders of a table
    fold: dict[str, object]  # must also be the same in all folds
    part: tuple[str, object]  # must differ between folds
    queries: tuple[int, int] | None  # of the test part and of the training part
    limit: str | None  # limit of conclusions from its runs, as a sentence
    no_relevant: str  # number of queries without relevant documents, and how they count
    code: tuple[object, object]


class _Compared(NamedTuple):
    """Result of a comparison: a table of numbers, a table of texts, and remarks."""

    table: pl.DataFrame
    sheet: TextTable
    what: str  # quantity compared
    title: str
    test: str
    few: bool  # whether a row has too few runs or folds for a verdict
    remarks: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as the JSON output has it."""
        about = {"what": self.what, "test": self.test, "remarks": self.remarks}
        return {**about, "differences": self.table.to_dicts()}


def _check_files(folders: Sequence[Path], *files: Path | None) -> None:
    """Check that output files can and may be written. Raises ValueError if not."""
    check_outputs(*files)
    for file in filter(None, files):
        if file.name == "manifest.json":
            raise ValueError(f"{file} would overwrite a manifest; choose another name")
        for folder in folders:
            if file.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{file} is inside the results folder {folder}; choose a file elsewhere")


def _compare_folders(folders: Sequence[Path], *, folds: bool) -> _Compared:
    """Compare each pair of learners over the runs of each folder, or over folders that are folds."""
    import polars as pl

    from peekrank.experiments.comparison import TOO_FEW, compare

    for i, folder in enumerate(folders):
        if folder.resolve() in [other.resolve() for other in folders[:i]]:
            raise ValueError(f"{folder} is given twice; name each folder once")
    if folds and len(folders) == 1:
        raise ValueError(f"--folds needs at least two folders, got only {folders[0]}")
    results = [_read(folder) for folder in folders]
    _check(results, folds=folds)
    if folds and any(result.code != results[0].code for result in results):
        warnings.warn("the folds were made by different versions of peekrank or of its dependencies", stacklevel=2)
    first, overlap = results[0], _overlap(results) if folds else 0.0
    groups = [_fold_group(results)] if folds else [_group(r) for r in results]
    table = compare(groups, lower_is_better=first.lower_is_better, overlap=overlap)
    names = [*groups[0][0]] if folds else [*groups[0][0], "runs"]
    over = pluralize(len(results), "fold") if folds else "paired runs"
    better = "lower" if first.lower_is_better else "higher"
    few = bool((table["verdict"] == TOO_FEW).any())
    if folds:
        named = pl.col("verdict").str.replace("too few runs", "too few folds", literal=True)
        table = table.with_columns(named)
    return _Compared(
        table.rename({"runs": "folds"}) if folds else table,
        compared(table, names),
        first.what,
        f"Differences of {first.what} over {over}, {better} is better",
        "corrected resampled t test" if overlap else "paired t test",
        few,
        [*_missing(results), *_on_blank_queries(results), *(_on_folds(overlap) if folds else _on_runs(results))],
    )


def _read(folder: Path) -> _Results:
    from peekrank.jobs.results_dir import read_manifest

    manifest = read_manifest(folder)
    if "experiment" in manifest:
        return _read_experiment(folder, manifest)
    if "training" in manifest:
        return _read_training(folder, manifest)
    if "sweep" in manifest:
        raise ValueError(f"{folder} holds a sweep; {folder / 'comparisons.csv'} compares its learners")
    kinds = " nor ".join(_KINDS.values())
    raise ValueError(f"{folder} holds neither {kinds}; only these can be compared")


def _read_experiment(folder: Path, manifest: dict[str, Any]) -> _Results:
    from peekrank.experiments import runs
    from peekrank.experiments.experiment import REGRET_NAMES

    result = runs.read(folder)
    e = result.experiment
    return _Results(
        folder,
        "experiment",
        REGRET_NAMES[e.regret],
        lower_is_better=True,
        outcomes={learner: result.regrets(learner)[:, -1] for learner in e.learners},
        about={"stream": e.stream, "measure": e.measure, "k": e.k, "horizon": e.horizon},
        common={"regret": e.regret},
        fold={"learners": sorted(e.learners), "measure": e.measure, "k": e.k, "horizon": e.horizon},
        part=("stream and seed", (e.stream, manifest.get("data"), e.seed)),
        queries=None,
        limit=None
        if not e.same_rounds
        else "With --same-rounds all runs see the same rounds, so the result may not hold for other rounds.",
        no_relevant="",
        code=_code(manifest),
    )


def _read_training(folder: Path, manifest: dict[str, Any]) -> _Results:
    from peekrank.training import runs

    outcome = runs.read_training(folder)
    t, train = outcome.training, _part(folder, manifest, "data")
    test = None if manifest.get("test") is None else _part(folder, manifest, "test")
    return _Results(
        folder,
        "training",
        f"{'held-out' if test else 'average'} {t.measure}",
        lower_is_better=not t.make_measure().higher_is_better,
        outcomes={name: outcome.held_out(name) if test else outcome.qualities(name)[:, -1] for name in t.learners},
        about={"data": presentable(outcome.source), "k": t.k, "rounds": t.rounds},
        common={"measure": t.measure, "test part": "one" if test else "none"},
        fold={"learners": sorted(t.learners), "k": t.k, "rounds": t.rounds, "scaling": train.scaling},
        part=("test part", test.content) if test else ("data and seed", (train.content, t.seed)),
        queries=(test.queries, train.queries) if test else None,
        limit="Runs of a training share its queries and differ in their order and in random numbers only.",
        no_relevant=outcome.no_relevant.sentence(presentable((test or train).source)),
        code=_code(manifest),
    )


class _Part(NamedTuple):
    """Description of a part of a data set in a manifest."""

    content: str
    queries: int
    scaling: str
    source: str


def _part(folder: Path, manifest: dict[str, Any], name: str) -> _Part:
    try:
        part = _Part(*(manifest[name][field] for field in _Part._fields))
        check_int("queries", part.queries, 1)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe its field {name}: {error}") from None
    return part


def _code(manifest: dict[str, Any]) -> tuple[object, object]:
    return manifest.get("versions"), manifest.get("sources")


def _check(results: list[_Results], *, folds: bool) -> None:
    """Check that folders can be compared in one table. Raises ValueError if not."""
    first = results[0]
    for i, result in enumerate(results):
        if len(result.outcomes) == 1:
            raise ValueError(
                f"{result.folder} has one learner, {next(iter(result.outcomes))}; a comparison needs two"
            )
        if result.kind != first.kind:
            raise ValueError(
                f"{result.folder} holds {_KINDS[result.kind]}, but {first.folder} {_KINDS[first.kind]}; "
                "compare one kind at a time"
            )
        needed = [(name, "all folders of a table must agree") for name in result.common]
        needed += [(name, "all folds must agree") for name in result.fold if folds]
        for name, why in needed:
            value, expected = ({**r.common, **r.fold}[name] for r in (result, first))
            if value != expected:
                raise ValueError(
                    f"{result.folder}: {name} = {_text(value)}, but {_text(expected)} in {first.folder}; {why}"
                )
        for other in results[:i]:
            if folds and other.part == result.part:
                raise ValueError(
                    f"{result.folder} has the same {result.part[0]} as {other.folder}; folds must differ in it"
                )


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _group(result: _Results) -> Group:
    return {"folder": presentable(str(result.folder)), **result.about}, result.outcomes


def _fold_group(results: list[_Results]) -> Group:
    """Return one outcome per fold: the mean over its runs, or NaN if a run has no outcome."""
    first = results[0]
    about = {name: value for name, value in first.about.items() if name in first.fold}
    return about, {name: np.array([r.outcomes[name].mean() for r in results]) for name in first.outcomes}


def _overlap(results: list[_Results]) -> float:
    """Return the number of test queries divided by that of training queries, or 0 without test parts."""
    sizes = [r.queries for r in results if r.queries]
    return sum(test for test, _ in sizes) / sum(train for _, train in sizes) if sizes else 0.0


def _missing(results: list[_Results]) -> Iterator[str]:
    """Yield a remark for each learner without an outcome in some runs.

    The comparison skips such learners, because leaving out only their failed runs would favour them.
    """
    for result in results:
        for name, outcomes in result.outcomes.items():
            if missing := int(np.isnan(outcomes).sum()):
                where = f"in {missing} of {pluralize(len(outcomes), 'run')} of {presentable(str(result.folder))}"
                yield f"{name} has no {result.what} {where}, so it is not compared there."


def _on_blank_queries(results: list[_Results]) -> Iterator[str]:
    """Yield a remark on queries without relevant documents, which make differences smaller."""
    for result in results:
        if result.no_relevant:
            effect = "" if result.no_relevant.endswith("left out") else " for every learner"
            yield f"{result.no_relevant}{effect}."


def _on_runs(results: list[_Results]) -> Iterator[str]:
    yield from dict.fromkeys(result.limit for result in results if result.limit)


def _on_folds(overlap: float) -> Iterator[str]:
    yield "Each fold counts once, with the mean over its runs."
    if overlap:
        yield (
            "Folds share training queries. The test corrects for this by the ratio of test to training queries, "
            f"{overlap:.2f} (Nadeau and Bengio 2003), which is a heuristic."
        )
    else:
        yield (
            "There are no test parts, so folders count as independent. If they share data, the test finds "
            "too many differences."
        )
