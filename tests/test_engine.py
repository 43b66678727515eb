"""PolicyRun: a run moved by hand to where a simulation would take days to come."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import posse
from by_name import call
from posse import IndTS, Problem, RobustAggTS
from posse.rewards import GRID
from posse.schedule import Concurrent, Fixed, Random, Schedule, Sequential
from posse.simulation import engine
from posse.simulation.engine import PolicyRun
from posse.simulation.pick import WIDTH
from posse.streams import MAX_ROUND
from posse.testing import policies as checks

PROBLEM = posse.generate.subpar(2, players=4, arms=5, epsilon=0.1, seed=1)[0]


class TestFarAlong:
    """Counts and rounds that have long passed 32 bits."""

    START = 2**33 + 11

    def far_along(self, policy, schedule=Concurrent()):
        run = PolicyRun(PROBLEM, policy, schedule, 2**36, seed=1)
        (pulls, sums), totals = run.state.statistics[:2], run.state.totals
        rng = np.random.default_rng(2)
        pulls[:] = 2**33 + rng.integers(0, 2**20, pulls.shape)
        sums[:] = (pulls * PROBLEM.means.T * GRID).astype(np.int64) + rng.integers(0, 999, pulls.shape)
        if policy.contribution is None:
            totals[:] = pulls.sum(axis=1), sums.sum(axis=1)
        run.advance(0)
        run.round = self.START
        return run

    def expected_index(self, policy, state, player, arm):
        """From exact fractions, each turned to a float once."""
        pulls, sums = state.statistics[:2, arm].tolist()
        n, s = pulls, [float(Fraction(steps, GRID)) for steps in sums]
        if policy.contribution is None:
            N, S = float(sum(n)), float(Fraction(sum(sums), GRID))
        else:
            shares = [call(policy, "contribution", n=float(a), s=b) for a, b in zip(n, s, strict=True)]
            N, S = (math.fsum(column) for column in zip(*shares, strict=True))
        return call(policy, n=float(n[player]), s=s[player], N=N, S=S, M=len(n), log_T=math.log(2**36))

    @pytest.mark.parametrize(
        "policy",
        [RobustAggTS(0.1), posse.RobustAggTSV(0.0), posse.RobustAgg(0.1), posse.NaiveAgg(), IndTS(), posse.HierTS(0.1)],
        ids=lambda policy: policy.label,
    )
    def test_counts_sums_and_centers_stay_exact(self, policy):
        run = self.far_along(policy)
        state, played = run.state, run.run
        for step in range(1, 6):
            pulls, sums = state.statistics[:2].copy()
            assert run.advance(self.START + step) == 4
            for place, player in enumerate(played.active[:4]):
                pulls[played.arms[place], player] += 1
                sums[played.arms[place], player] += played.rewards[place]
            assert np.array_equal(state.statistics[:2], [pulls, sums])
            if policy.contribution is None:
                assert state.totals.tolist() == [pulls.sum(axis=1).tolist(), sums.sum(axis=1).tolist()]
            run.refresh_all()
            for place, player in enumerate(played.active[:4]):
                arm = played.arms[place]
                expected = self.expected_index(policy, state, player, arm)
                assert (played.center[arm, player], played.scale[arm, player]) == pytest.approx(expected, rel=1e-12)

    def test_so_far_the_best_arm_is_known(self):
        run = self.far_along(IndTS())
        run.advance(self.START + 1)
        assert run.run.arms.tolist() == PROBLEM.means.argmax(axis=1).tolist()

    def test_rounds_beyond_32_bits_have_their_own_noise(self):
        """Negative control of the round in the counter: were its upper half dropped, these would be equal."""
        problem = Problem(np.full((50, 1), 0.5))
        early, late = (PolicyRun(problem, IndTS(), Concurrent(), 2**36, seed=1) for _ in range(2))
        late.round = 2**32
        early.advance(1)
        late.advance(2**32 + 1)
        assert not np.array_equal(early.run.rewards, late.run.rewards)

    def test_turns_go_on(self):
        run = self.far_along(IndTS(), Sequential())
        assert run.advance(self.START + 1) == 1
        assert run.run.active[0] == self.START % 4

    def test_the_last_round_is_the_last(self):
        run = PolicyRun(PROBLEM, IndTS(), Concurrent(), 10, seed=1)
        with pytest.raises(ValueError, match=f"rounds below {MAX_ROUND}"):
            run.advance(MAX_ROUND)


class FewThenAll(Schedule):
    """A schedule for any number of players: three of them, or one, in every other round, and then all."""

    def participation(self, players, horizon):
        shown = np.ones((horizon, players), bool)
        shown[::4, 3:] = shown[2::4, 1:] = False
        return Fixed(shown).participation(players, horizon)

    def __str__(self):
        return "few, then all"


@pytest.mark.parametrize("schedule", [Concurrent(), Sequential(), Random(0.1), Random(0.7), FewThenAll()], ids=str)
@pytest.mark.parametrize("players", [3, 20, WIDTH, WIDTH + 1, WIDTH + 3, 2 * WIDTH + 40])
class TestRoundsAhead:
    """Who is active and what they draw is written for several rounds at once, or for parts of a round."""

    ARMS, ROUNDS = 7, 45

    def test_rounds_together_are_the_same_as_rounds_one_by_one(self, players, schedule):
        problem = posse.generate.uniform(players=players, arms=self.ARMS, seed=3)[0]
        together, apart = (PolicyRun(problem, RobustAggTS(0.1), schedule, self.ROUNDS, seed=2) for _ in range(2))
        together.advance(self.ROUNDS)
        for t in range(1, self.ROUNDS + 1):
            apart.advance(t)
        assert np.array_equal(together.state.statistics, apart.state.statistics)
        assert np.array_equal(together.run.center, apart.run.center)

    def test_every_pick_is_the_largest_index(self, players, schedule):
        problem = posse.generate.uniform(players=players, arms=self.ARMS, seed=3)[0]
        run = posse.simulation.trace(problem, RobustAggTS(0.1), 5, seed=6, schedule=schedule)
        checks._check_picks(RobustAggTS(0.1), problem, run, schedule)


def test_what_is_compiled_apart_says_why(monkeypatch):
    said = []
    monkeypatch.setattr(engine, "bind_all", lambda kernels, *, what, **names: (said.append(what), None))
    for timed in (False, True):
        engine.kernels.__wrapped__(posse.IndTS, timed)
    assert said == ["Ind-TS", "Ind-TS with late rewards or changing means"]
