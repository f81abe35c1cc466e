"""Growth of the worst regret of every learner on a grid of games, against the expected exponents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from peekrank.experiments.experiment import Experiment
from peekrank.experiments.study import HORIZONS, Setting, Study, play_setting
from peekrank.experiments.study_result import StudyResult, Worst
from peekrank.experiments.study_runs import run_study
from peekrank.papers.record import Claim, Options, Results, mean_exceeds
from peekrank.reports import plots
from peekrank.reports.markup import Table
from peekrank.reports.numbers import bound_text, exponent_text, regret_text
from peekrank.types import Floats

QUICK, QUICK_RUNS = (1_000, 8_000), 2
NEAR = 0.08  # tolerance of an exponent
SUBLINEAR = 0.85
CT15_RUNS, QUICK_CT15_RUNS = 40, 5

FTRL = ("blockftrl", "blockftrl:horizon=none")
SETS = ("setftrl", "setftrl:horizon=none")
ALL_SEEN = ("permftrl", "permftrl:horizon=none")
SLOW = ("feedexp3", "feedexp3:horizon=none")
REFERENCES = ("ftpl", "uniform")


class Game(NamedTuple):
    """A game, and the learners to run on it."""

    measure: str
    m: int
    k: int
    learners: tuple[str, ...]
    horizons: tuple[int, ...] = HORIZONS
    runs: int = 10

    @property
    def name(self) -> str:
        """Name of the files."""
        long = "" if self.horizons == HORIZONS else "-long"
        return f"rates-{self.measure.replace('@', '').removesuffix('+sum')}-m{self.m}-k{self.k}{long}"

    @property
    def title(self) -> str:
        """Title of the game."""
        long = "" if self.horizons == HORIZONS else ", longer horizons"
        return f"`{self.measure}`, m = {self.m}, k = {self.k}{long}"


PRECISION = Game("p@2+sum", 5, 1, (*SETS, "rtop1f", *FTRL))
SUM_1 = Game("sumloss", 5, 1, ("rtop1f", *FTRL))
SUM_4 = Game("sumloss", 5, 4, (*ALL_SEEN, "rtop1f", *FTRL))
DCG_1 = Game("dcg", 5, 1, ("rtop1f", *FTRL, "marginftrl"))
DCG_4 = Game("dcg", 5, 4, (*ALL_SEEN, "rtop1f", *FTRL))
CUT = Game("dcg@2", 5, 2, (*ALL_SEEN, "rtop1f", *FTRL))
TEN = Game("dcg", 10, 1, ("rtop1f", "rtop1f:order=fixed", *FTRL, *REFERENCES))
TEN_LONG = Game("dcg", 10, 1, ("blockftrl:horizon=none",), (128_000, 512_000, 2_048_000), runs=4)
SMALL = Game("p@2+sum", 3, 1, ("nw2", "nw2:horizon=none", "nw2:paper_rate=true", "feedexp3", *SETS))
SMALL_DCG = Game("dcg", 3, 1, (*SLOW, "rtop1f", *FTRL))
GRID = (PRECISION, SUM_1, SUM_4, DCG_1, DCG_4, CUT, TEN, TEN_LONG, SMALL, SMALL_DCG)
QUICK_GRID = (PRECISION, DCG_1, DCG_4, SMALL)  # all learners except the references

HALVES = {PRECISION: SETS, SUM_4: ALL_SEEN, DCG_4: ALL_SEEN, CUT: ALL_SEEN}
TWO_THIRDS = {**dict.fromkeys((SUM_1, DCG_1, TEN), ("rtop1f", *FTRL)), TEN_LONG: FTRL[1:]}


def claims(found: dict[Game, StudyResult], ct15: dict[str, Floats]) -> Iterator[Claim]:
    """Yield the claims on the grid."""
    for games, target, words in ((HALVES, 1 / 2, "1/2"), (TWO_THIRDS, 2 / 3, "2/3")):
        for game, learners in games.items():
            for learner in learners if game in found else ():
                exponent = found[game].exponent(learner)
                yield Claim(
                    f"exponent of `{learner}`, {game.title}",
                    f"{words} ± {NEAR}",
                    f"{exponent_text(exponent)} ({found[game].study.runs} runs per setting)",
                    abs(exponent.value - target) <= NEAR,
                )
    slow = found[PRECISION].exponent("rtop1f")
    yield Claim(
        f"CT15 Theorem 10: exponent of `rtop1f`, {PRECISION.title}",
        f"2/3 + {NEAR} at most",
        f"{exponent_text(slow)} ({found[PRECISION].study.runs} runs per setting)",
        slow.value <= 2 / 3 + NEAR,
    )
    yield from _five_times(found[PRECISION])
    ours, best, fixed = (ct15[name] for name in ("blockftrl:horizon=none", "rtop1f", "rtop1f:order=fixed"))
    simulation = "CT15's simulation: `dcg`, m = 10, k = 1, noise 0.25, 10,000 rounds"
    yield Claim(
        f"{simulation}: `blockftrl:horizon=none` against `rtop1f:order=fixed`",
        "at most half",
        f"{spread(ours)} against {spread(fixed)}: {ours.mean() / fixed.mean():.2f} ({len(ours)} runs)",
        bool(ours.mean() <= fixed.mean() / 2),
    )
    yield Claim(
        f"{simulation}: the same against `rtop1f`",
        "below, with all of the 95 % interval",
        f"{spread(ours)} against {spread(best)}: {ours.mean() / best.mean():.2f} ({len(ours)} runs)",
        mean_exceeds(best - ours, 0),
    )
    small = found[SMALL]
    printed, corrected = (small.exponent(name) for name in ("nw2:paper_rate=true", "nw2"))
    yield Claim(
        f"exponent of `nw2:paper_rate=true`, {SMALL.title}",
        f"1 ± {NEAR}: linear",
        f"{exponent_text(printed)} ({small.study.runs} runs per setting)",
        abs(printed.value - 1) <= NEAR,
    )
    yield Claim(
        f"exponent of `nw2`, {SMALL.title}",
        f"below {SUBLINEAR}: sublinear",
        f"{exponent_text(corrected)} ({small.study.runs} runs per setting)",
        corrected.value < SUBLINEAR,
    )
    points = [w for f in found.values() for name in f.study.learners for w in f.worst(name) if w.bound is not None]
    held = sum(bool(w.within_bound) for w in points)
    yield Claim(
        "worst mean regret within the bound, every learner that has one, every game and horizon",
        "all",
        f"{held:,} of {len(points):,}",
        held == len(points),
    )


def _five_times(findings: StudyResult) -> Iterator[Claim]:
    horizon = 64_000
    if horizon not in findings.study.horizons:
        return
    rtop1f = _at(findings, "rtop1f", horizon)
    for name in SETS:
        mine = _at(findings, name, horizon)
        ratio = rtop1f.regret / mine.regret
        yield Claim(
            f"`rtop1f` over `{name}`, {PRECISION.title}, {horizon:,} rounds, each on its worst stream",
            "5 at least",
            f"{regret_text(rtop1f)} over {regret_text(mine)}: {ratio:.1f} ({findings.study.runs} runs)",
            ratio >= 5,
        )


def _at(findings: StudyResult, learner: str, horizon: int) -> Worst:
    return next(w for w in findings.worst(learner) if w.horizon == horizon)


def play_ct15(runs: int) -> dict[str, Floats]:
    """Return the final regrets on CT15's simulation."""
    learners = ("blockftrl:horizon=none", "rtop1f", "rtop1f:order=fixed")
    experiment = Experiment(learners, "ct15:m=10,noise=0.25", "dcg", k=1, horizon=10_000, runs=runs)
    regrets = play_setting(Setting("ct15", experiment))["regret"].to_numpy().reshape(len(learners), runs)
    return dict(zip(learners, regrets, strict=True))


