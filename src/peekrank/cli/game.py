"""``peekrank game``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, floor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.box import SIMPLE
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank._util.progress import Progress
from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize
from peekrank._util.validate import check_choice, check_int
from peekrank.cli._game_text import (
    MAX_ACTIONS,
    action_table,
    actions_of,
    add_facts,
    facts_of,
    grades_range,
    rate_rows,
    rate_text,
    render_certificate,
)
from peekrank.cli._options import FeedbackKind, Imports, JsonFile, import_all
from peekrank.cli._outputs import check_outputs, echo, labelled, write_json
from peekrank.cli._progress import status, transient_progress
from peekrank.cli._verbosity import configure_output
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.best_factor import MAX_ITEMS, PROGRAMS, best_factor
from peekrank.games.ceilings import factor_ceiling
from peekrank.games.certificate import certificate as certificate_of
from peekrank.games.classic import CLASSIC
from peekrank.games.feedback import MEANINGS as FEEDBACK
from peekrank.games.feedback import Feedback, check_feedback, feedback_theorem
from peekrank.games.files import read_game
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rate_table import MEANINGS, Source, sensible_source, settle, tabulate
from peekrank.games.rate_table import Table as RateTable
from peekrank.measures import AUCLoss
from peekrank.measures import measure as measure_named
from peekrank.registry import MEASURES
from peekrank.spec import suggest
from peekrank.types import Measure

_QUICK_TABLE, _QUICK_CELL = 4_000, 50_000  # entries of a loss matrix that take some seconds to analyse
_PICTURES = (".png", ".svg", ".pdf")


class _Usage(NamedTuple):
    what: str
    needed: tuple[str, ...]
    optional: tuple[str, ...]
    example: str


_TABLE = _Usage(
    "the table of all measures", ("--m",), ("--feedback", "--grades", "--from", "--picture", "--json"), "--m 5"
)
_CELL = _Usage(
    "a measure",
    ("--m", "--k"),
    ("--feedback", "--grades", "--from", "--json", "--certificate"),
    "ndcg --m 5 --k 2",
)
_FACTOR = _Usage(
    "--best-factor", ("--m", "--k"), ("--best-factor", "--grades", "--programs", "--json", "--certificate"),
    "ndcg --m 4 --k 1 --best-factor",
)  # fmt: skip
_OWN = _Usage("a single game", (), ("--json", "--certificate"), "apple-tasting")


class _Output(NamedTuple):
    """Output for the terminal and as JSON, with the table or analysis behind it."""

    parts: list[RenderableType]
    data: dict[str, Any]
    table: RateTable | None = None
    analysis: Analysis | None = None
    proof: dict[str, Any] | None = None


EXAMPLES = """\
# All measures at every k, for five items.
peekrank game --m 5
# Show why NDCG cannot be learned, and write a proof.
peekrank game ndcg --m 3 --k 1 --certificate proof.json
# How much of the best NDCG can a learner guarantee?
peekrank game ndcg --m 3 --k 1 --best-factor --programs 60
# One thumb for the first two items together.
peekrank game dcg --m 4 --k 2 --feedback sum
# Analyse a classic game, or one of your own from a file.
peekrank game apple-tasting"""
JSON_KEYS = {
    "measure, game": "the subject: one of the two, or none for the table",
    "m, k, grades, feedback, from": "the problem",
    "rate, basis, how, reason": "growth of regret, its basis (theorem, definitions or both), and the reason",
    "definitions": "result of the definitions, or null",
    "actions": "for a game: kind, cell and neighbours of each action",
    "lower, upper, exact_upper": "with --best-factor: its bounds; the upper one as a fraction, or null",
    "cells": "for the table: measure, k to k_last, rate, basis, how",
}


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="MEASURE|GAME",
            help="Measure, classic game, or .csv or .json file.",
            show_default="all measures, every k",
        ),
    ] = None,
    m: Annotated[int | None, typer.Option("--m", help="Number of items.")] = None,
    k: Annotated[
        int | None, typer.Option("--k", help="Number of top items whose relevance is revealed per round.")
    ] = None,
    grades: Annotated[int | None, typer.Option(help="Number of relevance grades.", show_default="2")] = None,
    feedback: FeedbackKind = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Source of rates: theorem, definitions (slow for many items), or both.",
            show_default="both if that is quick",
        ),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best-factor", help="Share of the best ranking's value that a learner can guarantee.")
    ] = False,
    programs: Annotated[
        int | None,
        typer.Option(
            help="With --best-factor: most linear programs to solve. More narrow the bounds.",
            show_default=str(PROGRAMS),
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot the table to a .png, .svg or .pdf file.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a proof that can be checked, as JSON.")
    ] = None,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Say how fast regret must grow in a game, and why."""
    import_all(imports)
    configure_output(json_file)
    if picture is not None and picture.suffix.lower() not in _PICTURES:
        raise ValueError(f"{picture}: --picture must end in .png, .svg or .pdf")
    check_outputs(json_file, certificate, picture, read=[Path(name)] if name else [])
    files = {"--picture": picture, "--certificate": certificate, "--json": json_file}
    factor = {"--best-factor": best or None, "--programs": programs}
    problem = {"--m": m, "--k": k, "--grades": grades, "--feedback": feedback, "--from": source}
    options = {**problem, **factor, **files}
    with transient_progress("analysing") as progress:
        output = _analyse(name, options, progress)
    echo(*output.parts)
    write_json(json_file, output.data)
    if picture and output.table:
        _draw(output.table, picture)
    if certificate and output.proof:
        write_json(certificate, output.proof, indent=None)
        check = "examples/check_best_factor.py checks it with NumPy alone."
        echo("", f"[bold]{escape(str(certificate))}[/] proves both bounds. {check}")
    elif certificate and output.analysis:
        with status("building the proof"):
            proof = certificate_of(output.analysis)
        write_json(certificate, proof, indent=None)
        echo("", *render_certificate(proof, certificate, output.data))


