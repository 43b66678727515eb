"""A learner after much has happened to it."""

from __future__ import annotations

import random

from small_learner import Clock, new


def busy(policy, seed=0, rounds=60, **options):
    """A learner that has seen everything: history, late and missing rewards, joiners, retirements, defaults."""
    chance, clock = random.Random(seed), Clock()
    learner = new(policy, clock=clock, default_reward=0.0, patience=50, waiting_limit=30, **options)
    learner.record([("north", "tea", 0.5), ("south", "tea", 0.25)])
    waiting = []
    for t in range(rounds):
        clock.now += chance.random() * 3
        names = chance.sample(learner.players, chance.randint(0, len(learner.players)))
        waiting += learner.choose(names)
        chance.shuffle(waiting)
        taken, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :][:15]
        known = {row.serial for row in learner.ledger.waiting.values()}
        learner.observe([(d.id, chance.randint(0, 8) / 8) for d in taken if int(d.id.split("-")[0]) in known])
        if t == 20:
            learner.join("west")
            learner.join("far west", knows_others=False)
            learner.add_arm("juice")
        if t == 30:
            learner.set_shares({"cocoa": (0.05, 0.4), "juice": 0.1})
        if t == 40:
            learner.retire("north")
            learner.retire_arm("coffee")
    return learner, clock
