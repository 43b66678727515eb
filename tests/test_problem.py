"""Problem: an immutable record of means, whose gaps and kinds of arms are those of the paper."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import posse
from posse import Attributes, Problem
from posse.attributes import Coder
from posse.rewards import Bernoulli, Beta, OneNoisy, Uniform

# Worked by hand in sixteenths, which floats hold exactly: ε = 1/16, so 5ε = 5/16 and 10ε = 10/16.
MEANS = np.array([[14, 13, 9, 8, 2], [13, 14, 10, 9, 3]]) / 16
GAPS = np.array([[0, 1, 5, 6, 12], [1, 0, 4, 5, 11]]) / 16
EPSILON = 1 / 16


@pytest.fixture
def problem():
    return Problem(MEANS, EPSILON)


class TestByHand:
    def test_gaps_are_to_the_players_own_best_arm(self, problem):
        assert np.array_equal(problem.gaps, GAPS)

    def test_sizes(self, problem):
        assert (problem.players, problem.arms) == (2, 5)

    def test_subpar_arms_have_a_gap_above_alpha_for_some_player(self, problem):
        assert problem.subpar_5.tolist() == [3, 4], "arm 2 has gap 5ε exactly, which does not exceed 5ε"
        assert problem.subpar_10.tolist() == [4]
        assert problem.subpar(0).tolist() == [0, 1, 2, 3, 4]
        assert problem.subpar(12 / 16).tolist() == []

    def test_optimal_arms_have_gap_0(self, problem):
        assert problem.optimal.tolist() == [[True] + [False] * 4, [False, True] + [False] * 3]

    def test_near_optimal_arms_are_the_rest(self, problem):
        assert problem.near_optimal.tolist() == [
            [False, True, True, False, False],
            [True, False, True, False, False],
        ]

    def test_kinds_number_the_three(self, problem):
        """Arm 3 has gap 5ε for player 1, but is subpar for both, as it is for player 0."""
        assert problem.kinds().tolist() == [[0, 1, 1, 2, 2], [1, 0, 1, 2, 2]]

    def test_every_pair_is_of_one_kind(self, problem):
        kinds = problem.kinds()
        assert np.array_equal(kinds == 0, problem.optimal)
        assert np.array_equal(kinds == 1, problem.near_optimal)

    def test_smallest_gaps_are_over_players(self, problem):
        assert (problem.smallest_gaps * 16).tolist() == [0, 0, 4, 5, 11]

    def test_several_arms_can_be_optimal(self):
        assert Problem([[0.5, 0.5, 0.1]]).optimal.tolist() == [[True, True, False]]

    def test_with_epsilon_0_an_optimal_arm_is_never_subpar_and_every_other_arm_is(self):
        assert Problem([[0.5, 0.4, 0.5]]).kinds().tolist() == [[0, 2, 0]]

    @pytest.mark.parametrize("alpha", [-0.1, math.nan, math.inf])
    def test_alpha_is_a_number_of_at_least_0(self, problem, alpha):
        with pytest.raises(ValueError, match=r"^alpha="):
            problem.subpar(alpha)


class TestEpsilon:
    def test_the_error_names_arm_players_and_difference(self):
        means = [[0.5, 0.30, 0.1], [0.5, 0.35, 0.1], [0.5, 0.44, 0.1]]
        with pytest.raises(ValueError, match=r"^epsilon=0\.1, but arm 1 differs by 0\.14 between players 0 and 2$"):
            Problem(means, epsilon=0.1)

    def test_omitted_it_is_the_smallest_that_holds(self):
        assert Problem(MEANS).epsilon == 1 / 16
        assert Problem([[0.25, 0.5]]).epsilon == 0
        assert Problem([[0.25, 0.5], [0.0, 0.5], [0.75, 0.5]]).epsilon == 0.75

    def test_it_may_be_larger_than_the_spread(self):
        assert Problem(MEANS, 0.5).epsilon == 0.5

    def test_decimal_rounding_is_forgiven(self):
        assert 0.8 - 0.7 > 0.1
        assert Problem([[0.8], [0.7]], 0.1).epsilon == 0.1

    def test_more_than_rounding_is_not(self):
        with pytest.raises(ValueError, match="differs by"):
            Problem([[0.8], [0.7 - 1e-8]], 0.1)


class TestImmutability:
    @pytest.mark.parametrize("name", ["means", "gaps", "epsilon", "rewards", "stream", "something_new"])
    def test_attributes_cannot_be_set_or_deleted(self, problem, name):
        with pytest.raises(AttributeError, match="cannot assign to field"):
            setattr(problem, name, 1)
        with pytest.raises(AttributeError, match="cannot delete field"):
            delattr(problem, name)

    @pytest.mark.parametrize("name", ["means", "gaps"])
    def test_arrays_cannot_be_written_to(self, problem, name):
        with pytest.raises(ValueError, match="read-only"):
            getattr(problem, name)[0, 0] = 0.5

    def test_what_it_was_made_from_may_change(self):
        means = MEANS.copy()
        problem = Problem(means)
        means[:] = 0
        assert np.array_equal(problem.means, MEANS)


class TestIdentity:
    def test_problems_with_the_same_contents_are_equal(self, problem):
        same = Problem(MEANS.tolist(), EPSILON, "bernoulli")
        assert same == problem
        assert hash(same) == hash(problem)

    @pytest.mark.parametrize(
        "other",
        [
            Problem(MEANS, 2 * EPSILON),
            Problem(MEANS, EPSILON, Uniform()),
            Problem(MEANS, EPSILON, stream=7),
            Problem(MEANS, EPSILON, groups=[0, 1]),
            Problem(MEANS, EPSILON, attributes={"region": "category"}, values=[{}, {}]),
            Problem(MEANS[:, ::-1], EPSILON),
            Problem(MEANS[:1], EPSILON),
            "a problem",
        ],
        ids=["epsilon", "rewards", "stream", "groups", "attributes", "order of arms", "players", "another type"],
    )
    def test_problems_that_differ_are_not(self, problem, other):
        assert problem != other

    def test_the_shape_matters(self):
        assert Problem(np.full((2, 3), 0.5)) != Problem(np.full((3, 2), 0.5))
        assert Problem(np.full((2, 3), 0.5)).stream != Problem(np.full((3, 2), 0.5)).stream

    def test_negative_zero_is_zero(self):
        assert Problem([[-0.0, 0.5]]) == Problem([[0.0, 0.5]])
        assert Problem([[-0.0, 0.5]]).stream == Problem([[0.0, 0.5]]).stream

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
    def test_copies_are_equal_and_immutable(self, copied):
        known = {"attributes": {"age": [20, 30]}, "values": [{"age": 25}, {}]}
        problem = Problem(MEANS, 0.2, Beta(3.0), stream=12, groups=[1, 0], **known)
        again = copied(problem)
        assert again == problem
        assert again.stream == 12
        with pytest.raises(ValueError, match="read-only"):
            again.means[0, 0] = 0

    def test_the_stream_comes_from_the_means_alone(self, problem):
        assert problem.stream == Problem(MEANS, 0.5, Uniform()).stream
        assert problem.stream != Problem(MEANS + 1e-16).stream
        assert 0 <= problem.stream < 2**64

    def test_the_stream_never_changes_between_versions(self, problem):
        """A stored result can be repeated only as long as this holds."""
        assert problem.stream == 5856186436436749632

    def test_the_stream_can_be_given(self):
        assert Problem(MEANS, stream=np.int64(3)).stream == 3


def test_repr_says_what_matters(problem):
    assert repr(problem) == (
        "Problem(2 players × 5 arms, epsilon=0.0625, Bernoulli rewards, subpar arms: 2 of 5 at 5ε, 1 of 5 at 10ε)"
    )
    assert "Beta(concentration=3.0) rewards" in repr(Problem(MEANS, rewards=Beta(3.0)))


def test_rewards_are_a_family_or_its_name():
    assert Problem(MEANS).rewards == Problem(MEANS, rewards="bernoulli").rewards == Bernoulli()
    with pytest.raises(ValueError, match=r"^rewards='normal'"):
        Problem(MEANS, rewards="normal")


def test_whole_numbers_are_fine_means():
    assert Problem([[0, 1]]).means.dtype == np.float64


BAD_MEANS = {
    "a number": (0.5, r"shape \(\)"),
    "a row": ([0.5, 0.2], r"shape \(2,\)"),
    "three dimensions": ([[[0.5]]], r"shape \(1, 1, 1\)"),
    "no players": ([], r"shape \(0,\)"),
    "no arms": ([[]], r"shape \(1, 0\)"),
    "ragged": ([[0.5, 0.2], [0.5]], "rows of different lengths"),
    "words": ([["high", "low"]], "of type <U4, but expected numbers"),
    "numbers in strings": ([["0.5", "0.2"]], "of type <U3, but expected numbers"),
    "true and false": ([[True, False]], "of type bool, but expected numbers"),
    "complex": ([[1j]], "of type complex128, but expected numbers"),
    "a dictionary": ({"a": 1}, "of type object, but expected numbers"),
    "NaN": ([[0.5, 0.2], [0.5, math.nan]], r"means\[1, 1\]=nan.*\[0, 1\]"),
    "None": ([[None, 0.5]], "of type object, but expected numbers"),
    "infinity": ([[math.inf, 0.2]], r"means\[0, 0\]=inf.*\[0, 1\]"),
    "above 1": ([[0.5, 1.2]], r"means\[0, 1\]=1\.2.*\[0, 1\]"),
    "below 0": ([[0.5, 0.2], [-0.1, 0.2]], r"means\[1, 0\]=-0\.1.*\[0, 1\]"),
}


@pytest.mark.parametrize("name", BAD_MEANS)
def test_bad_means_are_refused(name):
    means, message = BAD_MEANS[name]
    with pytest.raises(ValueError, match=message):
        Problem(means)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, math.nan, math.inf])
def test_an_epsilon_outside_the_unit_interval_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon=.*a number in \[0, 1\]"):
        Problem(MEANS, epsilon)


@pytest.mark.parametrize("epsilon", ["0.1", True, [0.1], 1j])
def test_an_epsilon_that_is_no_number_is_refused(epsilon):
    with pytest.raises(TypeError, match=r"^epsilon=.*a number in \[0, 1\]"):
        Problem(MEANS, epsilon)


@pytest.mark.parametrize(("stream", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (True, TypeError)])
def test_a_stream_is_a_whole_number(stream, error):
    with pytest.raises(error, match=r"^stream=.*whole number"):
        Problem(MEANS, stream=stream)


def test_problems_on_one_stream_meet_the_same_noise():
    """One word decides for both, so the lower mean never wins where the higher loses."""
    low, high = Problem([[0.3, 0.3]], stream=5), Problem([[0.6, 0.6]], stream=5)
    a = posse.simulation.trace(low, posse.IndUCB(), 200).rewards
    b = posse.simulation.trace(high, posse.IndUCB(), 200).rewards
    assert (a <= b).all()
    other = posse.simulation.trace(Problem([[0.6, 0.6]]), posse.IndUCB(), 200).rewards
    assert not (a <= other).all()


class TestGroups:
    table = np.array([[0.1, 0.9], [0.8, 0.2], [0.2, 0.9], [0.7, 0.2]])

    def test_each_is_a_problem_of_its_own(self):
        problem = Problem(self.table, rewards=Beta(3.0), groups=[4, 0, 4, 0])
        first, second = problem.by_group()
        assert (first.means.tolist(), second.means.tolist()) == (self.table[1::2].tolist(), self.table[::2].tolist())
        assert (first.rewards, first.epsilon) == (Beta(3.0), pytest.approx(0.1))

    def test_there_is_one_if_nothing_is_said(self):
        problem = Problem(self.table)
        assert problem.groups == (0, 0, 0, 0)
        assert problem.by_group() == [problem]

    def test_they_stay_what_they_are_where_means_change(self):
        later = self.table[::-1].copy()
        problem = Problem(self.table, changes={9: later}, groups=[4, 0, 4, 0])
        assert problem.at(9).groups == problem.groups
        first, second = problem.by_group()
        assert first.at(9).means.tolist() == later[1::2].tolist()
        assert second.at(9).means.tolist() == later[::2].tolist()

    def test_wrong_ones_are_refused(self):
        with pytest.raises(TypeError, match=r"^groups=3, but expected the number of each player's group"):
            Problem(self.table, groups=3)
        with pytest.raises(ValueError, match=r"^groups has 2 numbers, but expected one for each of 4 players"):
            Problem(self.table, groups=[0, 1])
        with pytest.raises(ValueError, match=r"^groups=-1"):
            Problem(self.table, groups=[0, 1, -1, 0])
        with pytest.raises(ValueError, match=r"^rewards=OneNoisy.*groups cannot be split"):
            Problem(self.table, rewards=OneNoisy(3.0), groups=[0, 1, 1, 0]).by_group()


KINDS = {"region": "category", "age": [20, 30, 40]}
KNOWN = [{"region": "north", "age": 35}, {"region": "south"}, {"age": 3, "region": None}, {}]


class TestAttributes:
    """Bins of numbers are not binned again wherever a problem is made from another."""

    values = (("north", 2), ("south", None), (None, 0), (None, None))
    means = np.array([[0.1, 0.9], [0.8, 0.2], [0.2, 0.9], [0.7, 0.2]])
    problem = Problem(means, attributes=KINDS, values=KNOWN, groups=[1, 0, 1, 0], changes={5: means[::-1].copy()})

    def test_each_player_has_its_values(self):
        assert (self.problem.attributes, self.problem.values) == (Attributes(KINDS), self.values)
        assert Problem(self.means, attributes=Attributes(KINDS), values=iter(KNOWN)).values == self.values
        assert "attributes region, age; subpar" in repr(self.problem)

    def test_without_any_nothing_is_known(self):
        problem = Problem(self.means)
        assert (problem.attributes, problem.values) == (Attributes(), ((), (), (), ()))
        assert not problem.attributes
        assert (problem.coded().columns.shape, problem.coded().part_of.shape) == ((4, 0), (0,))

    def test_they_are_coded_once(self):
        coded, expected = self.problem.coded(), Coder(Attributes(KINDS)).coded(self.values)
        assert all(np.array_equal(*each) for each in zip(coded, expected, strict=True))
        assert self.problem.coded() is coded
        assert self.problem.without_attributes().coded().columns.shape == (4, 0)

    def test_groups_and_segments_keep_them(self):
        assert [part.values for part in self.problem.by_group()] == [self.values[1::2], self.values[::2]]
        assert all(part.attributes == Attributes(KINDS) for part in self.problem.by_group())
        for _, segment in self.problem.segments:
            assert (segment.attributes, segment.values) == (self.problem.attributes, self.values)
        assert self.problem.at(7).coded().columns.tolist() == self.problem.coded().columns.tolist()

    def test_they_are_part_of_what_a_problem_is_but_not_of_its_random_numbers(self):
        blind = self.problem.without_attributes()
        bare = Problem(self.means, groups=[1, 0, 1, 0], changes={5: self.means[::-1].copy()})
        assert blind == bare != self.problem
        assert hash(blind) == hash(bare)
        assert blind.stream == self.problem.stream == bare.stream
        other = Problem(self.means, attributes=KINDS, values=[{}] * 4)
        assert other != Problem(self.means, attributes={**KINDS, "age": [1]}, values=[{}] * 4)
        assert other != Problem(self.means, attributes=KINDS, values=[{}, {}, {}, {"age": 3}])

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"attributes": KINDS}, TypeError, r"^values=None, but expected \{attribute: value\} for each of 4"),
            ({"attributes": KINDS, "values": 3}, TypeError, r"^values=3, but expected"),
            ({"attributes": KINDS, "values": {"age": 3}}, TypeError, r"^values=\{'age': 3\}, but expected"),
            (
                {"attributes": KINDS, "values": [{}]},
                ValueError,
                r"^values has 1 entries, but expected one for each of 4",
            ),
            ({"attributes": 3, "values": KNOWN}, TypeError, r"^attributes=3, but expected \{name: kind\}"),
            ({"values": KNOWN}, ValueError, r"^values of player 0: attribute 'region' was not declared"),
            (
                {"attributes": KINDS, "values": [{}, {}, {"age": "x"}, {}]},
                TypeError,
                r"^values of player 2: attribute age='x', but expected a finite number",
            ),
            ({"attributes": KINDS, "values": [{}, 7, {}, {}]}, TypeError, r"^values of player 1: attributes=7, but"),
        ],
    )
    def test_wrong_ones_are_refused(self, options, error, message):
        with pytest.raises(error, match=message):
            Problem(self.means, **options)