def _draw(table: RateTable, picture: Path) -> None:
    from peekrank.reports import plots

    with interrupt_later():
        plots.save_as(plots.rates(table), picture)


def _subject(name: str | None, options: Mapping[str, object]) -> Measure | Game | None:
    """Return the measure or game of this name, or None for all measures. Check that the options fit."""
    subject = _named(name) if name else None
    measured = _FACTOR if options["--best-factor"] else _CELL
    usage = _TABLE if subject is None else _OWN if isinstance(subject, Game) else measured
    present = {option for option, value in options.items() if value is not None}
    for option in options:
        if option in present and option not in usage.needed + usage.optional:
            known = ", ".join(usage.needed + usage.optional)
            raise ValueError(f"{option} does not apply to {usage.what}, which takes {known}")
    if missing := [option for option in usage.needed if option not in present]:
        raise ValueError(
            f"{usage.what} needs {' and '.join(missing)}, as in: peekrank game {usage.example}"
            + ("; or name a measure, a classic game or a file" if subject is None else "")
        )
    return subject


def _analyse(name: str | None, options: Mapping[str, Any], progress: Progress) -> _Output:
    """Analyse a measure, a game, or all measures, with the options of the command line."""
    subject = _subject(name, options)
    if isinstance(subject, Game):
        return _analyse_game(str(name), subject, progress)
    m, grades, source = options["--m"], options["--grades"], options["--from"]
    feedback = check_feedback(options["--feedback"] or "answers")
    grades = 2 if grades is None else grades
    check_int("m", m, 1)
    check_int("grades", grades, 2, 256)
    if source is not None:
        check_choice("--from", source, Source)
    if subject is None:
        return _analyse_table(m, grades, feedback, source or sensible_source(m, grades, _QUICK_TABLE), progress)
    if options["--best-factor"]:
        return _bound_factor(subject, m, options, grades, progress)
    if options["--certificate"]:
        if source == "theorem":
            raise ValueError("--certificate needs --from definitions or both")
        source = source or "both"
    source = source or sensible_source(m, grades, _QUICK_CELL)
    return _analyse_measure(subject, m, options["--k"], grades, feedback, source, progress)


def _analyse_table(m: int, grades: int, feedback: Feedback, source: Source, progress: Progress) -> _Output:
    """Compute the rates of all measures for every k, and explain them."""
    table = tabulate(None, m, grades, source, progress, feedback)
    size = f"m = {pluralize(m, 'item')}, feedback on the first k, {grades_range(grades)}"
    title = f"Growth of regret in T rounds: {size}"
    shown = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    shown.add_column("measure", no_wrap=True)
    for span in table.spans:
        shown.add_column(f"k={_span(span)}", no_wrap=True)
    for name, cells in zip(table.measures, table.cells, strict=True):
        shown.add_row(Text(name), *(rate_text(cell.rate) for cell in cells))
    legend = labelled()
    present = {cell.rate for cells in table.cells for cell in cells}
    for rate, meaning in MEANINGS.items():
        if rate in present:
            legend.add_row(rate_text(rate), meaning)
    if None in present:
        legend.add_row(rate_text(None), "undecided: the arithmetic of the definitions is not precise enough")
    page = "docs/theory/rates.md" if feedback == "answers" else "docs/theory/feedback.md"
    origin = {
        "theorem": f"By the theorems of {page}.",
        "definitions": "Computed from the definitions.",
        "both": f"Computed from the definitions; the theorems of {page} give the same.",
    }
    data = {"m": m, "grades": grades, "feedback": feedback, "from": source, "cells": table.rows()}
    return _Output(
        [f"[bold]{title}", *_feedback_line(feedback), shown, legend, "", origin[source]], data, table=table
    )


def _span(span: range) -> str:
    """Format the k of a column.

    >>> _span(range(3, 4)), _span(range(10, 1000))
    ('3', '10..999')
    """
    return f"{span[0]:,}" if len(span) == 1 else f"{span[0]:,}..{span[-1]:,}"


def _feedback_line(feedback: Feedback) -> list[str]:
    return [] if feedback == "answers" else [f"Feedback is {FEEDBACK[feedback]}."]


