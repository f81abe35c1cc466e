"""``peekrank advise``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from peekrank._util.text import wrapped
from peekrank.advice import Advice, SurrogateAdvice, Witness, advise, advise_surrogate
from peekrank.cli._options import FeedbackKind, Grades, Imports, Items, JsonFile, Revealed, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._verbosity import configure_output
from peekrank.games.feedback import check_feedback
from peekrank.registry import MEASURES, SURROGATES
from peekrank.spec import suggest

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_LISTS = 16

EXAMPLES = """\
# Ten items, one answer per round, DCG.
peekrank advise dcg --m 10 --k 1 --horizon 10000
# Can NDCG be learned from five answers? As JSON.
peekrank advise ndcg@10 --m 100 --k 5 --json -
# One thumb for the first five items together.
peekrank advise dcg --m 10 --k 5 --feedback sum"""
JSON_KEYS = {
    "measure, surrogate": "the subject: one of the two",
    "m, k, grades, horizon, feedback": "the problem; a surrogate has neither horizon nor feedback",
    "verdict": "of a measure: rate, basis and reason",
    "rate, reason": "of a surrogate",
    "learner, stationary, hedged": "specifications for relevance that may change, for stationary, for both",
    "scored": "specification to use if the app has a score",
    "guarantee, bound, max_regret": "growth rate and bound of its regret, and the largest possible regret",
    "informative_from, vacuous": "horizon from which the bound is informative; whether it is vacuous here",
    "evidence": "benchmarks of the advised learners",
    "changes": "similar problems that are easier",
    "lower_bound": "regret that no learner can avoid, or null",
    "factor_ceiling": "if the rate is T: a share of the best value that no learner can exceed, or null",
    "witness": "of a hopeless surrogate: two adversaries",
    "notes": "what should not be overlooked",
}


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MEASURE|SURROGATE",
            help="Measure of rankings, such as dcg, p@3 or rbp:p=0.95, or surrogate loss of scores, such as "
            "squared, kl or listnet.",
        ),
    ],
    m: Items,
    k: Revealed,
    horizon: Annotated[
        int | None,
        typer.Option(help="Number of rounds, if known. Bounds are then numbers.", show_default=False),
    ] = None,
    grades: Grades = 2,
    feedback: FeedbackKind = None,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Say whether a measure can be learned from k answers, how fast, and with which learner."""
    import_all(imports)
    configure_output(json_file)
    check_outputs(json_file)
    advice = _advice_on(name, m, k, horizon, grades, feedback)
    echo(*_render(advice, json_file))
    write_json(json_file, advice.as_dict)


def _advice_on(
    name: str, m: int, k: int, horizon: int | None, grades: int, feedback: str | None
) -> Advice | SurrogateAdvice:
    """Return advice on a measure or surrogate. Advice on a surrogate does not depend on the horizon."""
    base = re.split("[@+:/]", name)[0]
    if base in SURROGATES:
        if feedback is not None:
            raise ValueError(
                "--feedback applies to measures only: learners of surrogates need an answer for each item"
            )
        return advise_surrogate(name, m, k, grades)
    if base not in MEASURES:
        raise ValueError(f"unknown measure or surrogate '{name}': {suggest(base, [*MEASURES, *SURROGATES])}")
    return advise(name, m, k, horizon, grades, check_feedback(feedback or "answers"))


def _render(advice: Advice | SurrogateAdvice, json_file: Path | None) -> list[RenderableType]:
    """Render advice with labels in a column, and the adversaries of a surrogate with linear regret.

    A specification is never broken, so that it can be copied, even if it is wider than the terminal.
    """
    width, indent = Console().width, max(len(label) for label, _ in advice.rows) + 2
    lines = Text("\n").join(
        Text.assemble((f"{label:<{indent}}", "dim"), f"\n{' ' * indent}".join(wrapped(text, width - indent)))
        for label, text in advice.rows
    )
    if isinstance(advice, Advice) or advice.witness is None:
        return [lines]
    return [lines, "", *_render_witness(advice.witness, json_file)]


def _render_witness(witness: Witness, json_file: Path | None) -> list[RenderableType]:
    """Render both adversaries list by list, or say where to find them if there are many lists."""
    if len(witness.relevance) > _MAX_LISTS:
        where = f"{json_file} has them" if json_file else "--json FILE writes them"
        return [Text(f"The adversaries have {len(witness.relevance):,} lists: {where}.")]
    used = max(i for row in witness.relevance for i, grade in enumerate(row, 1) if grade)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column(f"relevance of items 1 to {used}")
    for header in ("adversary p", "adversary q"):
        table.add_column(header, justify="right")
    for row, *probabilities in zip(*witness[:3], strict=True):
        table.add_row(" ".join(map(str, row[:used])), *(f"{p:g}" for p in probabilities))
    others = " All other items are irrelevant." if used < len(witness.relevance[0]) else ""
    explanation = f"For any k items, both adversaries give the same distribution of their relevance.{others}"
    return [table, Text(explanation)]
