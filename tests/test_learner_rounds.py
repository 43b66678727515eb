"""Several players in one round: one call of the kernel makes all of their decisions."""

from __future__ import annotations

import numpy as np

import posse

ARMS = ["tea", "coffee", "cocoa"]
SHOPS = ["north", "south", "east"]


def new(**options):
    return posse.Learner(posse.RobustAggTS(0.1), ARMS, SHOPS, seed=3, **options)


def test_a_round_is_what_each_player_would_choose_alone():
    """With a floor, a holdout and the weight of others' data; the burn-in ends in the middle of the round."""
    learner = new(floor=0.01, holdout=0.2, burn_in=6)
    learner.observe([(decision, 1.0) for decision in learner.choose(SHOPS)])
    learner.observe(learner.choose("north"), 0.0)
    state, places = learner.state, [0, 1, 2]
    alone = []
    for serial, place in enumerate(places, start=4):
        state.decisions = serial
        alone += state.choose([place], state.arm_roster.here, 0.0)
        state.rounds -= 1
    state.decisions = 4
    assert state.choose(places, state.arm_roster.here, 0.0) == alone
    distinct = [len(set(decision.probabilities.values())) for decision, _ in alone]
    assert distinct[:2] == [1, 1]
    assert distinct[2] > 1


def test_each_player_may_be_offered_other_arms():
    offered, own = np.array([True, True, False]), np.array([False, False, True])
    (one, _), (two, row) = new().state.choose([0, 1], offered, 0.0, {1: own})
    assert (list(one.probabilities), list(two.probabilities)) == (ARMS[:2], ARMS[2:])
    assert np.isnan(np.frombuffer(row.probabilities)).tolist() == [True, True, False]


def test_a_player_that_knows_nothing_of_others_sees_no_pulls():
    learner = new()
    learner.observe([(decision, 1.0) for decision in learner.choose(SHOPS)])
    learner.join("west", knows_others=False)
    learner.join("far west")
    assert not learner.state.known.seen[:, :, 3].any()
    assert learner.state.known.seen[0, :, 4].sum() == 3
