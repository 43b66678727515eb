"""The contract of a policy, as checks."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from posse import streams
from posse.compile import bind
from posse.generate import subpar, uniform
from posse.normal import normal
from posse.policies.base import Policy, Refresh
from posse.policies.summaries import due, follows
from posse.problem import Problem
from posse.rewards import GRID
from posse.schedule import Concurrent, Fixed, Random, Schedule, Sequential
from posse.simulation import Trace, simulate, trace

Check = Callable[[Policy], None]


def check_policy(policy: Policy) -> None:
    """Run every check of the contract on a policy."""
    for check in policy_checks():
        check(policy)


def policy_checks() -> list[Check]:
    """The checks, each a function of a policy."""
    return [
        check_record,
        check_index_values,
        check_index_compiles_to_itself,
        check_smallest_problem,
        check_trace_follows_the_contract,
        check_anytime_follows_the_contract,
        check_same_seed_same_run,
        check_learns,
    ]


def example(cls: type[Policy]) -> Policy:
    """A policy of the class, with 0.1 for every constant that has no default."""
    required: dict[str, Any] = {
        field.name: 0.1 for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING
    }
    return cls(**required)


def check_record(policy: Policy) -> None:
    """A policy is a frozen record of numbers with a label, and survives pickling."""
    assert policy.label, "the label is empty"
    assert all(isinstance(value, float) for value in policy.constants()), (
        f"constants {policy.constants()} are not floats"
    )
    assert dataclasses.replace(policy) == policy, "a copy differs"
    assert pickle.loads(pickle.dumps(policy)) == policy, "a pickled copy differs"
    assert dataclasses.replace(policy, label="other").label == "other", "the label cannot be set"
    try:
        policy.label = "changed"  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError("a policy can be changed after it was made; use @dataclass(frozen=True)")


def check_index_values(policy: Policy) -> None:
    """The index is never NaN, its scale is finite and not negative, and 0 where the policy is not randomised."""
    for state in _states(policy):
        center, scale = policy.index(*state, *policy.constants())
        assert not math.isnan(center), f"center is NaN at {state}"
        assert center != -math.inf, f"center is -inf at {state}: the arm could never be pulled again"
        assert 0 <= scale < math.inf, f"scale {scale} at {state}"
        assert policy.randomised or scale == 0, f"scale {scale} at {state}, but randomised = False"
        assert scale == 0 or center < math.inf, f"an infinite center with scale {scale} at {state}"


def check_index_compiles_to_itself(policy: Policy) -> None:
    """The compiled index gives what the plain one gives."""
    compiled = bind(policy.index)
    for state in _states(policy):
        plain = policy.index(*state, *policy.constants())
        np.testing.assert_allclose(
            compiled(*state, *policy.constants()), plain, rtol=1e-12, err_msg=f"compiled index at {state}"
        )


def check_smallest_problem(policy: Policy) -> None:
    """One player, one arm, one round."""
    result = simulate(Problem([[0.5]]), policy, 1)
    assert result.pulls.tolist() == [[[[[1]]]]], f"pulls {result.pulls.tolist()}"
    assert result.final_regret.item() == 0


def check_trace_follows_the_contract(policy: Policy) -> None:
    """Under every schedule, indices come from the right numbers at the right time, and the largest is pulled."""
    _check_traces(policy, anytime=False)


def check_anytime_follows_the_contract(policy: Policy) -> None:
    """The same with ln max(t, 2) in place of ln T."""
    _check_traces(policy, anytime=True)


def check_same_seed_same_run(policy: Policy) -> None:
    """The same seed gives the same run on any number of threads; another seed gives another."""
    problems = subpar(2, count=3, players=4, arms=5, epsilon=0.1)
    one = simulate(problems, policy, 200, seed=1, threads=1)
    two = simulate(problems, policy, 200, seed=1, threads=2)
    other = simulate(problems, policy, 200, seed=2)
    assert np.array_equal(one.regret, two.regret), "threads change the result"
    assert np.array_equal(one.pulls, two.pulls), "threads change the result"
    assert not np.array_equal(one.reward, other.reward), "the seed does not change the result"


def check_learns(policy: Policy) -> None:
    """On an easy problem, where all players share one clearly best arm, regret is far below that of guessing."""
    problem = Problem(np.tile([0.95, 0.05, 0.05, 0.05], (5, 1)))
    horizon = 3000
    regret = simulate(problem, policy, horizon, replications=3).final_regret.mean()
    guessing = problem.gaps.mean() * problem.players * horizon
    assert regret < guessing / 2, f"regret {regret:.0f}, but guessing has {guessing:.0f}"


def _states(policy: Policy) -> list[tuple[Any, ...]]:
    """What `index` may be called with, from nothing to past 32-bit counts."""
    states = []
    for n, others, own_mean, other_mean, players, horizon in itertools.product(
        (0, 1, 7, 400, 2**33), (0, 1, 50, 2**34), (0.0, 0.3, 1.0), (0.0, 0.7, 1.0), (1, 20), (1, 50_000)
    ):
        if players == 1 and others:
            continue
        if policy.refresh is Refresh.OWN_PULL and n == 0 and others:
            continue  # nothing is seen before the first own pull
        counts, sums = np.zeros((players, 2)), np.zeros((players, 2))
        counts[0, 0], sums[0, 0] = n, n * own_mean
        counts[-1, 0], sums[-1, 0] = counts[-1, 0] + others, sums[-1, 0] + others * other_mean
        shared = _Summary(policy, players, 2) if policy.summary else _Sums(policy, players, 2)
        shared.update(counts, sums, sums, np.arange(players), np.zeros(players, int))
        states.append((float(n), n * own_mean, *shared.of(0, 0), players, math.log(horizon)))
    return states


class _Sums:
    """N and S as each player sees them, of a policy without a summary."""

    def __init__(self, policy: Policy, players: int, arms: int) -> None:
        self.policy = policy
        self.seen = np.zeros((players, arms, 2))
        self.seen[:] = self.now(np.zeros((players, arms)), np.zeros((players, arms)))

    def now(self, n: np.ndarray, s: np.ndarray) -> np.ndarray:
        """N and S of every arm, [arm, 2]."""
        shares = np.stack([n, s], axis=-1)
        if self.policy.contribution is not None:
            for where in np.ndindex(n.shape):
                shares[where] = self.policy.contribution(n[where], s[where], *self.policy.constants())
        return shares.sum(axis=0)

    def update(self, n: np.ndarray, s: np.ndarray, q: np.ndarray, players: np.ndarray, arms: np.ndarray) -> None:
        """After a round in which these players pulled these arms."""
        shared = self.now(n, s)
        if self.policy.refresh is Refresh.ANY_PULL:
            self.seen[:] = shared
        self.seen[players, arms] = shared[arms]

    def own(self, n: np.ndarray, s: np.ndarray, player: int, arm: int) -> tuple[float, float]:
        """The player's own numbers that the index takes."""
        return n[player, arm], s[player, arm]

    def of(self, player: int, arm: int) -> tuple[Any, Any]:
        """The shared ones."""
        return float(self.seen[player, arm, 0]), float(self.seen[player, arm, 1])