def spread(regrets: Floats) -> str:
    """Format mean and standard deviation."""
    return f"{regrets.mean():,.0f} ± {np.std(regrets, ddof=1):,.0f}"


def game_table(findings: StudyResult) -> Table:
    """Return a table of regret at the first, the middle and the last horizon, with exponents."""
    study = findings.study
    shown = sorted({study.horizons[0], study.horizons[len(study.horizons) // 2], study.horizons[-1]})
    last = f"{study.horizons[-1]:,}"
    heads = ("learner", *(f"T = {t:,}" for t in shown), "exponent, 95 %", f"bound at {last}", f"worst at {last}")
    rows = []
    for learner in study.learners:
        worst = {w.horizon: w for w in findings.worst(learner)}
        end = worst[study.horizons[-1]]
        numbers = (regret_text(worst[t]) for t in shown)
        exponent = exponent_text(findings.exponent(learner))
        rows.append((f"`{learner}`", *numbers, exponent, bound_text(end), end.stream))
    return Table(heads, rows)


def study_of(game: Game, *, quick: bool) -> Study:
    """Return the study of a game."""
    horizons, runs = (QUICK, QUICK_RUNS) if quick else (game.horizons, game.runs)
    return Study(game.measure, game.m, game.k, game.learners, horizons=horizons, runs=runs)


def play(options: Options) -> dict[Game, StudyResult]:
    """Run all games of the grid, or a few if quick."""
    studies = {game: study_of(game, quick=options.quick) for game in (QUICK_GRID if options.quick else GRID)}
    tick = options.counter(sum(study.rounds for study in studies.values()))
    return {
        game: run_study(study, options.folder / game.name, workers=options.workers, progress=tick)
        for game, study in studies.items()
    }


def reproduce(options: Options) -> Results:
    """Run the grid, and CT15's simulation."""
    found = play(options)
    ct15 = play_ct15(QUICK_CT15_RUNS if options.quick else CT15_RUNS)
    return Results(
        list(claims(found, ct15)),
        {game.name: game_table(findings) for game, findings in found.items()},
        {game.name: plots.worst_regret(findings) for game, findings in found.items()},
        {game.name: findings.summary() for game, findings in found.items()},
    )
