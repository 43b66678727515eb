"""Seeded families of problems: the construction of the paper's experiments, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from posse.generate import structured, subpar, uniform
from posse.rewards import Bernoulli, Beta

EPSILON = 0.15


def is_uniform(sample):
    """Whether numbers look uniform on [0, 1] (Kolmogorov and Smirnov)."""
    return stats.kstest(sample, "uniform").pvalue > 0.001


def place_within(value, low, high):
    return (value - low) / (high - low)


def cut(centres, epsilon):
    """The interval of ±ε/2 around the centres, cut to [0, 1]."""
    return np.maximum(centres - epsilon / 2, 0), np.minimum(centres + epsilon / 2, 1)


class TestSubpar:
    @pytest.mark.parametrize("v", range(10))
    def test_exactly_so_many_arms_are_subpar(self, v):
        problems = subpar(v, count=12, seed=v)
        assert [len(problem.subpar_5) for problem in problems] == [v] * 12
        assert all(problem.subpar_5.tolist() == list(range(10 - v, 10)) for problem in problems)

    @pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 0.05, 0.16])
    def test_so_they_are_for_every_epsilon(self, epsilon):
        for problem in subpar(4, count=20, players=5, arms=7, epsilon=epsilon, seed=2):
            assert problem.subpar_5.tolist() == [3, 4, 5, 6]

    def test_the_defaults_are_those_of_the_experiments(self):
        (problem,) = subpar(8)
        assert problem.means.shape == (20, 10)
        assert problem.epsilon == EPSILON
        assert problem.rewards == Bernoulli()

    def test_the_problem_carries_the_epsilon_asked_for(self):
        for problem in subpar(3, count=20, players=2, arms=5, epsilon=0.1):
            spread = np.ptp(problem.means, axis=0).max()
            assert spread < problem.epsilon == 0.1

    def test_rewards_are_passed_on(self):
        assert subpar(1, rewards=Beta(2.0))[0].rewards == Beta(2.0)
        assert uniform(rewards=Beta(2.0))[0].rewards == Beta(2.0)


class TestConstruction:
    """The law of the means, from many small problems: three good arms, two subpar ones, four players."""

    problems = subpar(2, count=500, players=4, arms=5, epsilon=EPSILON, seed=1)
    means = np.array([problem.means for problem in problems])
    first = means[:, 0]
    best = first[:, :3].max(axis=1, keepdims=True)

    def test_good_arms_of_the_first_player_are_uniform_on_their_range(self):
        assert is_uniform(place_within(self.first[:, :3], 0.8, 0.8 + EPSILON).ravel())

    def test_subpar_arms_of_the_first_player_are_uniform_up_to_5_epsilon_below_its_best(self):
        assert is_uniform(place_within(self.first[:, 3:], 0, self.best - 5 * EPSILON).ravel())

    def test_other_ranges_are_noticed(self):
        """Negative control: a maximum that is not taken, or a range off by a tenth."""
        assert not is_uniform(place_within(self.first[:, 3:], 0, 0.8 - 5 * EPSILON).ravel())
        assert not is_uniform(place_within(self.first[:, :3], 0.8, 0.8 + 1.1 * EPSILON).ravel())

    def test_other_players_are_uniform_in_the_cut_interval(self):
        low, high = cut(self.first[:, None], EPSILON)
        assert is_uniform(place_within(self.means[:, 1:], low, high).ravel())

    def test_uncut_intervals_are_noticed(self):
        """Negative control: subpar means near 0 and good means near 1 make the cut matter."""
        centre = self.first[:, None]
        assert not is_uniform(place_within(self.means[:, 1:], centre - EPSILON / 2, centre + EPSILON / 2).ravel())

    def test_samples_are_not_clipped(self):
        assert ((self.means > 0) & (self.means < 1)).all()
        rng = np.random.default_rng(0)
        clipped = np.clip(self.first[:, None] + rng.uniform(-EPSILON / 2, EPSILON / 2, (500, 3, 5)), 0, 1)
        assert (clipped == 0).any(), "clipping would have left mass at 0"
        assert (clipped == 1).any(), "and at 1"

    def test_players_and_arms_are_drawn_apart(self):
        low, high = cut(self.first[:, None], EPSILON)
        places = place_within(self.means[:, 1:], low, high).reshape(500, -1)
        correlations = np.corrcoef(places.T) - np.eye(15)
        assert abs(correlations).max() < 4.5 / math.sqrt(500)
        together = np.corrcoef(places[:, 0], places[:, 0] + 0.5 * places[:, 1])[0, 1]
        assert together > 4.5 / math.sqrt(500), "the check could not see dependence"


class TestUniform:
    problems = uniform(count=400, players=5, arms=3, epsilon=0.3, seed=3)
    means = np.array([problem.means for problem in problems])

    def test_players_stay_within_epsilon_of_each_other_inside_the_unit_interval(self):
        assert np.ptp(self.means, axis=1).max() <= 0.3
        assert np.ptp(self.means, axis=1).max() > 0.25
        assert ((self.means > 0) & (self.means < 1)).all()
        assert all(problem.epsilon == 0.3 for problem in self.problems)

    def test_with_epsilon_0_the_means_are_the_uniform_centres(self):
        centres = np.array([problem.means for problem in uniform(count=400, players=2, arms=3, epsilon=0.0, seed=3)])
        assert np.array_equal(centres[:, 0], centres[:, 1])
        assert is_uniform(centres[:, 0].ravel())
        assert not is_uniform(centres[:, 0].ravel() ** 1.2)

    def test_means_are_uniform_in_the_cut_interval_around_the_centres(self):
        """The centres are those of ε = 0, drawn first from the same numbers."""
        centres = np.array([problem.means for problem in uniform(count=400, players=1, arms=3, epsilon=0.0, seed=3)])
        cut_places = place_within(self.means, *cut(centres, 0.3))
        uncut_places = place_within(self.means, centres - 0.15, centres + 0.15)
        near_0 = np.broadcast_to(centres < 0.15, self.means.shape)
        assert is_uniform(cut_places.ravel())
        assert is_uniform(cut_places[near_0])
        assert not is_uniform(uncut_places[near_0])

    def test_the_defaults_are_those_of_the_experiments(self):
        (problem,) = uniform()
        assert problem.means.shape == (20, 10)
        assert problem.epsilon == EPSILON


def means(**options):
    """Means of many small problems, [problem, player, arm]."""
    settings = {"count": 200, "players": 6, "arms": 4, "spread": 0.0, "seed": 5, **options}
    return np.array([problem.means for problem in structured(**settings)])


class TestStructured:
    centres = means(players=1)[:, 0]

    def test_centres_are_uniform_on_their_range(self):
        assert is_uniform(place_within(self.centres, 0.2, 0.8).ravel())
        assert not is_uniform(place_within(self.centres, 0.2, 0.85).ravel())
        assert is_uniform(place_within(means(players=1, low=0.5, high=0.6), 0.5, 0.6).ravel())

    def test_players_that_are_alike_differ_by_the_spread_alone(self):
        assert np.ptp(means(), axis=1).max() == 0
        spread = np.ptp(means(spread=0.1), axis=1)
        assert 0.09 < spread.max() <= 0.1

    def test_a_level_moves_all_arms_of_a_player_together(self):
        found = means(level=0.3)
        shift = found - means()
        assert np.ptp(shift, axis=2).max() < 1e-12
        assert is_uniform(place_within(shift[:, :, 0], -0.15, 0.15).ravel())
        assert not is_uniform(place_within(shift[:, :, 0], -0.15, 0.18).ravel())

    def test_groups_are_alike_inside_and_unlike_outside(self):
        found = means(groups=2)
        assert np.ptp(found[:, :3], axis=1).max() == np.ptp(found[:, 3:], axis=1).max() == 0
        assert abs(np.corrcoef(found[:, 0].ravel(), found[:, 5].ravel())[0, 1]) < 0.15

    def test_groups_are_as_equal_as_can_be(self):
        sizes = [len(set(map(tuple, each))) for each in means(groups=4, count=3)]
        assert sizes == [4, 4, 4]

    def test_the_last_arms_are_unlike(self):
        found = means(unlike=0.5)
        assert np.ptp(found[..., :2], axis=1).max() == 0
        assert np.ptp(found[..., 2:], axis=1).min() > 0
        assert is_uniform(place_within(found[..., 2:], 0.2, 0.8).ravel())

    def test_a_reversed_player_has_the_arms_mirrored(self):
        found = means(odd=1)
        assert np.ptp(found[:, :-1], axis=1).max() == 0
        np.testing.assert_allclose(found[:, -1], 1.0 - found[:, 0], atol=1e-12)

    def test_a_swapped_player_has_best_and_worst_changed(self):
        found = means(odd=2, oddity="swapped")
        for table in found:
            best, worst = table[0].argmax(), table[0].argmin()
            expected = table[0].copy()
            expected[[best, worst]] = expected[[worst, best]]
            assert (table[-2:] == expected).all()
            assert (table[:-2] == table[0]).all()

    def test_a_favourite_is_lifted_over_all_centres_for_each_on_its_own(self):
        found = means(odd=6, oddity="favourite")
        favourite = found.argmax(axis=2)
        assert np.allclose(found.max(axis=2), 0.9)
        assert stats.chisquare(np.bincount(favourite.ravel(), minlength=4)).pvalue > 0.001
        assert ((found != means()).sum(axis=2) == 1).all()

    def test_a_player_of_its_own_has_nothing_of_the_others(self):
        found = means(odd=1, oddity="own")
        assert abs(np.corrcoef(found[:, 0].ravel(), found[:, -1].ravel())[0, 1]) < 0.15
        assert np.corrcoef(found[:, 0].ravel(), found[:, 1].ravel())[0, 1] > 0.99

    @pytest.mark.parametrize(
        ("options", "epsilon"),
        [
            ({"spread": 0.1}, 0.1),
            ({"spread": 0.1, "level": 0.2}, 0.3),
            ({"spread": 0.1, "groups": 2}, 0.7),
            ({"spread": 0.1, "unlike": 0.1}, 0.7),
            ({"odd": 1, "spread": 0.0}, 0.6),
            ({"odd": 1, "spread": 0.0, "oddity": "favourite"}, 0.7),
            ({"low": 0.0, "high": 1.0, "groups": 2, "spread": 0.3}, 1.0),
        ],
        ids=str,
    )
    def test_the_problem_carries_an_epsilon_that_holds_for_all_of_them(self, options, epsilon):
        for problem in structured(count=50, players=6, arms=4, **options):
            assert problem.epsilon == pytest.approx(epsilon, abs=1e-12)

    @pytest.mark.parametrize(("scale", "onto"), [("logit", lambda p: np.log(p / (1 - p))), ("log", np.log)])
    def test_on_another_scale_a_level_moves_all_arms_of_a_player_together(self, scale, onto):
        options = {"scale": scale, "low": 0.1, "high": 0.2}
        shift = onto(means(level=2.0, **options)) - onto(means(low=0.1, high=0.2))
        assert np.ptp(shift, axis=2).max() < 1e-12
        assert is_uniform(place_within(shift[:, :, 0], -1, 1).ravel())
        assert not is_uniform(place_within(shift[:, :, 0], -1, 1.2).ravel())
        spread = onto(means(spread=0.3, **options)) - onto(means(low=0.1, high=0.2))
        assert is_uniform(place_within(spread, -0.15, 0.15).ravel())

    @pytest.mark.parametrize(
        "options",
        [
            {"scale": "logit", "level": 3.0},
            {"scale": "logit", "level": 3.0, "low": 0.1, "high": 0.3},
            {"scale": "logit", "level": 3.0, "low": 0.7, "high": 0.9},
            {"scale": "log", "level": 2.0, "low": 0.1, "high": 0.3},
            {"scale": "logit", "level": 1.0, "groups": 2},
            {"scale": "log", "level": 1.0, "odd": 20, "oddity": "favourite", "low": 0.1, "high": 0.3},
            {"scale": "logit", "level": 2.0, "centers": [0.9, 0.3, 0.2]},
        ],
        ids=str,
    )
    def test_on_another_scale_too_epsilon_is_the_least_that_holds(self, options):
        """The most that any two players differ, over many problems, comes near it and never beyond."""
        problems = structured(**{"count": 400, "players": 30, "arms": 3, "spread": 0.1, **options})
        widest = max(np.ptp(problem.means, axis=0).max() for problem in problems)
        assert 0.93 * problems[0].epsilon < widest <= problems[0].epsilon
        assert len({problem.epsilon for problem in problems}) == 1

    def test_centers_may_be_given(self):
        found = means(centers=[0.2, 0.3, 0.1, 0.15], level=0.1)
        assert np.allclose(found - found[..., :1], [0, 0.1, -0.1, -0.05])
        assert len(set(found[..., 0].ravel())) == found[..., 0].size

    @pytest.mark.parametrize(
        ("options", "groups"),
        [
            ({}, [0] * 6),
            ({"groups": 2}, [0, 0, 0, 1, 1, 1]),
            ({"groups": 3, "majority": 0.5}, [0, 0, 0, 1, 1, 2]),
            ({"groups": 2, "majority": 0.2}, [0, 1, 1, 1, 1, 1]),
            ({"odd": 3}, [0, 0, 0, 1, 1, 1]),
            ({"odd": 4, "groups": 2, "oddity": "swapped"}, [0, 0, 2, 3, 3, 3]),
            ({"odd": 2, "oddity": "own"}, [0, 0, 0, 0, 5, 6]),
        ],
        ids=str,
    )
    def test_the_problem_knows_who_is_alike(self, options, groups):
        """With no spread, players of one group have the same means and others do not."""
        (problem,) = structured(players=6, arms=4, spread=0.0, **options)
        assert list(problem.groups) == groups
        alike = (problem.means[:, None] == problem.means).all(axis=2)
        assert np.array_equal(alike, np.equal.outer(groups, groups))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"majority": 0.5}, r"^majority=0\.5 of 20 players in groups=1, but no group may be empty"),
            ({"majority": 0.97, "groups": 3}, r"^majority=0\.97 of 20"),
            ({"majority": 0.0, "groups": 3}, "^majority=0 of 20"),
            ({"scale": "probit"}, "^scale='probit'.*'logit', 'log'"),
            ({"scale": "logit", "low": 0.0}, "^scale='logit'.*inside"),
            ({"scale": "log", "level": 1.0}, r"^level=1 with centres.*largest mean would be 1\.3"),
            ({"scale": "logit", "level": 11.0}, r"^level=11.*\[0, 10\]"),
            ({"centers": [0.1, 0.2]}, r"^centers=\[0\.1, 0\.2\], but expected one for each of 10 arms"),
            ({"centers": [1.2] * 10}, r"^centers=1\.2"),
            ({"centers": 0.5}, r"^centers=0\.5, but expected one number for each of 10 arms"),
            ({"centers": [0.5] * 10, "groups": 2}, r"^groups=2 with centers, but then all groups"),
            ({"low": 0.6, "high": 0.4}, r"^high=0\.4.*\[0\.6, 1\]"),
            ({"groups": 3, "players": 2}, "^groups=3.*at most 2"),
            ({"odd": 3, "players": 2}, "^odd=3.*at most 2"),
            ({"oddity": "strange"}, "^oddity='strange'.*'reversed', 'swapped', 'favourite', 'own'"),
            ({"level": 0.5}, r"^level=0\.5 with centres from 0\.2 to 0\.8.*stay in \[0, 1\]"),
            ({"high": 0.95, "odd": 1, "oddity": "favourite"}, r"^level=0 with centres from 0\.2 to 1\.05"),
        ],
        ids=str,
    )
    def test_impossible_structures_say_why(self, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            structured(**options)


FAMILIES = {
    "attributes": lambda **options: structured(
        attributes={"region": 2, "age": [3, 9]},
        interactions=0.05,
        missing=0.1,
        arms=4,
        **{"spread" if name == "epsilon" else name: value for name, value in options.items()},
    ),
    "subpar": lambda **options: subpar(2, players=3, arms=4, **options),
    "uniform": lambda **options: uniform(players=3, arms=4, **options),
    "structured": lambda **options: structured(
        players=3, arms=4, **{"spread" if name == "epsilon" else name: value for name, value in options.items()}
    ),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
class TestSeeds:
    def test_a_problem_does_not_depend_on_the_count(self, family):
        many = family(count=9, seed=4)
        for count in (1, 2, 5):
            assert family(count=count, seed=4) == many[:count]
        assert family(count=range(5, 8), seed=4) == many[5:8]

    def test_a_seed_gives_the_same_problems_again_and_another_gives_others(self, family):
        assert family(count=3, seed=4) == family(count=3, seed=4)
        assert set(family(count=3, seed=4)).isdisjoint(family(count=3, seed=5))

    def test_problems_of_one_seed_differ(self, family):
        problems = family(count=20)
        assert len(set(problems)) == 20
        assert len({problem.stream for problem in problems}) == 20

    def test_none_is_a_fine_count(self, family):
        assert family(count=0) == []

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"seed": -1}, ValueError, "^seed=-1"),
            ({"seed": 1.5}, TypeError, r"^seed=1\.5"),
            ({"count": -1}, ValueError, "^count=-1"),
            ({"count": 2.0}, TypeError, r"^count=2\.0"),
            ({"epsilon": -0.1}, ValueError, r"^(epsilon|spread)=-0\.1"),
            ({"epsilon": math.nan}, ValueError, "^(epsilon|spread)=nan"),
            ({"epsilon": "0.1"}, TypeError, "^(epsilon|spread)='0.1'"),
            ({"rewards": "normal"}, ValueError, "^rewards='normal'"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_bad_options_are_refused_by_name(self, family, options, error, message):
        with pytest.raises(error, match=message):
            family(**options)


@pytest.mark.parametrize(
    "family", [lambda **options: subpar(0, **options), uniform, structured], ids=["subpar", "uniform", "structured"]
)
@pytest.mark.parametrize("name", ["players", "arms"])
def test_there_is_at_least_one_player_and_one_arm(family, name):
    assert family(**{name: 1})[0].means.shape[name == "arms"] == 1
    with pytest.raises(ValueError, match=f"^{name}=0.*at least 1"):
        family(**{name: 0})
    with pytest.raises(TypeError, match=rf"^{name}=2\.5"):
        family(**{name: 2.5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_subpar": 10}, "^n_subpar=10 of arms=10.*the best arm is never subpar: at most 9"),
        ({"n_subpar": 5, "arms": 3}, "^n_subpar=5 of arms=3.*at most 2"),
        ({"n_subpar": -1}, "^n_subpar=-1.*at least 0"),
        ({"n_subpar": 0, "epsilon": 0.21}, r"^epsilon=0\.21.*at most 0\.2"),
        ({"n_subpar": 1, "epsilon": 0.17}, r"^epsilon=0\.17 with n_subpar=1.*at most 0\.16"),
    ],
    ids=str,
)
def test_impossible_requests_say_why(options, message):
    with pytest.raises(ValueError, match=message):
        subpar(**options)


def test_requests_at_the_edge_of_the_possible_are_met():
    assert subpar(0, epsilon=0.2)[0].epsilon == 0.2
    assert len(subpar(9, epsilon=0.16)[0].subpar_5) == 9
