"""Learners whose players have attributes: against the oracle, from saved arrays, and with room for more players."""

from __future__ import annotations

import math

import numpy as np
import pytest

import posse
from posse.attributes import Attributes
from posse.learner.core import OF_SUMMARY, ROOM
from posse.learner.setup import Setup
from posse.learner.state import LearnerState
from slow_learner import SlowLearner

KINDS = {"region": "category", "age": [30, 60]}
ARMS = ["tea", "coffee"]


def a_state(values, policy=None, arms=ARMS, horizon=1000, kinds=KINDS):
    """A learner's state whose players have these values."""
    policy = policy or posse.PosseTS()
    setup = Setup(policy, horizon, 3, 0.0, 1.0, 0.0, 0.0, None, None, 1000, True, Attributes(kinds))
    return LearnerState(setup, list(arms), [f"player {number}" for number in range(len(values))], list(values))


def record(state, rewards):
    """Rewards of one round: (place of the player, place of the arm, reward)."""
    state.observe(state.record(rewards, 0.0))


def saved(state):
    """A state made of what is kept of another."""
    made = LearnerState(state.setup, ["other"], [])
    rosters = ([(name, True) for name in names] for names in (state.player_roster.names, state.arm_roster.names))
    kept = {name: np.array(getattr(state.known, name)).tolist() for name in state.core.kept}
    made.restore(*rosters, state.waiting, kept, state.values)
    made.rounds = state.rounds
    return made


def indices(state):
    """Centers and scales, [player, 2, arm]."""
    return np.array([state.evaluate(player)[:2] for player in range(len(state.values))])


def random_values(random, names="abc"):
    return (random.choice([*names, None]), random.choice([0, 1, 2, None]))


class TestOracle:
    @pytest.mark.parametrize("seed", range(3))
    def test_whatever_happens_indices_are_the_oracles(self, seed):
        """Players join with values old and new, arms come, rewards depend on the region; now and then it is saved."""
        random = np.random.default_rng(seed)
        values = [random_values(random) for _ in range([0, 3, 9][seed])]
        state, horizon = a_state(values, horizon=[None, 1000, 10**7][seed]), [None, 1000, 10**7][seed]
        slow = SlowLearner(posse.PosseTS(), ARMS, state.player_roster.names, horizon, kinds=KINDS, values=values)
        for step in range(36):
            kind = random.random()
            if kind < 0.3 or not values:
                values.append(random_values(random, "abcdef"))
                state.change("join", f"player {len(values) - 1}", values=values[-1])
                slow.join(f"player {len(values) - 1}", True, values[-1])
            elif kind < 0.35 and len(slow.arms) < 4:
                state.change("add arm", f"arm {step}")
                slow.add_arm(f"arm {step}")
            elif kind < 0.4:
                state = saved(state)
                continue
            else:
                pairs = [(random.integers(len(values)), random.integers(len(slow.arms))) for _ in range(4)]
                rewards = [(p, a, float(random.random() < (0.2, 0.8)[values[p][0] == "abab"[a]])) for p, a in pairs]
                record(state, rewards)
                slow.record([(slow.players[p], slow.arms[a], reward) for p, a, reward in rewards])
            found = indices(state)
            for p, player in enumerate(slow.players):
                for a, arm in enumerate(slow.arms):
                    expected = slow.index(player, arm, slow.rounds + 1)
                    assert found[p, :, a] == pytest.approx(expected, rel=1e-9, abs=1e-9), (step, player, arm)

    def test_an_oracle_without_attributes_is_noticed(self):
        """Negative control."""
        state, blind = (a_state([("a", 0), ("b", 2)] * 4, kinds=kinds) for kinds in (KINDS, {}))
        blind.values = [()] * 8
        for each in (state, blind):
            record(each, [(p, 0, float(p % 2)) for p in range(8)] * 9)
        assert not np.allclose(indices(state), indices(blind), rtol=1e-3)


