"""What players' attributes do to arms: against the oracle, and against what was planted in the data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_posse
from by_name import summarise
from posse.attributes import Attributes, Coder
from test_likeness import assert_same_as_oracle, logistic

REGION, DEVICE, AGE = {"region": "category"}, {"device": ["phone", "desktop", "tv"]}, {"age": [20, 30, 50]}


def random_values(random, kinds, players, names=4, missing=0.1):
    """Values of these attributes, some of them missing."""

    def value(kind):
        if random.random() < missing:
            return None
        if kind == "category":
            return f"value {random.integers(names)}"
        return kind[random.integers(len(kind))] if isinstance(kind[0], str) else int(random.integers(len(kind) + 1))

    return [tuple(value(kind) for kind in kinds.values()) for _ in range(players)]


def planted_tables(seed, kinds, players, arms, most, size=1.0, **more):
    """Tables in which attributes do something to every arm, and the players' values."""
    random = np.random.default_rng(seed)
    values = random_values(random, kinds, players, **more)
    logits = np.tile(random.uniform(-1.5, 1.5, arms), (players, 1))
    for place in range(len(kinds)):
        effects = {each: size * random.standard_normal(arms) for each in {values[p][place] for p in range(players)}}
        logits += np.array([effects[values[p][place]] for p in range(players)])
    n = random.integers(0, most, (players, arms), endpoint=True) * (random.random((players, arms)) < 0.9)
    s = random.binomial(n, logistic(logits)).astype(float)
    return n, s, values


class TestOracle:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32),
        kinds=st.sampled_from([REGION, AGE, DEVICE, REGION | AGE, AGE | DEVICE, REGION | AGE | DEVICE]),
        players=st.sampled_from([1, 2, 3, 6, 13]),
        arms=st.integers(1, 4),
        most=st.sampled_from([1, 30, 10**4]),
        names=st.sampled_from([1, 3, 9]),
        size=st.sampled_from([0.0, 0.3, 1.5]),
        epsilon=st.sampled_from([math.inf, 0.1]),
    )
    def test_it_says_the_same_twice(self, seed, kinds, players, arms, most, names, size, epsilon):
        """The second time there is more data, and there are more players, so that parts begin or cease to count."""
        n, s, values = planted_tables(seed, kinds, players + 3, arms, most, size, names=names)
        more = {"epsilon": epsilon, "kinds": kinds}
        first = tuple(table[:players] for table in (n, s, s))
        both = assert_same_as_oracle(*first, values=values[:players], **more)
        assert_same_as_oracle(2 * n, 2 * s, 2 * s, values=values, before=both, **more)

    def test_so_it_does_for_forty_players_with_levels_and_groups(self):
        random = np.random.default_rng(5)
        n, s, values = planted_tables(5, REGION | AGE, 40, 4, 200)
        s[::3] = random.binomial(n[::3], 0.9)
        s[1::3] = random.binomial(n[1::3], random.random((13, 4)))
        said, it = assert_same_as_oracle(n, s, s, kinds=REGION | AGE, values=values)
        assert len(it.c) > 1
        assert np.abs(said.of_value[0]).max() > 0.05

    def test_an_oracle_whose_slope_is_another_is_noticed(self):
        """Negative control."""
        n, s, values = planted_tables(5, AGE, 20, 3, 200)
        it = naive_posse.Estimate(
            n.tolist(), s.tolist(), s.tolist(), 1.0, [naive_posse.parts_of({"age": [1, 2, 3, 4]}, v) for v in values]
        )
        said = summarise(n, s, coded=Coder(Attributes(AGE)).coded(values))
        assert said.of_pair[0, 0, 0] != pytest.approx(it.prior(0, 0)[0], rel=1e-6)


def effects_of(said, coder, part):
    """Each value's effect on each arm and its variance, [arm, value], of the part that is called so."""
    place = naive_posse.part_labels(coder).index(part)
    known = [column for column in range(coder.parts, len(coder.part_of)) if coder.part_of[column] == place]
    return said.of_value[:, :, known]


