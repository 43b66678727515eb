"""Normal draws: exact in law and in both tails; and the lazy comparison, which must never change a pick."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from posse import streams
from posse.compile import Walk, bind
from posse.normal import BINS, HIGH, LOW, bin_of, bounds_of, lower_quantile, normal
from posse.simulation import pick as picking
from posse.simulation.pick import WIDTH

ONES = 0xFFFFFFFF


def words_of(bits):
    """64 bits as the three words that `normal` takes; the lower half of the last word must not matter."""
    return bits >> 48, (bits >> 16) & ONES, (bits & 0xFFFF) << 16 | 0xABCD


def some_bits():
    """64-bit numbers: random ones, ones near 0, ½ and 1 at every order of magnitude, and all edges of the bins."""
    rng = np.random.default_rng(1)
    bits = [int(number) for number in rng.integers(0, 2**64, 3000, dtype=np.uint64)]
    bits += [place + sign * (1 << power) for place in (0, 2**63, 2**64) for sign in (1, -1) for power in range(63)]
    bits += [(row << 54) + offset for row in range(BINS + 1) for offset in (-1, 0, 1)]
    return [number for number in bits if 0 <= number < 2**64]


class TestQuantile:
    probabilities = np.concatenate(
        [np.logspace(-300, math.log10(0.5), 3001), 0.5 - np.logspace(-16, -1, 500), np.linspace(1e-3, 0.5, 3001)]
    )

    @pytest.mark.parametrize("mode", ["plain", "compiled"])
    def test_it_is_the_normal_quantile(self, mode):
        quantile = lower_quantile if mode == "plain" else bind(lower_quantile)
        found = np.array([quantile(p) for p in self.probabilities])
        np.testing.assert_allclose(found, special.ndtri(self.probabilities), rtol=2e-15)

    def test_it_is_continuous_where_its_three_formulas_meet(self):
        for p in (0.075, math.exp(-25)):
            below, at, above = (lower_quantile(p * (1 + step)) for step in (-1e-12, 0, 1e-12))
            assert below < at < above
            assert above - below < 1e-11


class TestNormal:
    def test_the_law_is_right_at_every_point(self):
        for bits in some_bits():
            value = normal(*words_of(bits))
            from_below = bits < 2**63
            tail = ((bits if from_below else 2**64 - 1 - bits) + 0.5) / 2**64
            assert special.ndtr(value if from_below else -value) == pytest.approx(tail, rel=1e-12, abs=0)

    def test_it_is_symmetric(self):
        for bits in some_bits():
            assert normal(*words_of(bits)) == -normal(*words_of(2**64 - 1 - bits))

    def test_it_is_monotone(self):
        values = [normal(*words_of(bits)) for bits in sorted(some_bits())]
        assert all(a <= b for a, b in itertools.pairwise(values))

    def test_both_tails_reach_beyond_nine_standard_deviations(self):
        assert normal(0, 0, 0) < -9
        assert normal(0xFFFF, ONES, ONES) > 9
        assert normal(0, 1, 0) == pytest.approx(special.ndtri((2**16 + 0.5) / 2**64))

    def test_compiled_and_plain_agree(self):
        compiled = bind(normal)
        for bits in some_bits()[::7]:
            assert compiled(*words_of(bits)) == pytest.approx(normal(*words_of(bits)), rel=1e-15, abs=0)

    def test_draws_are_normal_and_the_test_notices_when_they_are_not(self):
        block, draw = bind(streams.block), bind(normal)
        key = streams.key(5)
        draws = []
        for t in range(1, 20_001):
            first, middle, last, _ = block(0, 0, t, streams.DRAW, key)
            draws += [draw(first >> 16, middle, last), draw(first & 0xFFFF, last, middle)]
        draws = np.array(draws)
        assert stats.kstest(draws, "norm").pvalue > 0.001
        assert stats.kstest(1.05 * draws, "norm").pvalue < 0.001
        assert stats.kstest(draws + 0.05, "norm").pvalue < 0.001


def bounded(low, high):
    """Whether the tables bound every one of the draws."""
    for bits in some_bits():
        words = words_of(bits)
        row = bin_of(words[0])
        if not low[row] <= normal(*words) <= high[row]:
            return False
    return True


class TestTables:
    def test_they_bound_every_draw(self):
        assert bounded(LOW, HIGH)

    def test_tables_that_are_off_by_little_do_not(self):
        """Negative control: a millionth too narrow, or off by a row, is noticed."""
        assert not bounded(LOW + 1e-6, HIGH)
        assert not bounded(LOW, HIGH - 1e-6)
        assert not bounded(np.roll(LOW, -1), np.roll(HIGH, -1))

    def test_they_bound_with_room_for_the_error_of_the_quantile(self):
        for row in range(BINS):
            lowest, highest = normal(row << 6, 0, 0), normal((row << 6) + 63, ONES, ONES)
            assert LOW[row] < lowest - 1e-13
            assert HIGH[row] > highest + 1e-13

    def test_they_are_tight(self):
        edges = special.ndtri(np.arange(1, BINS) / BINS)
        np.testing.assert_allclose(LOW[1:], edges, atol=1e-11)
        np.testing.assert_allclose(HIGH[:-1], edges, atol=1e-11)

    def test_every_half_word_has_its_row(self):
        rows = np.array([bin_of(half) for half in range(2**16)])
        assert np.array_equal(rows, np.repeat(np.arange(BINS), 64))

    def test_they_cannot_be_written_to(self):
        for table in (LOW, HIGH):
            with pytest.raises(ValueError, match="read-only"):
                table[0] = 0


class TestBounds:
    """`bounds_of`, for each of the 65,536 first halves of a draw."""

    edges = np.array([normal(0, 0, 0), *special.ndtri(np.arange(1, 2**16) / 2**16), normal(0xFFFF, ONES, ONES)])
    ROOM = 1e-5  # for what is computed with them in single precision

    @pytest.fixture(scope="class", params=["plain", "compiled"])
    @classmethod
    def bounds(cls, request):
        function = bounds_of if request.param == "plain" else bind(bounds_of)
        return np.array([function(np.uint32(half)) for half in range(2**16)]).T

    def test_they_bound_every_draw(self, bounds):
        assert (bounds[0] < self.edges[:-1] - self.ROOM).all()
        assert (bounds[1] > self.edges[1:] + self.ROOM).all()

    def test_they_are_as_narrow_as_the_margins_say(self, bounds):
        """Half a thousandth where most draws are, so that few decisions stay open; never beyond 10."""
        widths = (bounds[1] - bounds[0]) / 2
        middle = abs(self.edges[:-1]) < 1.9
        assert widths[middle].max() < 5e-4
        assert widths.mean() < 7e-4
        assert abs(bounds).max() < 10

    def test_bounds_that_are_a_little_narrower_do_not(self, bounds):
        """Negative control."""
        assert not (bounds[0] + 2e-4 < self.edges[:-1]).all()
        assert not (bounds[1] - 2e-4 > self.edges[1:]).all()


def given_words(number, player, round_, purpose, key):
    """Stands in for `streams.block`: the words of arm `number` are a column of `key`."""
    return key[0, number], key[1, number], 0, 0


def plain(function, **names):
    """What `bind` gives without compilation."""
    return Walk([function], names).entries[0]


@pytest.fixture(scope="module", params=["plain", "compiled"])
def pick(request):
    return (plain if request.param == "plain" else bind)(picking.pick, block=given_words)


COMPILED_NORMAL = bind(normal)


BOUND_DRAWS = bind(picking.bound_draws)


def arrays(table):
    """One player's table [arm] of (center, scale, half, middle, last), as the arguments of `pick`."""
    center, scale, half, middle, last = zip(*table, strict=True)
    arms = len(table)
    rows = 2 * WIDTH * picking.even_arms(arms)
    rough, bounds = np.zeros(rows, np.float32), np.zeros(rows + picking.DRAW_LANES, np.float32)
    rough[:: 2 * WIDTH] = picking.LOWEST
    words = np.zeros(WIDTH * (2 + arms // 2), np.uint32)
    for arm in range(arms):
        near = max(abs(center[arm]), scale[arm]) <= float(picking.NEAR)
        given = (center[arm], scale[arm]) if near else (picking.FAR, 0.0)  # as the kernel does
        picking.put_rough(rough, picking.rough_at(arm, 0, arms), *given)
        words[WIDTH * (1 + arm // 2)] |= half[arm] << 16 * (arm % 2)
    BOUND_DRAWS(words, bounds, 1, arms)
    columns = np.array(center, float)[:, None], np.array(scale, float)[:, None]
    top, players = np.zeros(4 * WIDTH, np.float32), np.zeros(1, np.uint64)
    zero = np.uint64(0)
    return rough, zero, words, bounds, zero, top, *columns, players, np.array([middle, last], np.int64)


def picked(pick, table, wrong=0.0):
    """The arm that is picked; with upper bounds of draws that are so much too low."""
    *tables, players, words = arrays(table)
    upper = tables[3][: len(tables[0])].reshape(-1, 2, WIDTH)[:, 1]
    upper -= wrong
    found = np.full(1, 99, np.uint64)
    pick(*tables, players, found, 1, words)
    return int(found[0])


def first_largest(table):
    """Every index in full, and the first of the largest."""
    indices = [center + scale * COMPILED_NORMAL(*words) for center, scale, *words in table]
    return indices.index(max(indices))


few_words = st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, ONES - 1, ONES])
few_halves = st.sampled_from([0, 63, 64, 0x7FFF, 0x8000, 0x803F, 0x8040, 0xFFFF])
centers = st.one_of(
    st.sampled_from([0.0, 0.5, 0.5 + 1e-16, 0.5 + 1e-12, 1.0, math.inf, -math.inf]), st.floats(-1e3, 1e3)
)
scales = st.one_of(st.sampled_from([0.0, 1e-300, 1e-17, 1e-12, 0.5, 1.0, 1e100, 1e300]), st.floats(0, 10))
arm = st.tuples(
    centers,
    scales,
    few_halves | st.integers(0, 0xFFFF),
    few_words | st.integers(0, ONES),
    few_words | st.integers(0, ONES),
)
tables = st.lists(arm, min_size=1, max_size=12)
tables_with_ties = tables.flatmap(lambda table: st.lists(st.sampled_from(table), min_size=1, max_size=12))

SAME = (0.5, 1.0, 0x8000, 7, 7)


class TestLazyComparison:
    @settings(max_examples=700, deadline=None, derandomize=True)
    @given(table=tables | tables_with_ties)
    @example(table=[(-math.inf, 0.0, 0, 0, 0)])
    @example(table=[(-math.inf, 0.0, 0, 0, 0), (0.0, 0.0, 0, 0, 0)])
    @example(table=[(0.0, 1.0, 0xFFFF, ONES, ONES), (math.inf, 0.0, 0, 0, 0), (math.inf, 0.0, 5, 5, 5)])
    def test_it_picks_what_computing_every_index_picks(self, pick, table):
        assert picked(pick, table) == first_largest(table)

    @pytest.mark.parametrize("arms", [1, 3])
    def test_where_no_index_is_a_number_it_is_still_an_arm(self, pick, arms):
        """A policy may be wrong, but nothing may be written beside the tables."""
        assert picked(pick, [(math.nan, 1.0, 5, 5, 5)] * arms) in range(arms)

    def test_arms_that_differ_in_the_last_bits_only(self, pick):
        """The bounds cannot tell these apart; the 64-bit draws can."""
        rng = np.random.default_rng(2)
        for _ in range(300):
            words = rng.integers(0, 2**32, (8, 2)).tolist()
            table = [(0.5, 1.0, 0x9000, middle, last) for middle, last in words]
            assert picked(pick, table) == int(np.argmax([(middle << 32) + last for middle, last in words]))

    @pytest.mark.parametrize("arms", [2, 3, 9])
    def test_equal_arms_go_to_the_lowest(self, pick, arms):
        worse = (0.0, 0.1, 0x8000, 0, 0)
        assert picked(pick, [SAME] * arms) == 0
        assert picked(pick, [worse] + [SAME] * arms) == 1
        assert picked(pick, [SAME] + [worse] * arms + [SAME]) == 0

    def test_an_index_whose_bounds_round_to_either_side_is_computed(self, pick):
        """Half an ulp above 1 lies inside the second arm's bounds: its draw decides between a tie and a win."""
        row = 900
        lowest, highest = (row << 6, 0, 0), ((row << 6) + 63, ONES, ONES)
        scale = 2.0**-53 / ((normal(*lowest) + normal(*highest)) / 2)
        certain = (1.0, 0.0, 0, 0, 0)
        assert picked(pick, [certain, (1.0, scale, *lowest)]) == 0
        assert picked(pick, [certain, (1.0, scale, *highest)]) == 1

    def test_without_draws_the_first_of_the_largest_centers_wins(self):
        near = [1.0, 1.0 + 1e-12, 1.0 + 1e-12, 0.0]
        certain = bind(picking.pick, RANDOMISED=False)
        for centers in ([1.0, 3.0, 3.0], [3.0, 1.0, 3.0], near, [-math.inf] * 2, [0.0, math.inf, math.inf]):
            assert picked(certain, [(center, 0.0, 0, 0, 0) for center in centers]) == int(np.argmax(centers))

    def test_bounds_that_are_a_little_wrong_are_noticed(self):
        """Negative control: with an upper bound a thousandth too low, some pick of many is wrong."""
        rng = np.random.default_rng(3)
        right = plain(picking.pick, block=given_words)
        tables = []
        for _ in range(2000):
            halves, words = rng.integers(0x8000, 0x8100, 3).tolist(), rng.integers(0, 2**32, (3, 2)).tolist()
            center, scale = rng.uniform(0.498, 0.502, 3).tolist(), rng.uniform(0.5, 1.5, 3).tolist()
            tables.append([(center[i], scale[i], halves[i], *words[i]) for i in range(3)])
        expected = [first_largest(table) for table in tables]
        assert [picked(right, table) for table in tables] == expected
        assert [picked(right, table, wrong=1e-3) for table in tables] != expected
