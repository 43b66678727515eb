"""Run: a run moved by hand to where a simulation would take days to come."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import posse
from posse import IndTS, Problem, RobustAggTS
from posse.rewards import GRID
from posse.schedule import Concurrent, Sequential
from posse.simulation.engine import Run
from posse.streams import MAX_ROUND

PROBLEM = posse.generate.subpar(2, players=4, arms=5, epsilon=0.1, seed=1)[0]


class TestFarAlong:
    """Counts and rounds that have long passed 32 bits."""

    START = 2**33 + 11

    def far_along(self, policy, schedule=Concurrent()):
        run = Run(PROBLEM, policy, schedule, 2**36, seed=1)
        state = run.state
        rng = np.random.default_rng(2)
        state.pulls[:] = 2**33 + rng.integers(0, 2**20, state.pulls.shape)
        state.sums[:] = (state.pulls * PROBLEM.means.T * GRID).astype(np.int64) + rng.integers(
            0, 999, state.pulls.shape
        )
        state.all_pulls[:] = state.pulls.sum(axis=1)
        state.all_sums[:] = state.sums.sum(axis=1)
        run.round = self.START
        run.kernels.begin(state, run.constants, run.log_horizon)
        run.settle()
        return run

    def expected_index(self, policy, state, player, arm):
        """From exact fractions, each turned to a float once."""
        n, s = state.pulls[arm].tolist(), [float(Fraction(steps, GRID)) for steps in state.sums[arm].tolist()]
        if policy.contribution is None:
            N, S = float(sum(n)), float(Fraction(sum(state.sums[arm].tolist()), GRID))
        else:
            shares = [policy.contribution(float(a), b, *policy.constants()) for a, b in zip(n, s, strict=True)]
            N, S = (math.fsum(column) for column in zip(*shares, strict=True))
        return policy.index(float(n[player]), s[player], N, S, len(n), math.log(2**36), *policy.constants())

    @pytest.mark.parametrize(
        "policy",
        [RobustAggTS(0.1), posse.RobustAggTSV(0.0), posse.RobustAgg(0.1), posse.NaiveAgg(), IndTS(), posse.HierTS(0.1)],
        ids=lambda policy: policy.label,
    )
    def test_counts_sums_and_centers_stay_exact(self, policy):
        run = self.far_along(policy)
        state = run.state
        for step in range(1, 6):
            pulls, sums = state.pulls.copy(), state.sums.copy()
            assert run.advance(self.START + step) == 4
            for place, player in enumerate(state.active):
                pulls[state.arms[place], player] += 1
                sums[state.arms[place], player] += state.rewards[place]
            assert np.array_equal(state.pulls, pulls)
            assert np.array_equal(state.sums, sums)
            if policy.contribution is None:
                assert state.all_pulls.tolist() == pulls.sum(axis=1).tolist()
                assert state.all_sums.tolist() == sums.sum(axis=1).tolist()
            run.settle()
            for place, player in enumerate(state.active):
                arm = state.arms[place]
                expected = self.expected_index(policy, state, player, arm)
                assert (state.center[player, arm], state.scale[player, arm]) == pytest.approx(expected, rel=1e-12)

    def test_so_far_the_best_arm_is_known(self):
        run = self.far_along(IndTS())
        run.advance(self.START + 1)
        assert run.state.arms.tolist() == PROBLEM.means.argmax(axis=1).tolist()

    def test_rounds_beyond_32_bits_have_their_own_noise(self):
        """Negative control of the round in the counter: were its upper half dropped, these would be equal."""
        problem = Problem(np.full((50, 1), 0.5))
        early, late = (Run(problem, IndTS(), Concurrent(), 2**36, seed=1) for _ in range(2))
        late.round = 2**32
        early.advance(1)
        late.advance(2**32 + 1)
        assert not np.array_equal(early.state.rewards, late.state.rewards)

    def test_turns_go_on(self):
        run = self.far_along(IndTS(), Sequential())
        assert run.advance(self.START + 1) == 1
        assert run.state.active[0] == self.START % 4

    def test_the_last_round_is_the_last(self):
        run = Run(PROBLEM, IndTS(), Concurrent(), 10, seed=1)
        with pytest.raises(ValueError, match=f"rounds below {MAX_ROUND}"):
            run.advance(MAX_ROUND)
