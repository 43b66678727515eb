"""LinTS, MixedTS and TreeTS: against their oracles, with attributes of every kind, and where they are simple."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import naive_posse
import naive_told
import posse
from posse import schedule
from posse.attributes import Attributes, Coder
from posse.learner.core import Core
from posse.policies.linear_model import MOST, single_parts
from posse.policies.state import state_shapes
from posse.policies.statistics import BASIC
from posse.rewards import GRID
from posse.simulation import trace

KINDS = {"region": "category", "age": [18, 30, 50], "device": ["phone", "desktop"], "size": [5]}
VALUES = {
    "region": ["north", "south", "east", None],
    "age": [3, 20, 44, 70, None],
    "device": ["phone", "desktop", None],
    "size": [1, 9],
}
POLICIES = [
    posse.LinTS(),
    posse.LinTS(pairs=1, noise=0.3, ridge=4),
    posse.MixedTS(0.05, 0.08),
    posse.MixedTS(0.02, 0.1, pairs=0.05, noise=0.4, prior_mean=0.3, prior_sd=0.2),
    posse.MixedTS(0.0, 0.0, prior_sd=0.1),
    posse.TreeTS(),
    posse.TreeTS(evidence=0.5, least=0.5),
]
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)


def random_players(random, players, kinds):
    declared = Attributes({name: KINDS[name] for name in kinds})
    return declared, [
        {name: VALUES[name][random.integers(len(VALUES[name]))] for name in kinds} for _ in range(players)
    ]


def random_problem(seed, players, arms, kinds, rewards="bernoulli"):
    random = np.random.default_rng(seed)
    declared, values = random_players(random, players, kinds)
    return posse.Problem(random.random((players, arms)), rewards=rewards, attributes=declared, values=values)


def parts_of(problem):
    return [naive_posse.parts_of(problem.attributes.kinds, values) for values in problem.values]


def summarise(policy, n, s, q, coded, log_T=5.0):
    """What a summary says of each player and of each pair, for tables [player, arm], in scratch with something left."""
    shapes = state_shapes(policy, BASIC, *n.shape, *coded.columns.shape[1:], coded.part_of.size)
    made = {name: np.full(shape, 7.0) for name, (_, shape) in shapes.items() if name.startswith(("of_", "work"))}
    tables = [n.T.astype(np.int64), *(np.rint(table.T * GRID).astype(np.int64) for table in (s, q))]
    given = dict(zip("nsq", tables, strict=True)) | made | coded._asdict() | {"log_T": log_T}
    given |= dict(zip(policy.constant_names(), policy.constants(), strict=True))
    policy.summary(*(given[name] for name in policy.named_by("summary")))
    return made["of_player"], made["of_pair"], made["of_value"]


def index_of(policy, player, arm, n, s, said, log_T=5.0):
    of_player, of_pair, _ = said
    numbers = dict(zip(policy.of_player, of_player[player], strict=True)) | {"n": n * 1.0, "s": s, "log_T": log_T}
    numbers |= dict(zip(policy.of_pair, of_pair[:, arm, player], strict=True))
    numbers |= dict(zip(policy.constant_names(), policy.constants(), strict=True))
    return policy.index(*(numbers[name] for name in policy.named_by("index")))


def random_tables(random, problem, most):
    n = random.integers(0, most, problem.means.shape, endpoint=True) * (random.random(problem.means.shape) < 0.8)
    s = random.binomial(n, problem.means).astype(float)
    return n, s


kinds_drawn = st.lists(st.sampled_from(list(KINDS)), unique=True, max_size=4)


@each_policy
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    players=st.integers(1, 9),
    arms=st.integers(1, 4),
    kinds=kinds_drawn,
    most=st.sampled_from([1, 5, 100, 10**5]),
)
def test_indices_are_those_of_the_oracle(policy, seed, players, arms, kinds, most):
    """At a summary, and with pulls of the player's own that came after it."""
    problem, random = random_problem(seed, players, arms, kinds), np.random.default_rng(seed)
    n, s = random_tables(random, problem, most)
    said = summarise(policy, n, s, s, problem.coded())
    oracle = naive_told.TOLD[type(policy).__name__](parts_of(problem), *policy.constants())
    index = oracle(n.tolist(), s.tolist(), s.tolist())
    for p, i in np.ndindex(n.shape):
        for more in (0, 3):
            found = index_of(policy, p, i, n[p, i] + more, s[p, i] + more, said)
            assert found == pytest.approx(index(n[p, i] + more, s[p, i] + more, p, i, 5.0), rel=1e-6, abs=1e-9)


