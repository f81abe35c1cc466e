"""Checks that every learner must pass."""

from __future__ import annotations

from collections.abc import Callable

from peekrank.checks.common import run_all, specification_round_trips
from peekrank.checks.learners.kernels import (
    any_list_of_its_items,
    knows_items_by_their_numbers,
    own_decisions_are_on_policy,
    propensities_are_true,
    rank_is_exploit_then_explore,
)
from peekrank.checks.learners.learning import (
    beats_random_rankings,
    keeps_its_bound,
    learns,
    learns_from_features,
    learns_though_answers_are_missing,
)
from peekrank.checks.learners.rounds import (
    bad_parameters_are_named,
    every_member_is_there,
    inputs_stay_as_they_were,
    late_and_missing_answers,
    only_the_top_k_is_seen,
    play_equals_simulate,
    rankings_are_permutations,
    same_seed_same_trajectory,
)
from peekrank.checks.learners.state import (
    damaged_memory_is_refused,
    dump_resumes,
    looking_changes_nothing,
    memory_is_constant,
    says_whether_rank_is_remembered,
)
from peekrank.types import Learner

LEARNER_CHECKS: dict[str, Callable[[Learner], None]] = {
    check.__name__: check
    for check in (
        every_member_is_there,
        rankings_are_permutations,
        inputs_stay_as_they_were,
        same_seed_same_trajectory,
        play_equals_simulate,
        dump_resumes,
        says_whether_rank_is_remembered,
        damaged_memory_is_refused,
        looking_changes_nothing,
        propensities_are_true,
        late_and_missing_answers,
        only_the_top_k_is_seen,
        bad_parameters_are_named,
        specification_round_trips,
        memory_is_constant,
        keeps_its_bound,
        learns,
        beats_random_rankings,
        learns_though_answers_are_missing,
        learns_from_features,
        own_decisions_are_on_policy,
        rank_is_exploit_then_explore,
        any_list_of_its_items,
        knows_items_by_their_numbers,
    )
}


def check_learner(learner: Learner) -> None:
    """Run every check of a learner."""
    run_all(LEARNER_CHECKS, learner)
