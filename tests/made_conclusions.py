"""Learners whose experiments are concluded."""

from __future__ import annotations

import numpy as np

import posse

ARMS, PLAYERS = ["today", "new", "free"], ["north", "south"]
MEANS = np.array([[0.1, 0.4, 0.9], [0.9, 0.4, 0.1]])


def learned(rounds, means=MEANS, seed=0, players=PLAYERS, **options):
    """A learner that has made so many decisions for each player."""
    learner = posse.Learner(posse.IndTS(), ARMS, players, seed=seed, clock=lambda: 0.0, **({"floor": 0.1} | options))
    random = np.random.default_rng(seed)
    low, high = options.get("reward_range", (0.0, 1.0))
    for _ in range(rounds):
        made, drawn = learner.choose(players), random.random(len(players))
        won = [drawn[p] < means[p, ARMS.index(each.arm)] for p, each in enumerate(made)]
        learner.observe({each.id: high if win else low for each, win in zip(made, won, strict=True)})
    return learner