class _Summary:
    """The numbers of arms and players, of a policy with a summary."""

    def __init__(self, policy: Policy, players: int, arms: int) -> None:
        self.policy = policy
        self.of_arm, self.of_player = np.zeros((arms, policy.arm_numbers)), np.zeros((players, policy.player_numbers))
        self.pulls = 0
        zeros = np.zeros((players, arms))
        self.make(zeros, zeros, zeros)

    def make(self, n: np.ndarray, s: np.ndarray, q: np.ndarray) -> None:
        """Make the summary anew."""
        tables = [np.rint(table.T * unit).astype(np.int64) for table, unit in ((n, 1), (s, GRID), (q, GRID))]
        work = np.full((self.policy.work_tables, *n.T.shape), np.nan)
        assert self.policy.summary is not None
        self.counted = np.stack([n, s], axis=-1)
        self.policy.summary(*tables, self.of_arm, self.of_player, work, *self.policy.constants())

    def update(self, n: np.ndarray, s: np.ndarray, q: np.ndarray, players: np.ndarray, arms: np.ndarray) -> None:
        """After a round."""
        if due(int(n.sum()), self.pulls, len(n)):
            self.make(n, s, q)
            self.pulls = int(n.sum())
        for player, arm in zip(players, arms, strict=True):
            if follows(n[player, arm]):
                self.counted[player, arm] = n[player, arm], s[player, arm]

    def own(self, n: np.ndarray, s: np.ndarray, player: int, arm: int) -> tuple[float, float]:
        """The player's own numbers that the index takes."""
        return float(self.counted[player, arm, 0]), float(self.counted[player, arm, 1])

    def of(self, player: int, arm: int) -> tuple[Any, Any]:
        """The shared ones."""
        return self.of_arm[arm].copy(), self.of_player[player].copy()


