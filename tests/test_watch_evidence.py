"""The evidence behind watching a log, beside slow versions of it, and how often it is wrong over many experiments."""

from __future__ import annotations

import itertools
import math

import naive_watch
import numpy as np
import pytest
import watch_coverage
from sizes import FULL

from posse.insight.watching.evidence import (
    CELLS,
    POINTS,
    DecisionBlock,
    EffectEvidence,
    RewardGuess,
    ShareEvidence,
    Trail,
    WatchEvidence,
)


def made(rows, arms=3, players=2, seed=0, offered=1.0):
    """A block whose arms are drawn as it says; arms are missing from the offer with probability 1 − offered."""
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.ones(arms), rows) * (random.random((rows, arms)) < offered)
    weights[:, 0] += 0.05
    chances = weights / weights.sum(axis=1, keepdims=True)
    arm = np.minimum((random.random(rows)[:, None] > chances.cumsum(axis=1)).sum(axis=1), arms - 1)
    arm = np.where(chances[np.arange(rows), arm] > 0, arm, 0)
    reward = (random.random(rows) < 0.2 + 0.1 * arm) * 1.0
    return DecisionBlock(random.integers(players, size=rows), arm, chances, reward)


def cut(block, *places):
    edges = [0, *places, block.arm.size]
    return [block.taken(slice(*pair)) for pair in itertools.pairwise(edges)]


def slow_ends(block, stakes, guess):
    """Both ends of a 95 % interval: the best of four reaches, each with a part of the level."""
    rows = block.arm, block.probabilities, block.reward
    low, high = (
        max(naive_watch.lower_end(*rows, sign * stakes, guess, 0.05 / 2 / 4, reach) for reach in (2, 8, 32, 128))
        for sign in (1, -1)
    )
    return low, -high


