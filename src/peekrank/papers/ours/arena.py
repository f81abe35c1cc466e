"""Learners of finite games in the arena: classic and ranking games, against the opponents of each game."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from peekrank.experiments.arena import ArenaResult, run_arena
from peekrank.games.classic import CLASSIC
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.learners.feedexp3.learner import FeedExp3
from peekrank.learners.nw2.learner import NW2
from peekrank.papers.record import Claim, Heartbeat, Options, Results, count
from peekrank.reports.markup import Table
from peekrank.types import Learner

LEARNERS: dict[str, Callable[[Game, int], Learner]] = {"feedexp3": FeedExp3, "nw2": NW2}
EXPONENTS = {"feedexp3": (2 / 3, "2/3"), "nw2": (1 / 2, "1/2")}
PLAYS = {"feedexp3": (Rate.ZERO, Rate.SQRT, Rate.TWO_THIRDS), "nw2": (Rate.ZERO, Rate.SQRT)}
HORIZONS = (1_000, 4_000, 16_000, 64_000)
RUNS = 6
RECORD = HORIZONS[:3]  # for `peekrank reproduce`: the last one takes five minutes
QUICK, QUICK_RUNS = (500, 2_000), 2
QUICK_GAMES = ("apple-tasting", "label-efficient", "matching-pennies", "blind-pennies", "`p@2+sum` m = 3, k = 1")
COLUMNS = {
    "game": pl.String, "rate": pl.String, "learner": pl.String, "horizon": pl.Int64, "worst": pl.Float64,
    "sd": pl.Float64, "opponent": pl.String, "bound_at_last": pl.Float64, "reason": pl.String,
}  # fmt: skip
NEAR = 0.08  # tolerance above the guaranteed exponent
RANKINGS = (("ndcg", 1), ("ndcg", 2), ("ap", 2), ("dcg", 1), ("dcg", 2), ("p@1+sum", 1), ("p@2+sum", 1))


def games() -> dict[str, Game]:
    """Return the classic games, and ranking games with three items."""
    rankings = {f"`{measure}` m = 3, k = {k}": ranking_game(measure, m=3, k=k) for measure, k in RANKINGS}
    return {name: example.game for name, example in CLASSIC.items()} | rankings


def reproduce(options: Options) -> Results:
    """Run all games, or a few."""
    chosen = {name: game for name, game in games().items() if not options.quick or name in QUICK_GAMES}
    horizons, runs = (QUICK, QUICK_RUNS) if options.quick else (RECORD, RUNS)

    def job(name: str, learner: str) -> Callable[[Heartbeat], pl.DataFrame]:
        game, factory = {name: chosen[name]}, {learner: LEARNERS[learner]}
        return lambda alive: as_frame(*run_arena(game, factory, horizons, runs, progress=lambda _: alive()))

    pairs = {file_of(name, learner): (name, learner) for name in chosen for learner in LEARNERS}
    # the largest games first, so that all threads finish at about the same time
    size = {name: game.loss.size for name, game in chosen.items()}
    largest_first = sorted(pairs, key=lambda file: -size[pairs[file][0]])
    found = options.frames({file: job(*pairs[file]) for file in largest_first})
    results = [as_crossing(found[file]) for file in pairs]
    data = pl.concat(found[file] for file in pairs).with_columns(pl.col("game").str.replace_all("`", ""))
    return Results(list(claims(results, runs)), {"arena": table(results)}, data={"arena": data})


def file_of(name: str, learner: str) -> str:
    """Return the name of the file with the results of a learner in a game.

    >>> file_of("`p@2+sum` m = 3, k = 1", "nw2")
    'p2sum-m3-k1-nw2'
    """
    return f"{re.sub('[^a-z0-9-]', '', name.replace(' m', '-m').replace(', k', '-k'))}-{learner}"


def as_frame(crossing: ArenaResult) -> pl.DataFrame:
    """Return a row for each horizon, or one row without horizon if the learner does not fit."""
    numbers = zip(crossing.horizons, crossing.worst.tolist(), crossing.spread.tolist(), strict=True)
    rows = [
        (crossing.game, None if crossing.rate is None else str(crossing.rate), crossing.learner, *line,
         crossing.opponent, crossing.bound, crossing.reason)
        for line in (numbers if crossing.horizons else [(None, None, None)])
    ]  # fmt: skip
    return pl.DataFrame(rows, COLUMNS, orient="row")


def as_crossing(frame: pl.DataFrame) -> ArenaResult:
    """Invert `as_frame`."""
    first = frame.row(0, named=True)
    played = frame.drop_nulls("horizon")
    return ArenaResult(
        first["game"],
        None if first["rate"] is None else Rate(first["rate"]),
        first["learner"],
        tuple(played["horizon"].to_list()),
        played["worst"].to_numpy(),
        played["sd"].to_numpy(),
        first["opponent"],
        first["bound_at_last"],
        first["reason"],
    )


def claims(results: Sequence[ArenaResult], runs: int) -> Iterator[Claim]:
    """Yield claims on the games that each learner fits, on its bounds and on its rates."""
    for name, (target, words) in EXPONENTS.items():
        mine = [r for r in results if r.learner == name]
        right = [(not r.reason) == (r.rate in PLAYS[name]) for r in mine]
        yield Claim(
            f"`{name}` plays the games of the rates {', '.join(PLAYS[name])}, and rejects the others",
            "all",
            f"{count(sum(right), len(right))} games",
            all(right),
        )
        bounded = [r for r in mine if r.bound is not None]
        kept = [bool(r.worst[-1] <= r.bound) for r in bounded if r.bound is not None]
        yield Claim(
            f"`{name}`: worst mean regret within the bound at the last horizon",
            "all",
            f"{count(sum(kept), len(kept))} games ({runs} runs each)",
            all(kept),
        )
        sloped = [r for r in mine if r.exponent == r.exponent]
        largest = max(sloped, key=lambda r: r.exponent)
        yield Claim(
            f"`{name}`: exponent of the worst mean regret, every game",
            f"{words} + {NEAR} at most",
            f"{largest.exponent:.2f} at most, in {largest.game} ({len(sloped)} games, {runs} runs each)",
            largest.exponent <= target + NEAR,
        )


def table(results: Sequence[ArenaResult]) -> Table:
    """Return a table of the worst regret at the largest horizon; ± is the standard deviation over runs."""
    heads = ("game", "rate", "learner", "worst regret", "bound", "exponent", "worst opponent")
    rows: list[tuple[object, ...]] = []
    for r in results:
        first = (r.game, r.rate, f"`{r.learner}`")
        if r.reason:
            rows.append((*first, re.split(r"\. |; | \(", r.reason)[0], "", "", ""))
            continue
        bound = "" if r.bound is None else f"{r.bound:,.0f}"
        slope = "" if r.exponent != r.exponent else f"{r.exponent:.2f}"
        rows.append((*first, f"{r.worst[-1]:,.0f} ± {r.spread[-1]:,.0f}", bound, slope, r.opponent))
    return Table(heads, rows)