@each_policy
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    players=st.integers(1, 6),
    arms=st.integers(1, 4),
    kinds=kinds_drawn,
    who=st.sampled_from([schedule.Concurrent(), schedule.Sequential("random"), schedule.Random(0.4)]),
    rewards=st.sampled_from(["bernoulli", "uniform", "deterministic"]),
)
def test_decisions_are_those_of_the_oracle(policy, seed, players, arms, kinds, who, rewards):
    problem = random_problem(seed, players, arms, kinds, rewards)
    run, oracle = trace(problem, policy, 40, seed=seed, schedule=who), naive.run(policy, problem, 40, who, seed=seed)
    for t, pulled in enumerate(oracle):
        for player, (arm, reward) in pulled.items():
            assert (run.arms[t, player], run.rewards[t, player]) == (arm, reward), f"player {player}, round {t + 1}"


class TestLinear:
    @pytest.mark.parametrize("own", [0.03, 0.3])
    def test_the_posterior_of_a_players_mean_is_exact(self, own):
        """The index at a summary, against conditioning the means themselves on all data."""
        random, policy = np.random.default_rng(4), posse.MixedTS(own, 0.1, pairs=0.07, prior_mean=0.4, prior_sd=0.2)
        problem = random_problem(4, 12, 3, list(KINDS))
        n, s = random_tables(random, problem, 50)
        said, parts = summarise(policy, n, s, s, problem.coded()), parts_of(problem)
        single, pair = 0.1 / np.sqrt(naive_told.count_singles(parts)), 0.07 / np.sqrt(6)
        it = naive_told.Linear(n, s, parts, 0.5, own, 0.4, 0.2, single, pair)
        for p, i in np.ndindex(n.shape):
            center, scale = index_of(policy, p, i, n[p, i], s[p, i], said)
            assert (center, scale**2) == pytest.approx((it.mean[p, i], it.variance[p, i]), rel=1e-9)

    def test_without_anything_of_players_own_it_is_lin_ts(self):
        problem = random_problem(3, 8, 4, ["region", "device"])
        for pairs in (0, 1):
            lin = posse.LinTS(pairs=pairs)
            same = posse.MixedTS(0.0, 0.5 * np.sqrt(2), pairs=0.5 * pairs)
            runs = [trace(problem, policy, 60, seed=2) for policy in (lin, same)]
            assert np.array_equal(runs[0].arms, runs[1].arms)
            assert runs[0].centers == pytest.approx(runs[1].centers)
        assert not np.array_equal(runs[0].arms, trace(problem, posse.LinTS(), 60, seed=2).arms)  # negative control

    def test_without_attributes_it_is_hier_ts(self):
        problem = random_problem(3, 6, 3, [])
        n, s = random_tables(np.random.default_rng(1), problem, 30)
        mixed, hier = posse.MixedTS(0.1, 0.2), posse.HierTS(0.1)
        said = summarise(mixed, n, s, s, problem.coded())
        for p, i in np.ndindex(n.shape):
            N, S = np.sum([hier.contribution(n[q, i], s[q, i], *hier.constants()) for q in range(6)], axis=0)
            expected = hier.index(n[p, i], s[p, i], N, S, *hier.constants())
            assert index_of(mixed, p, i, n[p, i], s[p, i], said) == pytest.approx(expected)

    def test_effects_that_were_planted_are_found(self):
        values = [{"region": r, "device": d} for r in ("north", "south", "east") for d in ("phone", "desktop")]
        declared = Attributes({"region": "category", "device": "category"})
        n = np.full((6, 1), 10**6)
        means = np.array([0.3, 0.3, 0.4, 0.4, 0.5, 0.5]) + np.array([0.02, -0.02] * 3)
        coded = Coder(declared).coded([declared.values(each) for each in values])
        _, of_pair, of_value = summarise(posse.LinTS(), n, n * means[:, None], n * means[:, None], coded)
        north, south, east = of_value[0, 0, coded.columns[::2, 0]]
        phone, desktop = of_value[0, 0, coded.columns[:2, 1]]
        assert (south - north, east - north, phone - desktop) == pytest.approx((0.1, 0.2, 0.04), abs=1e-4)
        assert of_pair[0, 0] == pytest.approx(means, abs=1e-4)
        assert not of_value[0, 0, :3].any()  # of missing values
        assert not of_value[0, 0, coded.columns[:, 2]].any()  # of pairs

    def test_a_model_has_a_limit(self):
        """Sixty players, all with another city: the pairs do not fit, and are as if they were not asked for."""
        random, declared = np.random.default_rng(5), Attributes({"city": "category", "device": "category"})
        for cities, fits in ((60, True), (70, False)):
            rows = [declared.values({"city": f"c{p}", "device": f"d{p % 2}"}) for p in range(cities)]
            coded = Coder(declared).coded(rows)
            n = random.integers(1, 30, (cities, 2))
            s = random.binomial(n, 0.4).astype(float)
            with_pairs, without = (summarise(posse.LinTS(pairs=k), n, s, s, coded)[1] for k in (1, 0))
            assert np.array_equal(with_pairs, without) != fits
        assert 60 + 2 + 60 + 1 <= MOST < 70 + 2 + 70 + 1

    def test_single_parts_are_counted(self):
        for categories in range(5):
            for numbers in range(5):
                kinds = {f"c{k}": "category" for k in range(categories)} | {f"n{k}": [1] for k in range(numbers)}
                assert single_parts(Coder(Attributes(kinds)).parts) == categories + 2 * numbers