def _analyse_measure(
    measure: Measure, m: int, k: int, grades: int, feedback: Feedback, source: Source, progress: Progress
) -> _Output:
    """Compute the rate of one ranking game by theorem, by the definitions, or both."""
    proved = feedback_theorem(measure, m, k, grades, feedback) if source != "definitions" else None
    game = ranking_game(measure, m, k, grades, feedback) if source != "theorem" else None
    found = analyse(game, progress=progress) if game else None
    problem = f"{measure}, m = {pluralize(m, 'item')}, k = {k:,} revealed, {grades_range(grades)}"
    cell = settle(problem, proved, found)
    shown = rate_rows(cell.rate)
    if feedback != "answers":
        shown.add_row("feedback", FEEDBACK[feedback])
    if proved:
        shown.add_row("why", proved.reason)
    if found is None:
        shown.add_row("basis", "theorem only; --from both also computes small games from the definitions")
    else:
        add_facts(shown, found, "rankings")
    if cell.how == "both":
        shown.add_row("basis", "theorem and definitions, which agree")
    data = {
        "measure": str(measure),
        "m": m,
        "k": k,
        "grades": grades,
        "feedback": feedback,
        "rate": cell.rate and str(cell.rate),
        "basis": cell.basis,
        "how": cell.how,
        "reason": proved and proved.reason,
        "definitions": found and facts_of(found),
    }
    return _Output([f"[bold]{problem}", shown], data, analysis=found)


def _bound_factor(
    measure: Measure, m: int, options: Mapping[str, Any], grades: int, progress: Progress
) -> _Output:
    """Bound the best factor of a measure: from both sides for a few items, otherwise from above."""
    k, certificate = options["--k"], options["--certificate"]
    check_int("k", k, 1, m)
    problem = f"{measure}, m = {pluralize(m, 'item')}, k = {k:,} revealed, {grades_range(grades)}"
    data: dict[str, Any] = {"measure": str(measure), "m": m, "k": k, "grades": grades}
    shown, proof = labelled(), None
    if m <= MAX_ITEMS:
        found = best_factor(measure, m, k, grades, options["--programs"] or PROGRAMS, progress)
        proof, exact = found.certificate, found.exact_upper
        least, most = floor(found.lower * 1e5) / 1e5, ceil(found.upper * 1e5 - 1e-6) / 1e5
        shown.add_row("best factor", f"{least:.5f} to {most:.5f}" + (f" = {exact}" if exact else ""))
        guaranteed = f"a learner can guarantee {least:.2%} of the best ranking's value, up to o(T)"
        shown.add_row("meaning", f"{guaranteed}; no learner more than {most:.2%}")
        shown.add_row(
            "basis", f"{pluralize(found.programs, 'linear program')} in floating point, and an adversary"
        )
        data |= {"lower": found.lower, "upper": found.upper, "exact_upper": exact and str(exact)}
    else:
        if certificate:
            raise ValueError(f"--certificate with --best-factor needs m up to {MAX_ITEMS}")
        ceiling = factor_ceiling(measure, m, k)
        if ceiling is None:
            raise ValueError(f"--best-factor of {measure} needs m up to {MAX_ITEMS}")
        shown.add_row("best factor", f"at most {ceil(ceiling * 1e5 - 1e-6) / 1e5:.5f}")
        shown.add_row("basis", f"an adversary with two blocks of items; both bounds need m up to {MAX_ITEMS}")
        data |= {"lower": None, "upper": ceiling, "exact_upper": None}
    shown.add_row(
        "skipped",
        "queries without relevant items" + ("; the value is 1 - aucloss" if isinstance(measure, AUCLoss) else ""),
    )
    return _Output([f"[bold]{problem}", shown], data, proof=proof)


def _analyse_game(name: str, game: Game, progress: Progress) -> _Output:
    """Analyse a classic game or one from a file, action by action."""
    found = analyse(game, progress=progress)
    example = CLASSIC.get(name)
    about = f": {example.about}" if example else ""
    heading: list[RenderableType] = [f"[bold]{escape(name)}[/]{about}"]
    if example and example.reference:
        heading.append(f"[dim]{example.reference}")
    actions = actions_of(game, found.cells) if found.cells else []
    if actions:
        heading.append(action_table(actions, len(game.outcomes)))
    if len(actions) > MAX_ACTIONS:
        heading.append(f"... and {pluralize(len(actions) - MAX_ACTIONS, 'more action')}; --json FILE writes all.")
    shown = rate_rows(found.rate)
    add_facts(shown, found, "actions")
    data = {
        "game": name,
        "rate": found.rate and str(found.rate),
        "definitions": facts_of(found),
        "actions": actions,
    }
    return _Output([*heading, shown], data, analysis=found)


def _named(name: str) -> Measure | Game:
    if Path(name).suffix.lower() not in (".csv", ".json"):
        if re.split("[@+:]", name)[0] in MEASURES:
            return measure_named(name)
        if name in CLASSIC:
            return CLASSIC[name].game
        if not Path(name).exists():
            raise ValueError(f"unknown measure or game '{name}': {suggest(name, [*MEASURES, *CLASSIC])}")
    return read_game(name)