def _check_traces(policy: Policy, anytime: bool) -> None:
    horizon = 30
    problem = uniform(players=4, arms=5, epsilon=0.2, seed=8)[0]
    mask = np.random.default_rng(4).random((horizon, 4)) < 0.6
    mask[7] = False
    schedules = (Concurrent(), Sequential(), Sequential("random"), Random(0.5), Random([0, 0.2, 0.8, 1]), Fixed(mask))
    for schedule in schedules:
        run = trace(problem, policy, horizon, seed=6, schedule=schedule, anytime=anytime)
        _check_indices(policy, problem, run, anytime, schedule)
        _check_picks(policy, problem, run, schedule)


def _check_indices(policy: Policy, problem: Problem, run: Trace, anytime: bool, schedule: Schedule) -> None:
    """Recompute every center and scale from the arms and rewards alone."""
    players, arms = problem.means.shape
    horizon = len(run.arms)
    n, s, q = (np.zeros((players, arms)) for _ in range(3))
    shared = _Summary(policy, players, arms) if policy.summary else _Sums(policy, players, arms)
    for t in range(horizon + 1):
        log_T = math.log(max(t + 1, 2) if anytime else horizon)
        for player, arm in np.ndindex(players, arms):
            index = policy.index(
                *shared.own(n, s, player, arm), *shared.of(player, arm), players, log_T, *policy.constants()
            )
            np.testing.assert_allclose(
                (run.centers[t, player, arm], run.scales[t, player, arm]),
                index,
                rtol=1e-12,
                atol=1e-12,
                err_msg=f"index of player {player}, arm {arm} after {t} rounds of {schedule}",
            )
        if t == horizon:
            return
        active = np.flatnonzero(run.active[t])
        pulled, rewards = run.arms[t, active], run.rewards[t, active]
        n[active, pulled] += 1
        s[active, pulled] += rewards
        q[active, pulled] += np.floor(rewards**2 * GRID + 0.5) / GRID
        shared.update(n, s, q, active, pulled)


def _check_picks(policy: Policy, problem: Problem, run: Trace, schedule: Schedule) -> None:
    """Recompute every draw in full, and with it every pick."""
    key = streams.key(6, problem.stream, 0)
    for row, player in np.argwhere(run.active):
        t = int(row) + 1
        values = []
        for arm in range(problem.arms):
            scale = run.scales[row, player, arm]
            z = _draw(t, int(player), arm, key) if scale > 0 else 0.0
            values.append(run.centers[row, player, arm] + scale * z)
        expected = int(np.argmax(values))
        assert run.arms[row, player] == expected, f"player {player} in round {t} of {schedule}: arm {expected} was best"


def _draw(t: int, player: int, arm: int, key: tuple[int, int]) -> float:
    """The normal draw of an arm in a round, by itself."""
    number, place = divmod(2 + arm, 8)
    word = int(streams.block(number, player, t, streams.DRAW, key)[place // 2])
    middle, last, _, _ = streams.block(arm, player, t, streams.REFINE, key)
    return float(normal(word >> 16 if place % 2 else word & 0xFFFF, int(middle), int(last)))