class TestNewPlayers:
    def known(self, players=40, policy=None):
        """Regions a and b with opposite tastes, well known."""
        state = a_state([("ab"[number % 2], 0) for number in range(players)], policy)
        for _ in range(30):
            record(state, [(p, a, float(p % 2 == a)) for p in range(players) for a in range(2)])
        return state

    def test_a_new_player_starts_from_its_attributes(self):
        state = self.known()
        for place, region in enumerate(("a", "b", None, "nowhere")):
            state.change("join", f"new {place}", values=(region, 0))
        assert state.known.summed[2] == 40  # no summary was made for them
        expected = state.known.of_pair[0][:, 40:]
        assert expected[:, 0] == pytest.approx([0.95, 0.05], abs=0.05)
        assert expected[:, 1] == pytest.approx([0.05, 0.95], abs=0.05)
        assert expected[:, 2] == pytest.approx(0.5, abs=0.1)  # nothing is known of it
        assert np.array_equal(expected[:, 2], expected[:, 3])
        variance = state.known.of_pair[1][0, 40:]
        assert variance[2] == pytest.approx(variance[3], rel=1e-12)
        assert variance[2] > 3 * variance[0]

    def test_without_attributes_it_starts_from_everybodys_mean(self):
        """Negative control: the same data, where nothing is known about players."""
        state = a_state([()] * 40, kinds={})
        for _ in range(30):
            record(state, [(p, a, float(p % 2 == a)) for p in range(40) for a in range(2)])
        state.change("join", "new")
        assert state.known.of_pair[0][:, 40] == pytest.approx(0.5, abs=0.1)

    @pytest.mark.parametrize("policy", [posse.PosseTS(), posse.RobustPosseTS(1.0), posse.IndTSV()], ids=str)
    def test_it_is_taken_as_if_it_had_been_there_without_data(self, policy):
        """But for how rare odd players are, and the dispersion, which both are those of one player more."""
        kinds = KINDS if policy.of_value else {}
        here = [("ab"[number % 2], 0) for number in range(41)] if kinds else [()] * 41
        later, early = a_state(here[:40], policy, kinds=kinds), a_state(here, policy, kinds=kinds)
        for _ in range(30):
            for state in (later, early):
                record(state, [(p, a, float(p % 2 == a)) for p in range(40) for a in range(2)])
        later.change("join", "new", values=here[40])
        early.core.share_everything(early.known, 1.0)
        assert indices(later)[40] == pytest.approx(indices(early)[40], rel=5e-3)
        assert not np.allclose(indices(later)[40], indices(early)[39], rtol=1e-2)  # negative control: one with data

    def test_robust_posse_ts_trusts_its_model_for_it_at_once(self):
        """A cutoff of 0 would force every arm."""
        state = self.known(policy=posse.RobustPosseTS(1.0, 3.0))
        state.change("join", "new", values=("a", 0))
        assert state.known.summed[2] == 40
        centers = state.evaluate(40)[0]
        assert np.all(np.abs(centers) < 20)
        before = state.known.of_player[40].copy()
        assert np.array_equal(saved(state).known.of_player[40], before)  # and keeps the cutoff where it is restored

    def test_everything_is_estimated_anew_when_an_eighth_of_the_players_have_come(self):
        state = self.known()
        for number in range(6):  # 6 of 46 are one in eight
            summed = int(state.known.summed[2])
            assert summed == 40
            state.change("join", f"new {number}", values=("a", 0))
        assert state.known.summed[2] == 46


class TestRoom:
    @pytest.mark.parametrize("cls", [posse.PosseTS, posse.RobustAggTS, posse.HierTS, posse.IndTSV, posse.RobustPosseTS])
    def test_two_hundred_joins_are_as_if_all_had_come_at_once(self, cls):
        """Once a summary is made, or where none is needed; with 60 regions, so that there are many columns, too."""
        policy = cls() if cls in (posse.PosseTS, posse.IndTSV) else cls(0.2)
        values = [(f"region {number % 60}", number % 3) for number in range(200)]
        one_by_one, at_once = a_state(values[:1], policy), a_state(values, policy)
        for number in range(1, 200):
            one_by_one.change("join", f"player {number}", values=values[number])
        rewards = [(p, a, float((p + a) % 3 == 0)) for p in range(0, 200, 3) for a in range(2)]
        for state in (one_by_one, at_once):
            record(state, rewards)
            state.core.share_everything(state.known, 1.0)
        for name in ("columns", "weights", "part_of", "statistics", "totals", "of_arm", "of_pair", "of_value", "seen"):
            found, expected = getattr(one_by_one.known, name), getattr(at_once.known, name)
            if expected.size:
                assert found.shape == expected.shape, name
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=name)
        np.testing.assert_allclose(indices(one_by_one), indices(at_once), rtol=1e-12)
        assert one_by_one.waiting.shape == (2, 200)

    def test_a_join_moves_arrays_only_where_there_is_no_room(self):
        state = a_state([("a", 0)] * 4)
        bases = set()
        for number in range(4, 200):
            state.change("join", f"player {number}", values=("a", 0))
            bases.add(id(state.core._arrays["statistics"]))
            assert state.known.statistics.base is state.core._arrays["statistics"]
        moves = math.log(200 / ROOM) / math.log(1.5) + 2
        assert len(bases) <= moves
        assert state.known.statistics.shape == (3, 2, 200)

    def test_who_waits_is_counted_in_arrays_that_grew(self):
        state = a_state([("a", 0)] * 15)
        ((_, row),) = state.choose([14], state.offered(None), 0.0)
        state.wait(row)
        for number in range(40):
            state.change("join", f"new {number}", values=("b", 1))
        assert state.waiting.sum() == state.waiting[row.arm, 14] == 1
        state.change("add arm", "cocoa")
        state.wait(row, -1)
        assert state.waiting.shape == (3, 55)
        assert not state.waiting.any()
        assert not state.all_waiting.any()

    def test_what_was_seen_stays_where_arrays_grow(self):
        state = a_state([()] * 16, posse.RobustAggTS(0.2), kinds={})
        record(state, [(p, 0, 1.0) for p in range(16)])
        seen = state.known.seen.copy()
        for number in range(30):
            state.change("join", f"new {number}", knows_others=number % 2 == 0)
        assert np.array_equal(state.known.seen[:, :, :16], seen)
        assert state.known.seen[:, 0, 16].tolist() == [16.0, 16.0]
        assert state.known.seen[:, 0, 17].tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("players", [0, 1, 30])
    def test_a_restored_state_is_the_same(self, players):
        random = np.random.default_rng(players)
        state = a_state([random_values(random) for _ in range(players)])
        if players:
            record(state, [(random.integers(players), random.integers(2), random.random() < 0.5) for _ in range(99)])
        state.change("join", "new", values=("never seen", 2))
        other = saved(state)
        for name in (*state.core.kept, "of_pair", "columns", "weights", "part_of"):
            assert np.array_equal(getattr(other.known, name), getattr(state.known, name)), name
        for each in (state, other):
            each.change("join", "newer", values=("never seen", 1))
        assert np.array_equal(indices(state), indices(other))
        assert set(state.core.kept) >= OF_SUMMARY