class TestShareEvidence:
    @pytest.mark.parametrize("offered", [1.0, 0.7])
    def test_it_is_the_slow_one(self, offered):
        block = made(150, offered=offered)
        slow = naive_watch.share_evidence(block.arm, block.probabilities, 3)
        for rows in (1, 2, 70, 150):
            fast = ShareEvidence(3, 0.01, every=1)
            fast.add(block.arm[:rows], block.probabilities[:rows])
            assert math.exp(fast.peak) == pytest.approx(max(1.0, *slow[:rows], 0), rel=1e-9)

    def test_it_is_the_slow_one_where_arms_are_not_drawn_as_logged(self):
        block = made(150)
        arm = np.where(np.arange(150) % 3 == 0, 2, block.arm)
        slow = naive_watch.share_evidence(arm, block.probabilities, 3)
        assert max(slow) > 5
        fast = ShareEvidence(3, 0.2, every=1)
        fast.add(arm, block.probabilities)
        assert math.exp(fast.peak) == pytest.approx(max(slow), rel=1e-9)
        assert fast.alarm.noticed == 1 + next(row for row, each in enumerate(slow) if each >= 5)

    def test_blocks_do_not_matter(self):
        block = made(5000)
        arm = np.where(np.arange(5000) % 50 == 0, 1, block.arm)
        one, many = ShareEvidence(3, 0.01), ShareEvidence(3, 0.01)
        one.add(arm, block.probabilities)
        for part in cut(DecisionBlock(block.player, arm, block.probabilities, block.reward), 1, 64, 100, 4097):
            many.add(part.arm, part.probabilities)
        assert many.count == one.count == 5000
        assert many._totals == pytest.approx(one._totals)
        assert many.peak == pytest.approx(one.peak, abs=0.5)  # it has looked more often

    def test_arms_may_come_later(self):
        early, late = made(200, arms=2), made(200, arms=3, seed=1)
        grown, wide = ShareEvidence(2, 0.01, every=1), ShareEvidence(2, 0.01, every=1)
        for part in (early, late):
            grown.add(part.arm, part.probabilities)
            there = np.zeros((200, 3))
            there[:, : part.probabilities.shape[1]] = part.probabilities
            wide.add(part.arm, there)
        assert grown._totals == pytest.approx(wide._totals)

    def test_an_alarm_names_arm_direction_size_and_time(self):
        random = np.random.default_rng(5)
        chances = np.full((50_000, 4), 0.25)
        arm = random.integers(4, size=50_000)
        arm[40_000:] = np.where(random.random(10_000) < 0.1, 2, arm[40_000:])
        found = ShareEvidence(4, 0.01)
        found.add(arm, chances)
        assert found.alarm.arm == 2
        assert found.alarm.expected == pytest.approx(0.25)
        assert 0.3 < found.alarm.observed < 0.36
        assert 39_000 < found.alarm.began < 41_000 < found.alarm.noticed < 44_000
        first = found.alarm
        found.add(random.integers(4, size=50_000), chances)
        assert found.alarm is first, "an alarm stays"

    def test_an_arm_that_is_chosen_too_rarely_is_named_too(self):
        random = np.random.default_rng(6)
        arm = random.integers(4, size=5000)
        arm = np.where((arm == 1) & (random.random(5000) < 0.5), random.choice([0, 2, 3], 5000), arm)
        found = ShareEvidence(4, 0.01)
        found.add(arm, np.full((5000, 4), 0.25))
        assert found.alarm.arm == 1
        assert found.alarm.observed < found.alarm.expected

    def test_misrouting_that_spreads_is_found_though_players_differ_in_their_best_arm(self):
        random, rows = np.random.default_rng(7), 20_000
        best = random.integers(4, size=rows)
        chances = np.full((rows, 4), 0.02)
        chances[np.arange(rows), best] = 0.94
        arm = np.where(random.random(rows) < 0.94 - 0.02, best, (best + random.integers(1, 4, rows)) % 4)
        found = ShareEvidence(4, 0.01)
        found.add(arm, chances)
        assert found.alarm.arm is None
        assert found.alarm.observed < found.alarm.expected

    def test_an_arm_that_could_not_be_chosen_is_noticed_soon(self):
        found = WatchEvidence(2, holdout=0.1, every=1)
        block = DecisionBlock(np.zeros(9, int), np.ones(9, int), np.array([[1.0, 0.0]] * 9), np.ones(9))
        found.add_choices(block)
        found.add_answers(block)
        assert found.choices.alarm.noticed < 6
        assert found.choices.alarm.arm in (None, 1)
        assert np.isfinite(found.against_holdout.estimate(0.05)[0])


class TestRewardGuess:
    def test_it_is_the_slow_one_in_any_blocks(self):
        block = made(700)
        slow = naive_watch.guesses(block.player, block.arm, block.reward, 3)
        for places in ((), (1, 63, 64, 65, 130, 640)):
            guess = RewardGuess(3)
            found = [each for part in cut(block, *places) for _, each in guess.follow(part)]
            assert np.concatenate(found) == pytest.approx(slow)

    def test_players_and_arms_may_come_later_and_memory_is_bounded(self):
        guess = RewardGuess(2)
        for arms, players in ((2, 1), (3, 1000), (3, 10**6)):
            for _, found in guess.follow(made(100, arms=arms, players=players)):
                assert found.shape[1] == arms
                assert ((found > 0) & (found < 1)).all()
        assert guess._pulls.size <= CELLS


