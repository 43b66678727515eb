"""The contract of a policy, as checks."""

import dataclasses
import functools
import itertools
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from posse import streams
from posse.compile import bind
from posse.generate import subpar, uniform
from posse.normal import normal
from posse.policies.base import Law, Policy, together
from posse.policies.bound import ALONE
from posse.policies.refresh import Refresh, counts_at_once, summary_is_due
from posse.policies.state import state_shapes
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
    required = (field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING)
    return cls(**dict.fromkeys(required, cast(Any, 0.1)))


def check_record(policy: Policy) -> None:
    """A policy is a frozen record of numbers with a label, and survives pickling."""
    assert policy.label, "the label is empty; a __post_init__ of its own must call super().__post_init__()"
    constants = policy.constants()
    assert all(isinstance(value, float) for value in constants), f"constants {constants} are not floats"
    assert dataclasses.replace(policy) == policy, "a copy differs"
    try:
        copy = pickle.loads(pickle.dumps(policy))
    except (AttributeError, pickle.PicklingError) as error:
        raise AssertionError(f"{error}; define the class at the top level of a file, not inside a function") from None
    assert copy == policy, "a pickled copy differs"
    assert dataclasses.replace(policy, label="other").label == "other", "the label cannot be set"
    try:
        policy.label = "changed"  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        return
    raise AssertionError("a policy can be changed after it was made; use @dataclass(frozen=True)")


def check_index_values(policy: Policy) -> None:
    """The index is never NaN, its scale is finite and not negative, and 0 where the policy is not randomised."""
    for numbers in _examples(policy):
        center, scale = _call(policy, "index", numbers)
        assert not math.isnan(center + scale), f"index ({center}, {scale}) at {numbers}"
        if policy.law is Law.BETA:
            assert min(center, scale) >= 1, f"a = {center}, b = {scale} at {numbers}, but both must be at least 1"
            continue
        if policy.law is Law.IMED:
            assert scale > 0 or center == math.inf, f"mean {center} of {scale} pulls at {numbers}"
            continue
        assert center != -math.inf, f"center is -inf at {numbers}: the arm could never be pulled again"
        assert 0 <= scale < math.inf, f"scale {scale} at {numbers}"
        assert policy.randomised or scale == 0, f"scale {scale} at {numbers}, but randomised = False"
        assert scale == 0 or center < math.inf, f"an infinite center with scale {scale} at {numbers}"


def check_index_compiles_to_itself(policy: Policy) -> None:
    """The compiled index gives what the plain one gives."""
    compiled = bind(policy.index)
    for numbers in _examples(policy):
        named = [numbers[name] for name in policy.named_by("index")]
        given = [value if isinstance(value, tuple) else float(value) for value in named]
        _assert_same(compiled(*given), policy.index(*given), f"compiled index at {numbers}", least=0.0)


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


def _assert_same(found: Sequence[float], expected: Sequence[float], where: str, least: float = 1e-12) -> None:
    """Both numbers of an index agree up to rounding; a difference of `least` never counts."""
    for one, other in zip(found, expected, strict=True):
        same = math.isclose(one, other, rel_tol=1e-12, abs_tol=least)
        assert same, f"{where}: {tuple(found)}, but expected {tuple(expected)}"


def _call(policy: Policy, function: str, numbers: dict[str, Any]) -> Any:
    """What one of the policy's functions gives for numbers by name."""
    numbers = {"lane": ALONE} | numbers
    return getattr(policy, function)(*(numbers[name] for name in policy.named_by(function)))


@functools.lru_cache(maxsize=1)
def _examples(policy: Policy) -> list[dict[str, Any]]:
    """What `index` may be called with, from nothing to past 32-bit counts."""
    examples = []
    for n, others, own_mean, other_mean, players, horizon in itertools.product(
        (0, 1, 7, 400, 2**33), (0, 1, 50, 2**34), (0.0, 0.3, 1.0), (0.0, 0.7, 1.0), (1, 20), (1, 50_000)
    ):
        if players == 1 and others:
            continue
        if policy.refresh is Refresh.OWN_PULL and n == 0 and others:
            continue  # nothing is seen before the first own pull
        known = _Known(policy, players, 2, math.log(horizon))
        known.put(0, 0, n, own_mean)
        known.put(players - 1, 0, others, other_mean)
        known.pulls = -1  # so that a summary is due
        known.share(np.arange(players), np.zeros(players, int), math.log(horizon))
        examples.append(known.numbers(0, 0, math.log(horizon)))
    return examples


OF_SUMMARY = ("of_player", "of_pair", "of_value", "columns", "weights", "part_of", "work")  # beside what is of arms


