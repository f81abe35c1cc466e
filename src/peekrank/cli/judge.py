"""``peekrank judge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._options import Imports, JsonFile, Seed, import_all
from peekrank.cli._outputs import check_outputs, echo, write_json
from peekrank.cli._tables import TerminalTable
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import number

if TYPE_CHECKING:
    from peekrank.evaluation.judging import Interval, Judging, Pool

EXAMPLES = """\
# Choose 100 documents to have judged.
peekrank judge today.run new.run --qrels judged.qrels --budget 100
# Say what the judgements in the file say.
peekrank judge today.run new.run --qrels judged.qrels"""
JSON_KEYS = {
    "measure, alpha": "the options",
    "queries, pairs": "number of queries, and of pairs of a query and a document that count",
    "known, judged, missing": "pairs judged before the first draw, judged since, and drawn but not judged",
    "difference, values": "the difference and both values: estimate, low, high",
    "verdict": "whether the value of the first run is higher or lower than that of the second, or undecided",
    "history": "the difference before the first judgement and after each",
    "next": "the pairs to judge: query, document",
}


def command(
    one: Annotated[Path, typer.Argument(metavar="ONE.run", help="TREC run: the rankings of a system.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER.run", help="TREC run to compare with.")],
    qrels: Annotated[
        Path,
        typer.Option(metavar="FILE", help="TREC qrels with the judgements; pairs to judge next are added to it."),
    ],
    budget: Annotated[
        int, typer.Option(help="Number of pairs to choose for the next judgements.", show_default="none")
    ] = 0,
    measure: Annotated[
        str, typer.Option(help="Measure: a sum over documents, such as dcg@10, p@5 or rbp.")
    ] = "dcg@10",
    max_grade: Annotated[int, typer.Option(help="Largest grade of a judgement.")] = 1,
    predictions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Predicted grades on any scale, such as an LLM's, as TREC qrels."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Error probability of each interval.")] = 0.05,
    seed: Seed = 0,
    json_file: JsonFile = None,
    imports: Imports = None,
) -> None:
    """Choose the documents to have judged next, and say from judgements which of two runs is better.

    Documents are drawn at random, those most likely on which the runs disagree. Judge them in the order of the
    file, replace -1 by the grade, and call again, as often as you like: the intervals hold at all times.
    """
    from peekrank._util.validate import check_int
    from peekrank.evaluation.judged_batches import resume, with_next_batch
    from peekrank.evaluation.judging import group_by_position, group_by_prediction, make_pool
    from peekrank.evaluation.trec import read_qrels, read_run, write_qrels
    from peekrank.measures import measure as measure_named

    check_int("--budget", budget, 0)
    import_all(imports)
    goal = measure_named(measure)
    configure_output(json_file)
    read = [one, other, *([predictions] if predictions else [])]
    check_outputs(qrels if budget else None, json_file, read=read)
    if not (budget or qrels.exists()):
        raise ValueError(f"{qrels} does not exist; --budget N chooses the first pairs to judge")
    pool = make_pool(read_run(one), read_run(other), goal, max_grade=max_grade)
    lines = read_qrels(qrels) if qrels.exists() else []
    groups = group_by_position(pool)
    if predictions:
        groups = group_by_prediction(pool, {(p.query, p.document): p.grade for p in read_qrels(predictions)})
    judging = resume(pool, lines, qrels.name, groups=groups, seed=seed, alpha=alpha)
    if budget and judging.missing:
        raise ValueError(
            f"{qrels}: {pluralize(judging.missing, 'pair')} of the last batch are not judged yet; "
            "judge them first, or leave --budget out"
        )
    if budget and not judging.left:
        raise ValueError(f"{qrels}: all {len(pool.pairs):,} pairs are judged; leave --budget out")
    if budget:
        lines = with_next_batch(judging, lines, budget)
        write_qrels(qrels, lines)
    names = [one.stem, other.stem] if one.stem != other.stem else [str(one), str(other)]
    echo(*_render(judging, pool, names, str(goal)))
    todo = [] if not judging.missing else [(p.query, p.document) for p in lines][-judging.missing :]
    if budget:
        echo(
            Text(f"Added {pluralize(len(todo), 'pair')} to {qrels}: replace each -1 by a grade, from the top down")
        )
    elif todo:
        echo(
            Text(
                f"{pluralize(len(todo), 'pair')} not judged yet, from query {todo[0][0]}, document {todo[0][1]} on"
            )
        )
    write_json(json_file, lambda: _as_dict(judging, pool, todo) | {"measure": str(goal), "alpha": alpha})


def _render(judging: Judging, pool: Pool, names: list[str], measure: str) -> list[TerminalTable | Text]:
    known = f", {judging.known:,} known before" if judging.known else ""
    judged = f"{judging.judged:,} of {len(pool.pairs):,} pairs judged{known}"
    level = f"{1 - judging.alpha:.0%} anytime CI"
    verdict = {"higher": f"{names[0]} is better", "lower": f"{names[1]} is better"}.get(
        judging.verdict, "undecided"
    )
    rows = [
        (
            name,
            [number(each.estimate) if judging.judged else "", f"{number(each.low)} to {number(each.high)}", told],
        )
        for name, each, told in (
            (names[0], judging.values[0], ""),
            (names[1], judging.values[1], ""),
            (f"{names[0]} - {names[1]}", judging.difference, verdict),
        )
    ]
    title = f"{measure}, mean over {pluralize(pool.queries, 'query', 'queries')}: {judged}"
    table = TerminalTable(title, ["run", "estimate", level, "verdict"], [("", [name, *row]) for name, row in rows])
    return [table, Text("The intervals are about these queries and documents, and hold after every judgement.")]


def _as_dict(judging: Judging, pool: Pool, todo: list[tuple[str, str]]) -> dict[str, Any]:
    def plain(each: Interval) -> dict[str, float]:
        return each._asdict()

    return {
        "queries": pool.queries,
        "pairs": len(pool.pairs),
        "known": judging.known,
        "judged": judging.judged,
        "missing": judging.missing,
        "difference": plain(judging.difference),
        "values": [plain(each) for each in judging.values],
        "verdict": judging.verdict,
        "history": [plain(each) for each in judging.history],
        "next": [{"query": query, "document": document} for query, document in todo],
    }
