"""Schedules: who is active by which law, and the same for every policy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import posse
from posse.schedule import Arrivals, Concurrent, Fixed, Late, Random, Sequential, Zipf
from posse.simulation import trace

PLAYERS = 5
PROBLEM = posse.Problem(np.random.default_rng(1).random((PLAYERS, 3)))


def activity(schedule, horizon, policy=posse.IndUCB(), **options):
    """Who was active, [round, player]."""
    return trace(PROBLEM, policy, horizon, schedule=schedule, **options).active


class TestConcurrent:
    def test_everybody_plays_in_every_round(self):
        assert activity(Concurrent(), 20).all()


class TestSequential:
    def test_in_turn_the_players_come_round_and_round(self):
        active = activity(Sequential(), 12)
        assert active.sum(axis=1).tolist() == [1] * 12
        assert active.argmax(axis=1).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]

    def test_at_random_one_plays_with_equal_chances(self):
        active = activity(Sequential("random"), 4000)
        assert (active.sum(axis=1) == 1).all()
        assert stats.chisquare(active.sum(axis=0)).pvalue > 0.001
        skewed = np.array([1.2, 0.8, 1, 1, 1]) / 5 * 4000
        assert stats.chisquare(active.sum(axis=0), skewed).pvalue < 0.001

    def test_at_random_who_follows_does_not_depend_on_who_went_before(self):
        player = activity(Sequential("random"), 4000).argmax(axis=1)
        assert independent(player[:-1], player[1:])
        assert not independent(player, (player + (np.arange(4000) % 5 == 0)) % 5)

    def test_another_seed_or_replication_gives_other_players(self):
        player = activity(Sequential("random"), 50).argmax(axis=1)
        for options in ({"seed": 1}, {"replication": 1}):
            assert not np.array_equal(player, activity(Sequential("random"), 50, **options).argmax(axis=1))

    @pytest.mark.parametrize("order", ["sideways", "", None, 0, ["turn"]])
    def test_an_unknown_order_is_refused(self, order):
        with pytest.raises(ValueError, match=r"^order=.*expected 'turn' or 'random'"):
            Sequential(order)


class TestLate:
    def test_the_last_player_misses_the_first_share_of_the_rounds(self):
        active = activity(Late(0.3), 11)
        assert active[:, :-1].all()
        assert active[:, -1].tolist() == [False] * 3 + [True] * 8

    def test_several_may_be_late_or_all(self):
        assert activity(Late(0.5, players=2), 10).sum(axis=0).tolist() == [10, 10, 10, 5, 5]
        assert activity(Late(0.5, players=9), 10).sum(axis=0).tolist() == [5] * PLAYERS

    @pytest.mark.parametrize(("share", "rounds"), [(0, 8), (1, 0)])
    def test_from_the_first_round_or_never(self, share, rounds):
        assert activity(Late(share), 8)[:, -1].sum() == rounds

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"share": 1.5}, ValueError, r"^share=1\.5.*\[0, 1\]"),
            ({"share": "half"}, TypeError, "^share='half'"),
            ({"players": 0}, ValueError, "^players=0.*at least 1"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, error, message):
        with pytest.raises(error, match=message):
            Late(**options)


class TestArrivals:
    def test_players_come_one_after_another_and_stay(self):
        active = activity(Arrivals(), 12)
        assert active.argmax(axis=0).tolist() == [0, 2, 4, 7, 9]  # ⌊12 p / 5⌋ rounds are over
        assert active[-1].all()
        assert (np.diff(active.astype(int), axis=0) >= 0).all(), "nobody leaves"

    def test_or_leave_when_the_next_one_comes(self):
        active = activity(Arrivals(stay=False), 12)
        assert active.sum(axis=1).tolist() == [1] * 12
        assert active.argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4]

    def test_with_fewer_rounds_than_players_some_never_act(self):
        assert activity(Arrivals(stay=False), 2).sum() == 2

    def test_it_is_what_the_table_says(self):
        """The same run as with the rounds × players of who is active written out."""
        for schedule in (Arrivals(), Arrivals(stay=False), Late(0.4)):
            table = Fixed(activity(schedule, 40))
            for policy in (posse.RobustAggTS(0.2), posse.RobustAgg(0.2)):
                runs = [posse.simulate(PROBLEM, policy, 40, schedule=each) for each in (schedule, table)]
                assert np.array_equal(runs[0].regret, runs[1].regret)
                assert np.array_equal(runs[0].pulls, runs[1].pulls)

    def test_staying_is_a_yes_or_no(self):
        with pytest.raises(TypeError, match=r"^stay=1"):
            Arrivals(1)


def independent(a, b):
    """Whether two columns of players show no dependence (χ²)."""
    table = np.zeros((PLAYERS, PLAYERS))
    np.add.at(table, (a, b), 1)
    return stats.chi2_contingency(table).pvalue > 0.001


def joins_with(active, chances):
    """Whether each player was active with its chance, within four standard errors."""
    rounds = len(active)
    chances = np.broadcast_to(chances, PLAYERS)
    error = np.sqrt(chances * (1 - chances) / rounds)
    return bool((abs(active.mean(axis=0) - chances) <= 4 * error).all())


class TestZipf:
    def test_player_k_takes_part_with_chance_1_over_k(self):
        shares = activity(Zipf(), 4000).mean(axis=0)
        assert np.allclose(shares, 1 / np.arange(1, PLAYERS + 1), atol=0.03)
        assert not np.allclose(activity(Zipf(2.0), 4000).mean(axis=0), shares, atol=0.03)
        assert np.array_equal(activity(Zipf(2.0), 300), activity(Random([1, 1 / 4, 1 / 9, 1 / 16, 1 / 25]), 300))
        assert activity(Zipf(0.0), 30).all()

    @pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (11, ValueError), ("1", TypeError)])
    def test_an_exponent_is_a_number_of_at_least_0(self, bad, error):
        with pytest.raises(error, match=r"^exponent=.*\[0, 10\]"):
            Zipf(bad)


class TestRandom:
    def test_every_player_joins_with_the_one_probability(self):
        active = activity(Random(0.3), 4000)
        assert joins_with(active, 0.3)
        assert not joins_with(active, 0.35)

    def test_each_player_joins_with_its_own(self):
        chances = [0.0, 0.1, 0.5, 0.9, 1.0]
        active = activity(Random(chances), 4000)
        assert joins_with(active, chances)
        assert not joins_with(active, chances[::-1])

    def test_players_join_apart_from_each_other_and_from_other_rounds(self):
        active = activity(Random(0.5), 4000).astype(float)
        together = np.corrcoef(np.hstack([active[1:], active[:-1]]).T) - np.eye(2 * PLAYERS)
        assert abs(together).max() < 4.5 / math.sqrt(4000)
        linked = np.where(np.random.default_rng(1).random(4000) < 0.2, active[:, 0], active[:, 1])
        assert abs(np.corrcoef(linked, active[:, 0])[0, 1]) > 4.5 / math.sqrt(4000), "the check could not see a link"

    @pytest.mark.parametrize("probability", [0.0, [0.0] * PLAYERS])
    def test_chance_0_leaves_every_round_empty(self, probability):
        assert not activity(Random(probability), 30).any()

    def test_chance_1_is_everybody(self):
        assert activity(Random(1.0), 30).all()

    def test_rounds_may_be_empty(self):
        active = activity(Random(0.1), 100)
        assert not active.any(axis=1).all()
        assert active.any()

    def test_probabilities_may_be_an_array(self):
        assert Random(np.array([0.5, 1.0])) == Random([0.5, 1.0]) == Random((0.5, 1))
        assert Random(np.float64(0.5)) == Random(np.array(0.5)) == Random(0.5)

    @pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf])
    def test_a_probability_outside_the_unit_interval_is_refused(self, bad):
        with pytest.raises(ValueError, match=r"^probability=.*\[0, 1\]"):
            Random(bad)
        with pytest.raises(ValueError, match=r"^probability of player 1=.*\[0, 1\]"):
            Random([0.5, bad, 0.5])

    @pytest.mark.parametrize("bad", ["0.5", None, True])
    def test_what_is_no_number_is_refused(self, bad):
        with pytest.raises(TypeError, match=r"^probability="):
            Random(bad)
        with pytest.raises(TypeError, match=r"^probability of player 0="):
            Random([bad])

    @pytest.mark.parametrize("count", [0, 4, 6])
    def test_a_wrong_number_of_probabilities_is_refused(self, count):
        with pytest.raises(ValueError, match=f"{count} probabilities, but the problem has 5 players"):
            posse.simulate(PROBLEM, posse.IndUCB(), 10, schedule=Random([0.5] * count))


class TestFixed:
    def test_the_mask_says_who_plays(self):
        mask = np.random.default_rng(3).random((40, PLAYERS)) < 0.4
        mask[[0, 7, 39]] = False
        assert np.array_equal(activity(Fixed(mask), 40), mask)

    def test_ones_and_zeros_are_fine(self):
        mask = [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
        assert activity(Fixed(mask), 2).astype(int).tolist() == mask

    def test_the_mask_is_copied_and_cannot_be_changed(self):
        mask = np.ones((2, PLAYERS), bool)
        schedule = Fixed(mask)
        mask[:] = False
        assert schedule.mask.all()
        with pytest.raises(ValueError, match="read-only"):
            schedule.mask[0, 0] = False

    @pytest.mark.parametrize("shape", [(9, 5), (11, 5), (10, 4), (10, 6), (5, 10)])
    def test_a_mask_of_the_wrong_size_is_refused(self, shape):
        rounds, players = shape
        message = f"mask is {rounds} rounds × {players} players, but the run has 10 rounds and 5 players"
        with pytest.raises(ValueError, match=message):
            posse.simulate(PROBLEM, posse.IndUCB(), 10, schedule=Fixed(np.ones(shape)))

    @pytest.mark.parametrize("mask", [[True, False], True, [[[True]]]])
    def test_a_mask_has_two_dimensions(self, mask):
        with pytest.raises(ValueError, match="expected two: rounds × players"):
            Fixed(mask)

    @pytest.mark.parametrize("entry", [2, -1, 0.5, math.nan, "yes"])
    def test_a_mask_holds_true_and_false_only(self, entry):
        with pytest.raises(ValueError, match="something other than True and False"):
            Fixed([[1, entry]])

    def test_schedules_with_the_same_mask_are_equal(self):
        mask = np.eye(3, dtype=bool)
        assert Fixed(mask) == Fixed(mask.copy())
        assert Fixed(mask) != Fixed(~mask)


POLICIES = [posse.RobustAggTS(0.1), posse.RobustAgg(0.1), posse.IndTS(), posse.IndUCB(), posse.HierTS(0.1)]
SCHEDULES = [Sequential(), Sequential("random"), Random(0.4), Random([0.1, 0.3, 0.5, 0.7, 0.9])]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_every_policy_meets_the_same_players(schedule):
    expected = activity(schedule, 60, POLICIES[0])
    for policy in POLICIES[1:]:
        assert np.array_equal(activity(schedule, 60, policy), expected)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_nothing_happens_in_empty_rounds(policy):
    """A run with empty rounds between the others learns as if they were not there."""
    mask = np.zeros((30, PLAYERS), bool)
    mask[[4, 11, 20]] = True
    run = trace(PROBLEM, policy, 30, schedule=Fixed(mask))
    quiet = [t for t in range(1, 31) if not mask[t - 1].any()]
    for t in quiet:
        assert np.array_equal(run.centers[t], run.centers[t - 1])
        assert np.array_equal(run.scales[t], run.scales[t - 1])
    assert not np.array_equal(run.centers[5], run.centers[4])


def test_an_empty_run_pulls_nothing():
    result = posse.simulate(PROBLEM, POLICIES, 25, schedule=Random(0.0))
    assert not result.pulls.any()
    assert not result.regret.any()
    assert not result.reward.any()


def test_schedules_describe_themselves():
    assert repr(Sequential("random")) == "Sequential(order='random')"
    assert Random([0.5, 1]) in {Random((0.5, 1.0))}
    assert "Random(probability=0.5)" in repr(posse.simulate(PROBLEM, posse.IndUCB(), 2, schedule=Random(0.5)))
