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
from peekrank.cli._tables import TextTable, compared, shown, verdicts_explained, write_paper
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    import polars as pl

    from peekrank.experiments.comparison import Group
    from peekrank.types import Floats

_MADE = {"experiment": "an experiment (peekrank simulate)", "training": "a training (peekrank train)"}

EXAMPLES = """\
# Which learners of an experiment are better?
peekrank compare results
# The table for a paper, and for a script.
peekrank compare results --latex table.tex --json -"""
JSON_KEYS = {
    "what, test": "what is compared, and by which test",
    "differences": "for each pair: what tells the group, learner, other, runs or folds, difference, low, high, p, "
    "adjusted, verdict",
    "remarks": "sentences",
}


def command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Results of `peekrank simulate` or of `peekrank train`.")
    ],
    folds: Annotated[
        bool, typer.Option("--folds", help="They are folds of one data set: compare over folds, not over runs.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as LaTeX.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as Markdown.")] = None,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Tell which learners are better, over runs or folds, and which differences may be propensity."""
    import_all(imports)
    configure_output(json_file)
    _check_files(folders, csv, latex, markdown, json_file)
    found = _compare_folders(folders, folds=folds)
    with interrupt_later():
        if csv:
            write_whole(csv, found.table.write_csv)
        write_paper(found.sheet, latex=latex, markdown=markdown)
    echo(*shown(found.title, found.sheet, "--csv FILE writes all"), verdicts_explained(found.test, few=found.few))
    echo(*map(Text, found.remarks))
    about = {"what": found.what, "test": found.test, "remarks": found.remarks}
    write_json(json_file, {**about, "differences": found.table.to_dicts()})


class _Results(NamedTuple):
    """What a folder has for a comparison."""

    folder: Path
    kind: str
    what: str  # is compared
    lower_is_better: bool
    outcomes: dict[str, Floats]  # of each learner, for each run
    about: dict[str, str | int]
    common: dict[str, object]  # folders of one table have it in common
    fold: dict[str, object]  # folds have it in common, besides
    part: tuple[str, object]  # each fold has one of its own
    queries: tuple[int, int] | None  # of the test and of the training part
    limit: str | None  # to what its runs can tell
    no_relevant: str  # how many queries have nothing relevant, and how they count
    code: tuple[object, object]


class _Compared(NamedTuple):
    """What was found: as a table of numbers, as one of texts, and in words."""

    table: pl.DataFrame
    sheet: TextTable
    what: str  # is compared
    title: str
    test: str
    few: bool  # whether runs or folds are too few for a verdict somewhere
    remarks: list[str]


def _check_files(folders: Sequence[Path], *files: Path | None) -> None:
    """Raise a ValueError now if one of these files could not, or should not, be written later."""
    check_outputs(*files)
    for file in filter(None, files):
        if file.name == "manifest.json":
            raise ValueError(f"{file}: a manifest is never replaced by a table; choose another name")
        for folder in folders:
            if file.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{file} would be among the results in {folder}; choose a file elsewhere")


def _compare_folders(folders: Sequence[Path], *, folds: bool) -> _Compared:
    """Compare every two learners of each folder over its runs, or of all folders over these, which are folds."""
    import polars as pl

    from peekrank.experiments.comparison import TOO_FEW, compare

    for i, folder in enumerate(folders):
        if folder.resolve() in [other.resolve() for other in folders[:i]]:
            raise ValueError(f"{folder} is given twice")
    if folds and len(folders) == 1:
        raise ValueError(f"--folds: only {folders[0]} is given; a comparison needs two folds at least")
    results = [_read(folder) for folder in folders]
    _check(results, folds=folds)
    if folds and any(result.code != results[0].code for result in results):
        warnings.warn("folds were made by different versions of peekrank, or of packages it uses", stacklevel=2)
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
        return _of_experiment(folder, manifest)
    if "training" in manifest:
        return _of_training(folder, manifest)
    if "sweep" in manifest:
        raise ValueError(f"{folder} holds a sweep; how its learners compare is in {folder / 'comparisons.csv'}")
    made = " nor ".join(_MADE.values())
    raise ValueError(f"{folder} holds neither {made}: only these can be compared")


def _of_experiment(folder: Path, manifest: dict[str, Any]) -> _Results:
    from peekrank.experiments import runs

    result = runs.read(folder)
    e = result.experiment
    return _Results(
        folder,
        "experiment",
        "regret",
        lower_is_better=True,
        outcomes={learner: result.regrets(learner)[:, -1] for learner in e.learners},
        about={"stream": e.stream, "measure": e.measure, "k": e.k, "horizon": e.horizon},
        common={},
        fold={"learners": sorted(e.learners), "measure": e.measure, "k": e.k, "horizon": e.horizon},
        part=("stream and seed", (e.stream, manifest.get("data"), e.seed)),
        queries=None,
        limit=None
        if not e.same_rounds
        else "With --same-rounds all runs meet the same rounds, and tell of no others.",
        no_relevant="",
        code=_code(manifest),
    )


def _of_training(folder: Path, manifest: dict[str, Any]) -> _Results:
    from peekrank.training import runs

    outcome = runs.read(folder)
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
        limit="Runs of a training share its data: they tell of other orders and other luck, not of other queries.",
        no_relevant=outcome.no_relevant.sentence(presentable((test or train).source)),
        code=_code(manifest),
    )


class _Part(NamedTuple):
    """What a manifest says of a part of a data set."""

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
    """Refuse folders that have nothing to compare, or that do not belong in one table."""
    first = results[0]
    for i, result in enumerate(results):
        if len(result.outcomes) == 1:
            raise ValueError(
                f"{result.folder} has one learner, {next(iter(result.outcomes))}; to compare takes two"
            )
        if result.kind != first.kind:
            raise ValueError(
                f"{result.folder} holds {_MADE[result.kind]}, but {first.folder} {_MADE[first.kind]}; one "
                "table has one kind"
            )
        needed = [(name, "one table has one") for name in result.common]
        needed += [(name, "folds have the same") for name in result.fold if folds]
        for name, why in needed:
            mine, its = ({**r.common, **r.fold}[name] for r in (result, first))
            if mine != its:
                raise ValueError(
                    f"{result.folder}: {name} = {_text(mine)}, but {_text(its)} in {first.folder}; {why}"
                )
        for other in results[:i]:
            if folds and other.part == result.part:
                raise ValueError(
                    f"{result.folder} has the same {result.part[0]} as {other.folder}; each fold has its own"
                )


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _group(result: _Results) -> Group:
    return {"folder": presentable(str(result.folder)), **result.about}, result.outcomes


def _fold_group(results: list[_Results]) -> Group:
    """One outcome for each fold: the mean over its runs, or none if that of a run is missing."""
    first = results[0]
    about = {name: value for name, value in first.about.items() if name in first.fold}
    return about, {name: np.array([r.outcomes[name].mean() for r in results]) for name in first.outcomes}


def _overlap(results: list[_Results]) -> float:
    """Queries of test parts over those of training parts; 0 without test parts."""
    sizes = [r.queries for r in results if r.queries]
    return sum(test for test, _ in sizes) / sum(train for _, train in sizes) if sizes else 0.0


def _missing(results: list[_Results]) -> Iterator[str]:
    """Who has no outcome somewhere. To leave out such runs alone would favour a learner that diverges."""
    for result in results:
        for name, outcomes in result.outcomes.items():
            if missing := int(np.isnan(outcomes).sum()):
                where = f"in {missing} of {pluralize(len(outcomes), 'run')} of {presentable(str(result.folder))}"
                yield f"{name} has no {result.what} {where}: it is not compared there."


def _on_blank_queries(results: list[_Results]) -> Iterator[str]:
    """Queries with nothing relevant count the same for all learners, and so make differences smaller."""
    for result in results:
        if result.no_relevant:
            effect = "" if result.no_relevant.endswith("left out") else " for every learner"
            yield f"{result.no_relevant}{effect}."


def _on_runs(results: list[_Results]) -> Iterator[str]:
    yield from dict.fromkeys(result.limit for result in results if result.limit)


def _on_folds(overlap: float) -> Iterator[str]:
    yield "A fold counts once: with the mean over its runs."
    if overlap:
        yield (
            "Folds share training queries. The test allows for this by a rule of thumb: test parts have "
            f"{overlap:.2f} times the queries of training parts (Nadeau and Bengio 2003)."
        )
    else:
        yield (
            "There are no test parts: folders count as independent. If they share data, too many differences are "
            "called real."
        )