class TestEffects:
    """What they do, planted in the data and found again."""

    def coded(self, kinds, values):
        coder = Coder(Attributes(kinds))
        return coder, coder.coded(values)

    @pytest.mark.parametrize("size", [0.3, 0.8])
    def test_planted_effects_are_recovered_within_their_standard_errors(self, size):
        """Measured: deviations of 0.84 to 1.01 standard errors."""
        z = []
        for seed in range(6):
            random = np.random.default_rng(seed)
            planted = size * random.standard_normal((4, 5))
            planted -= planted.mean(axis=0)
            n = np.full((60, 5), 100)
            s = random.binomial(n, logistic(random.uniform(-1.5, 1.5, 5) + planted[np.arange(60) % 4]))
            coder, coded = self.coded(REGION, [(f"region {p % 4}",) for p in range(60)])
            effect, doubt = effects_of(summarise(n, s, coded=coded), coder, "region")
            z.extend(((effect.T - planted) / np.sqrt(doubt.T)).ravel())
        assert np.std(z) == pytest.approx(0.95, abs=0.25)

    def test_attributes_that_do_nothing_have_no_effects(self):
        """Negative control."""
        for seed in range(6):
            random = np.random.default_rng(seed)
            n = np.full((60, 5), 100)
            coder, coded = self.coded(REGION, [(f"region {p % 4}",) for p in range(60)])
            said = summarise(n, random.binomial(n, np.linspace(0.2, 0.8, 5)), coded=coded)
            assert np.abs(effects_of(said, coder, "region")[0]).max() < 0.02
            assert said.of_value[1, :, 0].max() < 0.005  # nor has a value not seen before

    def test_a_number_has_a_slope_and_bins_that_go_their_own_way(self):
        """A slope of 1 on the first arm, a bin that differs on the second, and nothing on the third."""
        random = np.random.default_rng(3)
        bins = np.arange(80) % 4
        logits = np.zeros((80, 3))
        logits[:, 0], logits[:, 1] = 2 * bins / 3 - 1, 1.5 * (bins == 1)
        n = np.full((80, 3), 200)
        coder, coded = self.coded(AGE, [(int(each),) for each in bins])
        said = summarise(n, random.binomial(n, logistic(logits)), coded=coded)
        slope, extra = effects_of(said, coder, "slope of age")[0][:, 0], effects_of(said, coder, "age")[0]
        assert slope[0] == pytest.approx(1, abs=0.1)
        assert np.abs(slope[2]) < 0.05
        assert np.abs(extra[[0, 2]]).max() < 0.1
        assert extra[1, 1] - np.delete(extra[1], 1).mean() == pytest.approx(1.5, abs=0.3)

    def test_a_pair_explains_what_neither_attribute_does_alone(self):
        random = np.random.default_rng(4)
        region, device = np.arange(80) % 2, np.arange(80) // 2 % 2
        n = np.full((80, 2), 200)
        s = random.binomial(n, logistic(1.5 * (2 * (region == device) - 1))[:, np.newaxis])
        values = [("ab"[one], DEVICE["device"][other]) for one, other in zip(region, device, strict=True)]
        coder, coded = self.coded(REGION | DEVICE, values)
        said = summarise(n, s, coded=coded)
        assert np.abs(effects_of(said, coder, "region")[0]).max() < 0.05
        assert np.abs(effects_of(said, coder, "device")[0]).max() < 0.05
        assert np.abs(effects_of(said, coder, "region × device")[0]).min() > 1

    @pytest.mark.parametrize(("size", "most"), [(0.7, 0.25), (0.0, 1.1)], ids=["they explain much", "nothing"])
    def test_players_without_data_are_judged_by_them(self, size, most):
        """The square error of what is expected of 20 such players: with attributes, relative to without.

        Measured: 0.12 where three attributes explain nearly all, 1.02 where they explain nothing.
        """
        kinds, ratios, errors = REGION | DEVICE | AGE, [], []
        for seed in range(8):
            random = np.random.default_rng(seed)
            values = random_values(random, kinds, 60, missing=0.0)
            logits = random.uniform(-1.5, 1.5, 5) + 0.3 * random.standard_normal((60, 5))
            for place in range(3):
                effects = {each: size * random.standard_normal(5) for each in sorted({row[place] for row in values})}
                logits += [effects[row[place]] for row in values]
            means = logistic(logits)
            n = random.integers(15, 60, (60, 5))
            n[40:] = 0
            s = random.binomial(n, means)
            blind, told = summarise(n, s), summarise(n, s, coded=self.coded(kinds, values)[1])
            square = [(said.of_pair[0].T - means)[40:] ** 2 for said in (blind, told)]
            ratios.append(square[1].mean() / square[0].mean())
            errors.append((square[1] / told.of_pair[1].T[40:]).mean())
        assert np.mean(ratios) < most
        assert 0.5 < np.mean(errors) < 2.5  # so its variance is about right, though on the small side

    def test_attributes_that_lied_fade_out(self):
        """At first the regions seemed to differ; with ten times the data they do not, and nothing is left of it."""
        random = np.random.default_rng(2)
        n = np.full((40, 4), 20)
        first = random.binomial(n, np.where(np.arange(40)[:, np.newaxis] % 2, 0.7, 0.4))
        coder, coded = self.coded(REGION, [("ab"[p % 2],) for p in range(40)])
        before = summarise(n, first, coded=coded)
        assert np.abs(effects_of(before, coder, "region")[0]).min() > 0.4
        after = summarise(10 * n, random.binomial(10 * n, 0.5), before=before, coded=coded)
        assert np.abs(effects_of(after, coder, "region")[0]).max() < 0.05

    def test_steps_go_on_from_the_last_estimate(self):
        """So effects come to stand where they explain the data, and stay there."""
        random = np.random.default_rng(6)
        n = np.full((40, 3), 200)
        s = random.binomial(n, np.where(np.arange(40)[:, np.newaxis] % 2, [0.9, 0.2, 0.5], [0.3, 0.8, 0.5]))
        coder, coded = self.coded(REGION, [("ab"[p % 2],) for p in range(40)])
        said = [summarise(n, s, coded=coded)]
        for _ in range(3):  # forgetting makes the estimate anew
            said.append(summarise(n - len(said), s - s * len(said) / n, before=said[-1], coded=coded))
        found = [effects_of(each, coder, "region")[0] for each in said]
        moves = [np.abs(one - other).max() for one, other in itertools.pairwise(found)]
        assert moves[2] < 0.02
        a, b = found[-1].T
        assert a - b == pytest.approx(naive_logit([0.3, 0.8, 0.5]) - naive_logit([0.9, 0.2, 0.5]), abs=0.25)

    @pytest.mark.parametrize("kinds", [REGION | AGE, REGION | DEVICE | AGE], ids=len)
    def test_the_order_of_players_arms_and_values_does_not_matter(self, kinds):
        n, s, values = planted_tables(8, kinds, 24, 4, 60)
        said = summarise(n, s, coded=self.coded(kinds, values)[1])
        random = np.random.default_rng(2)
        player, arm = random.permutation(24), random.permutation(4)
        renamed = [("zyxw"[int(row[0][-1])] if row[0] else None, *row[1:]) for row in values]
        then = summarise(n[player][:, arm], s[player][:, arm], coded=self.coded(kinds, [renamed[p] for p in player])[1])
        assert then.of_pair == pytest.approx(said.of_pair[:, arm][:, :, player], rel=1e-6, abs=1e-9)
        assert then.newcomer == pytest.approx(said.newcomer, rel=1e-6, abs=1e-9)
        assert not np.allclose(then.of_pair[0], said.of_pair[0])  # negative control

    def test_a_part_counts_where_it_has_two_players_for_each_value(self):
        n = np.full((8, 2), 100)
        for names, counts in ((4, True), (5, False)):
            s = np.array([[90 - 10 * (p % names)] * 2 for p in range(8)])
            _, coded = self.coded(REGION, [(f"region {p % names}",) for p in range(8)])
            found = summarise(n, s, coded=coded).of_value
            assert found.any() == counts
        before = summarise(n[:, :2], np.tile([[90], [10]], (4, 2)), coded=self.coded(REGION, [("a",), ("b",)] * 4)[1])
        assert before.of_value.any()
        more = [("a",), ("b",)] * 4 + [(f"new {p}",) for p in range(8)]  # sixteen players have ten values
        n, s = (np.vstack([table, table]) for table in (n, np.tile([[90], [10]], (4, 2))))
        assert not summarise(n, s, before=before, coded=self.coded(REGION, more)[1]).of_value.any()

    def test_two_players_have_no_effects(self):
        _, coded = self.coded(REGION, [("a",), ("a",)])
        assert not summarise([[9, 9], [9, 9]], [[1, 8], [2, 7]], coded=coded).of_value.any()

    def test_two_arms_share_how_much_an_attribute_does(self):
        """An arm without data expects as much of a value not seen before as arms with data show."""
        random = np.random.default_rng(5)
        n = np.full((40, 9), 200)
        n[:, 8] = 0
        _, coded = self.coded(REGION, [(f"region {p % 5}",) for p in range(40)])
        large = random.standard_normal((5, 9))[np.arange(40) % 5]
        much = summarise(n, random.binomial(n, logistic(large)), coded=coded)
        little = summarise(n, random.binomial(n, 0.5), coded=coded)
        assert much.of_value[1, 8, 0] > 0.6
        assert little.of_value[1, 8, 0] < 0.25
        assert np.all(little.of_value[1, :8, 0] < 0.001)  # negative control: those with data


def naive_logit(means):
    return np.array([naive_posse.logit(mean) for mean in means])
