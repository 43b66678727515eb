"""Generated problems whose players have attributes: who has which, and how much they explain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_generate import is_uniform, place_within

from posse.attribute_effects import AttributeEffects
from posse.generate import structured

SIZES = {"region": 4, "device": 5, "channel": 3}


def attributed(**options):
    """Problems with players of 60 combinations, where a standard deviation is 0.08."""
    settings = {"count": 200, "arms": 3, "spread": 0.08 * math.sqrt(12), "low": 0.4, "high": 0.6, **options}
    return structured(**{"attributes": SIZES, **settings})


def variances(problems, *of):
    """How much of the variance between players the values of some attributes tell, and all of it, on an arm."""
    told = []
    for problem in problems:
        own = [tuple(values[place] for place in of) for values in problem.values]
        by_value = {value: problem.means[[each == value for each in own]].mean(axis=0) for value in own}
        told.append(np.array([by_value[value] for value in own]).var(axis=0))
    return np.mean(told), np.mean([problem.means.var(axis=0) for problem in problems])


class TestAttributes:
    def test_players_have_every_combination_once_in_a_mixed_order(self):
        first, second = (problem.values for problem in attributed(count=2))
        assert len(set(first)) == len(first) == 60
        assert set(first) == set(second)
        assert first != second
        assert {values[0] for values in first} == {"region 1", "region 2", "region 3", "region 4"}

    @pytest.mark.parametrize(("players", "most"), [(20, 1), (60, 1), (90, 2), (150, 3)])
    def test_other_numbers_of_players_have_combinations_as_equally_often_as_can_be(self, players, most):
        (problem,) = attributed(players=players, count=1)
        counts = [problem.values.count(values) for values in set(problem.values)]
        assert (len(problem.values), len(counts), max(counts)) == (players, min(players, 60), most)
        assert min(counts) >= players // 60

    @pytest.mark.parametrize("explained", [0.9, 0.5, {"region": 0.3, "channel": 0.2}])
    def test_each_attribute_explains_its_share_of_the_variance(self, explained):
        """What is a player's own adds, by chance, a little to each: its variance by the degrees of freedom."""
        problems = attributed(explained=explained)
        shares = explained if isinstance(explained, dict) else dict.fromkeys(SIZES, explained / 3)
        rest = 1 - sum(shares.values())
        for place, (name, size) in enumerate(SIZES.items()):
            told, total = variances(problems, place)
            assert total == pytest.approx(0.08**2, rel=0.05)
            assert told / total == pytest.approx(shares.get(name, 0) + rest * (size - 1) / 59, abs=0.025)

    def test_interactions_are_what_two_attributes_do_beyond_each(self):
        problems = attributed(explained=0.0, interactions=0.9)
        for place in range(3):
            told, total = variances(problems, place)
            assert told / total < 0.01
        for pair, cells in (((0, 1), 20), ((1, 2), 15), ((0, 2), 12)):
            told, total = variances(problems, *pair)
            assert told / total == pytest.approx(0.3 + 0.1 * (cells - 1) / 59, abs=0.03)

    def test_nothing_explained_is_what_there_is_without_attributes(self):
        same = {"players": 60, "arms": 3, "spread": 0.2, "count": 4}
        told, bare = structured(attributes=SIZES, explained=0.0, **same), structured(**same)
        assert [problem.without_attributes() for problem in told] == bare
        assert all(problem.attributes for problem in told)

    def test_everything_explained_leaves_nothing_to_the_player(self):
        (problem,) = attributed(explained=1.0, players=240, count=1)
        by_values = {}
        for values, means in zip(problem.values, problem.means, strict=True):
            assert np.array_equal(by_values.setdefault(values, means), means)

    def test_a_number_has_a_slope_over_its_bins(self):
        problems = attributed(attributes={"age": [20, 30, 40]}, explained=1.0, players=40)
        slopes = []
        for problem in problems:
            means = np.array([problem.means[problem.values.index((value,))] for value in range(4)])
            steps = np.diff(means, axis=0)
            assert np.allclose(steps, steps[0])
            slopes.append(steps[0])
        assert variances(problems, 0)[1] == pytest.approx(0.08**2, rel=0.08)
        assert is_uniform(place_within(np.array(slopes), -np.abs(slopes).max(), np.abs(slopes).max()).ravel())

    @pytest.mark.parametrize("first", [-1e300, 0.0, 1e20])
    def test_every_bin_has_players_however_large_its_cuts(self, first):
        (problem,) = structured(attributes={"age": [first, 2e20]}, arms=2)
        assert sorted(problem.values) == [(0,), (1,), (2,)]

    def test_a_share_of_the_values_is_not_told_and_nothing_else_changes(self):
        whole, holes = attributed(count=20), attributed(count=20, missing=0.2)
        found = [value for problem in holes for values in problem.values for value in values]
        assert np.mean([value is None for value in found]) == pytest.approx(0.2, abs=0.03)
        known = [value for problem in whole for values in problem.values for value in values]
        assert all(value in (None, other) for value, other in zip(found, known, strict=True))
        assert all(np.array_equal(a.means, b.means) for a, b in zip(whole, holes, strict=True))

    def test_rare_values_have_few_players(self):
        found = [values for problem in attributed(rare=1.0, count=100) for values in problem.values]
        for place, size in enumerate(SIZES.values()):
            counts = np.unique_counts([values[place] for values in found]).counts
            weights = 1 / np.arange(1, size + 1)
            assert np.allclose(counts / counts.sum(), weights / weights.sum(), atol=0.02)

    @pytest.mark.parametrize("scale", [None, "logit", "log"])
    def test_epsilon_holds_for_all_of_them(self, scale):
        options = {"scale": scale, "level": 0.1, "interactions": 0.1, "spread": 0.2}
        problems = attributed(**options, explained={"region": 0.9})
        assert len({problem.epsilon for problem in problems}) == 1
        assert max(np.ptp(problem.means, axis=0).max() for problem in problems) <= problems[0].epsilon

    @pytest.mark.parametrize("reach", [{}, {"interactions": 0.1}, {"attributes": {"age": [1, 2]}}], ids=str)
    def test_so_it_is_where_a_draw_is_as_far_out_as_can_be(self, reach):
        made = AttributeEffects(
            reach.get("attributes", SIZES), players=60, arms=1, interactions=reach.get("interactions")
        )
        rng = np.random.default_rng(0)
        far = max(abs(made.draw(rng.choice([0.0, 1.0], made.numbers))[0]).max() for _ in range(3000))
        assert 0.6 * made.reach < far <= made.reach

    def test_on_the_logit_scale_effects_are_added_there(self):
        problems = attributed(scale="logit", spread=1.0, low=0.01, high=0.05)
        logits = [np.log(problem.means / (1 - problem.means)) for problem in problems]
        assert np.mean([each.var(axis=0) for each in logits]) == pytest.approx(1 / 12, rel=0.05)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"attributes": {}}, r"^attributes=\{\}, but expected \{name: number of values\}"),
            ({"attributes": 4}, "^attributes=4, but expected"),
            ({"attributes": {"region": 1}}, r"^attributes=\{.*\}: region=1, but expected a whole number of at least 2"),
            ({"attributes": {"region": ["one"]}}, "^attributes=.*at least two values of each"),
            ({"attributes": {"region": 1000, "device": 1000, "age": [3]}}, "make 2,000,000 combinations, but expected"),
            ({"attributes": {"age": [3, 2]}}, r"^attributes=\{.*\}: attribute 'age' is cut at"),
            ({"explained": 1.1}, r"^explained=1\.1.*\[0, 1\]"),
            ({"explained": {"size": 0.5}}, "^explained=.*the attributes are region, device, channel"),
            ({"explained": {"region": -0.5}}, r"^explained=-0\.5"),
            ({"explained": {"region": 0.5, "device": 0.6}}, r"^explained=.*the sum is 1\.1, above 1"),
            ({"interactions": 0.2}, r"^explained=0\.9 with interactions=0\.2, but the sum is 1\.1"),
            (
                {"interactions": 0.2, "explained": 0.5, "attributes": {"region": 2}},
                r"^interactions=0\.2, but one attrib",
            ),
            ({"missing": 1.2}, r"^missing=1\.2"),
            ({"rare": -1}, "^rare=-1"),
            ({"attributes": None, "explained": 0.0}, r"^explained=0\.0, but there are no attributes"),
            ({"attributes": None, "rare": 1.0}, r"^rare=1\.0, but there are no attributes"),
            ({"players": 0}, "^players=0"),
        ],
        ids=str,
    )
    def test_impossible_ones_say_why(self, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            attributed(**options)