class _Known:
    """What a policy knows, kept in the plainest way: tables [player, arm] of Python numbers by name."""

    def __init__(self, policy: Policy, players: int, arms: int, log_T: float) -> None:
        self.policy, self.players = policy, players
        self.constants = dict(zip(policy.constant_names(), policy.constants(), strict=True))
        self.statistics = {each.name: np.zeros((players, arms), np.int64) for each in policy.statistics}
        self.indexed = self.statistics
        self.of_arm = np.zeros((arms, len(policy.shared)))
        shapes = state_shapes(policy, policy.statistics, players, arms)
        self.filled: dict[str, np.ndarray] = {name: np.zeros(shapes[name][1], shapes[name][0]) for name in OF_SUMMARY}
        self.pulls = 0
        self.seen = np.zeros((players, arms, len(policy.shared)))
        self._make_shared(log_T)
        self.seen[:] = self.of_arm

    def put(self, player: int, arm: int, pulls: int, mean: float) -> None:
        """Let a pair have pulled so often with this mean; statistics of the policy's own follow one such reward."""
        for each in self.policy.statistics:
            if each.name in ("n", "s", "q"):
                total = {"n": pulls, "s": pulls * mean * GRID, "q": pulls * mean * mean * GRID}[each.name]
                self.statistics[each.name][player, arm] += round(total)
            elif pulls:
                self.statistics[each.name][player, arm] = each.update(0, round(mean * GRID))

    def observe(self, player: int, arm: int, reward: float) -> None:
        """Count one reward."""
        for each in self.policy.statistics:
            table = self.statistics[each.name]
            table[player, arm] = each.update(int(table[player, arm]), round(reward * GRID))

    def share(self, players: np.ndarray, arms: np.ndarray, log_T: float) -> None:
        """Bring what is shared up to date, after a round in which these players pulled these arms."""
        pulls = int(self.statistics["n"].sum())
        if self.policy.refresh is not Refresh.SCHEDULE:
            self._make_shared(log_T)
        elif summary_is_due(pulls, self.pulls, self.players):
            self._make_shared(log_T)
            self.pulls = pulls
        for player, arm in zip(players, arms, strict=True):
            if counts_at_once(self.statistics["n"][player, arm]):
                for name, table in self.statistics.items():
                    self.indexed[name][player, arm] = table[player, arm]
        if self.policy.refresh is Refresh.OWN_PULL:
            self.seen[players, arms] = self.of_arm[arms]
        else:
            self.seen[:] = self.of_arm

    def _make_shared(self, log_T: float) -> None:
        policy = self.policy
        if policy.summary is not None:
            tables: dict[str, Any] = {name: table.T.copy() for name, table in self.statistics.items()}
            self.filled["work"][:] = np.nan
            tables |= {"of_arm": self.of_arm, "log_T": log_T} | self.filled
            _call(policy, "summary", tables | self.constants)
            self.indexed = {name: table.copy() for name, table in self.statistics.items()}
            return
        self.of_arm[:] = 0.0
        for player, arm in np.ndindex(self.statistics["n"].shape):
            own = self._own(self.statistics, player, arm) | self.constants
            adds = _call(policy, "contribution", own) if policy.contribution else (own["n"], own["s"])
            self.of_arm[arm] += adds

    def _own(self, tables: dict[str, np.ndarray], player: int, arm: int) -> dict[str, float]:
        return {each.name: float(tables[each.name][player, arm] * each.unit) for each in self.policy.statistics}

    def numbers(self, player: int, arm: int, log_T: float) -> dict[str, Any]:
        """All that the index of a pair may take, by name."""
        numbers: dict[str, Any] = self._own(self.indexed, player, arm) | self.constants
        for names, values in (
            (self.policy.shared, self.seen[player, arm].tolist()),
            (self.policy.of_player, self.filled["of_player"][player].tolist()),
            (self.policy.of_pair, self.filled["of_pair"][:, arm, player].tolist()),
        ):
            numbers |= dict(zip(names, values, strict=True))
            for name, places in together(names).items():
                numbers[name] = tuple(values[place] for place in places)
        return numbers | {"M": self.players, "K": self.indexed["n"].shape[1], "log_T": log_T}


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
    known = _Known(policy, players, arms, math.log(2 if anytime else horizon))
    for t in range(horizon + 1):
        log_T = math.log(max(t + 1, 2) if anytime else horizon)
        for player, arm in np.ndindex(players, arms):
            found = run.centers[t, player, arm], run.scales[t, player, arm]
            expected = _call(policy, "index", known.numbers(player, arm, log_T))
            _assert_same(found, expected, f"index of player {player}, arm {arm} after {t} rounds of {schedule}")
        if t == horizon:
            return
        active = np.flatnonzero(run.active[t])
        for player in active:
            known.observe(int(player), int(run.arms[t, player]), float(run.rewards[t, player]))
        known.share(active, run.arms[t, active], log_T)


def _check_picks(policy: Policy, problem: Problem, run: Trace, schedule: Schedule) -> None:
    """Recompute every draw in full, and with it every pick."""
    if policy.law is not Law.NORMAL:
        return  # posse's tests compare Beta draws with their law, and IMED with its definition
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