class TestEffectEvidence:
    @pytest.mark.parametrize("offered", [1.0, 0.7])
    def test_it_is_the_slow_one(self, offered):
        block = made(300, offered=offered)
        guess = np.random.default_rng(1).uniform(0.1, 0.6, block.probabilities.shape)
        stakes = block.probabilities - block.equal_shares()
        effect = EffectEvidence()
        effect.add(block, stakes, guess)
        value, low, high = effect.estimate(0.05)
        ends = slow_ends(block, stakes, guess)
        assert [low, high] == pytest.approx(ends, abs=1e-9)
        assert low < value < high

    def test_what_is_compared_is_the_adaptive_part(self):
        adaptive, equal = made(300), np.full((300, 3), 1 / 3)
        mixed = 0.2 * equal + 0.8 * adaptive.probabilities
        evidence = WatchEvidence(3, holdout=0.2, control=2)
        block = DecisionBlock(adaptive.player, adaptive.arm, mixed, adaptive.reward)
        evidence.add_answers(block)
        guess = naive_watch.guesses(block.player, block.arm, block.reward, 3)
        for found, other in ((evidence.against_holdout, equal), (evidence.against_control, np.eye(3)[[2] * 300])):
            ends = slow_ends(block, adaptive.probabilities - other, guess)
            assert found.estimate(0.05)[1:] == pytest.approx(ends, abs=1e-9)

    def test_a_path_ends_at_the_estimate(self):
        evidence = WatchEvidence(3, holdout=0.1, control=0)
        evidence.add_answers(made(2050))
        counts, *ends = evidence.against_control.path(0.05)
        assert counts[-1] == 2050
        assert [each[-1] for each in ends] == pytest.approx(evidence.against_control.estimate(0.05))

    def test_decisions_without_the_control_on_offer_do_not_count(self):
        block = made(500, offered=0.6)
        evidence = WatchEvidence(3, control=2)
        evidence.add_answers(block)
        assert evidence.against_control.count == (block.probabilities[:, 2] > 0).sum() < 500

    def test_decisions_with_one_possible_arm_do_not_count(self):
        block, shipped = made(500), np.zeros((500, 3))
        shipped[:, 1] = 1.0
        free, both = (WatchEvidence(3, holdout=0.1, control=1) for _ in range(2))
        for each in (free, both):
            each.add_answers(block)
        both.add_answers(DecisionBlock(block.player, np.ones(500, int), shipped, block.reward))
        assert both.answered == 1000
        assert both.against_holdout.count == both.against_control.count == 500
        assert both.against_holdout.estimate(0.05) == free.against_holdout.estimate(0.05)


def test_a_trail_is_bounded_and_even():
    trail = Trail()
    for at in range(1, 20_000, 7):
        trail.add(np.array([at]), np.zeros((1, 2)))
    places = np.array(list(trail.points))
    assert POINTS / 2 <= places.size <= POINTS
    assert np.ptp(np.diff(places)) <= 14


class TestCoverage:
    """A small form of examples/studies/watch_coverage.py, whose results are in docs/watching.md."""

    def test_checks_rarely_raise_false_alarms_and_naive_ones_do(self):
        count = 1000 if FULL else 100
        found = watch_coverage.shares_table(count, 1000 if FULL else 400)
        for name in ("choices", "rewards"):
            assert np.isfinite(found[name]).sum() <= 0.01 * count + 3 * math.sqrt(0.01 * count)
            assert np.mean(found[f"naive {name}"]) > 0.015

    def test_misrouting_and_lost_rewards_are_found(self):
        count, long = (100, 20_000) if FULL else (4, 6000)
        for check, how in (("choices", {"misrouted": "to one"}), ("rewards", {"lost": 0.4})):
            found = watch_coverage.shares_table(count, long, every=64, **how)
            assert np.isfinite(found[check]).mean() >= 0.75

    def test_effects_hold_at_every_look_and_naive_intervals_do_not(self):
        count = 400 if FULL else 40
        for wrong, naive, wider in watch_coverage.effect_misses(count, 400).values():
            assert wrong <= 0.05 + 2 * math.sqrt(0.05 / count)
            assert naive > 0.15
            assert 1.5 < wider < 6

    def test_guards_hold_at_every_look(self):
        rates = np.full(4, 0.05)
        raised, naive = watch_coverage.guard_alarms(1000, 500, rates, 0.05)
        assert raised <= 50
        assert naive > 100
        raised, _ = watch_coverage.guard_alarms(200, 500, 4 * rates, 0.05)
        assert raised > 180
