"""A small learner for tests, its clock, and everything that decides in it."""

from __future__ import annotations

import posse

ARMS = ["tea", "coffee", "cocoa"]
SHOPS = ["north", "south", "east"]


class Clock:
    """A clock that stands until it is moved, forwards or backwards."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def new(policy=None, **options):
    options = {"arms": ARMS, "players": SHOPS, "seed": 3, **options}
    return posse.Learner(policy or posse.RobustAggTS(0.1), **options)


def state(learner):
    """Everything that decides, to be compared."""
    return (
        *(getattr(learner.state.known, name).tolist() for name in learner.state.core.kept),
        learner.state.waiting.tolist(),
        learner.rounds,
        learner.decisions,
        learner.events,
        learner.state.player_roster.names,
        learner.state.player_roster.here.tolist(),
        learner.state.arm_roster.names,
        learner.state.arm_roster.here.tolist(),
    )