class TestTree:
    def leaves(self, means, pulls):
        """The players of each leaf, if each has so many pulls of two arms, with just these means."""
        declared = Attributes({"region": "category", "age": [18, 30, 50]})
        told = [{"region": region, "age": age} for region in ("north", "south") for age in (3, 20, 44, 70)]
        n = np.full((8, 2), pulls)
        s = n * np.array(means)[:, None]
        coded = Coder(declared).coded(map(declared.values, told))
        _, of_pair, _ = summarise(posse.TreeTS(evidence=4), n, s, s, coded)
        found = {}
        for player, (others, mean) in enumerate(of_pair[:, 0].T):
            found.setdefault((others, round(others * mean + s[player, 0], 3)), []).append(player)
        return sorted(found.values())

    def test_players_that_are_alike_stay_together(self):
        assert self.leaves([0.4] * 8, 1000) == [list(range(8))]

    def test_a_category_is_split(self):
        means = [0.2] * 4 + [0.6] * 4
        assert self.leaves(means, 1000) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert self.leaves(means, 2) == [list(range(8))]  # too few pulls

    def test_a_number_is_cut(self):
        assert self.leaves([0.2, 0.2, 0.6, 0.6] * 2, 1000) == [[0, 1, 4, 5], [2, 3, 6, 7]]

    def test_every_combination_may_be_a_leaf(self):
        assert self.leaves(np.linspace(0.1, 0.9, 8), 10**5) == [[p] for p in range(8)]

    def test_a_player_alone_is_one_of_ind_tsv(self):
        problem = random_problem(6, 1, 4, ["region"], "uniform")
        runs = [trace(problem, policy, 200, seed=3) for policy in (posse.TreeTS(), posse.IndTSV())]
        assert np.array_equal(runs[0].arms, runs[1].arms)


def test_what_attributes_tell_is_used():
    """Means that depend on one attribute alone, with 200 rounds: each policy does better if it is told."""
    random, declared = np.random.default_rng(2), {"region": "category", "device": "category"}
    of_region = random.uniform(0.2, 0.8, (3, 4))
    values = [{"region": "abc"[p % 3], "device": "de"[p % 2]} for p in range(30)]
    told = [posse.Problem(of_region[np.arange(30) % 3], stream=k, attributes=declared, values=values) for k in range(6)]
    policies = [posse.LinTS(), posse.MixedTS(0.01, 0.15), posse.TreeTS()]
    regrets = [
        posse.simulate(problems, policies, 200).final_regret.mean(axis=(1, 2))
        for problems in (told, [problem.without_attributes() for problem in told])
    ]
    assert (regrets[0] < 0.7 * regrets[1]).all()


@each_policy
def test_a_player_that_joins_a_learner_is_known_by_its_attributes(policy):
    """One after another, with values that nobody had before: what is expected of pairs is what a new summary says."""
    problem = random_problem(7, 9, 3, ["region", "age"])
    n, s = random_tables(np.random.default_rng(7), problem, 40)
    core = Core(policy, problem.attributes)
    state = core.empty(problem.values[:2], 3, 5.0)
    for player in range(2, 9):
        for place, table in enumerate((n, s * GRID, s * GRID)):
            state.statistics[place, :, :player] = table[:player].T
        state = core.joined(state, problem.values[player], 5.0, True)
    n[8] = s[8] = 0
    coder = Coder(problem.attributes)
    of_player, of_pair, _ = summarise(policy, n, s, s, coder.coded(problem.values))
    assert state.of_pair == pytest.approx(of_pair, rel=1e-9)
    assert state.of_player[:9] == pytest.approx(of_player[:9])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: posse.LinTS(pairs=0.5), "^pairs=0.5, but expected 1 for effects of pairs of attributes, or 0"),
        (lambda: posse.LinTS(noise=0), "^noise=0, but expected a number above 0"),
        (lambda: posse.LinTS(ridge=-1), "^ridge=-1, but expected"),
        (lambda: posse.MixedTS(-0.1, 0.1), "^own=-0.1, but expected"),
        (lambda: posse.MixedTS(0.1, 0.1, prior_sd=0), "^prior_sd=0, but expected"),
        (lambda: posse.TreeTS(evidence=-1), "^evidence=-1, but expected"),
        (lambda: posse.TreeTS(least=0), "^least=0, but expected"),
    ],
)
def test_wrong_constants_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
