"""Exact propensities: against quadrature in high precision, closed forms, symmetries and frequencies of draws."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from posse.compile import bind
from posse.policies.propensity import BACK, SCRATCH, WEIGHT, draw, fill_propensities, normal_law, propensities

FEW = settings(max_examples=100, deadline=None, derandomize=True)
# The module promises 1e-10; it is better than that, and the tests ask for 1e-12.
EXACT = 1e-12
GAUSS = list(zip(*np.polynomial.legendre.leggauss(20), strict=True))


def oracle(center, scale, digits=40, reach=9):
    """∫ f_k Π_{j≠k} F_j for every arm, in panels cut at c_k, c_k ± 3 s_k, c_k ± 6 s_k and so on, of every arm.

    Places are computed to `digits` digits: enough for the largest and the smallest number side by side.
    """
    with mpmath.workdps(digits):
        pairs = zip(center, scale, strict=True)
        arms = [(arm, mpmath.mpf(float(c)), mpmath.mpf(float(s))) for arm, (c, s) in enumerate(pairs)]
        start = max(c - reach * s for _, c, s in arms)
        certain = [arm for arm, c, s in arms if s == 0 and c == start]
        arms = [(arm, c, s) for arm, c, s in arms if s > 0 and c + reach * s > start]
        result = [mpmath.mpf(0)] * len(center)
        if certain:
            result[certain[0]] = mpmath.fprod(mpmath.ncdf((start - c) / s) for _, c, s in arms)
        cuts = {c + m * s for _, c, s in arms for m in range(-reach, reach + 1, 3)}
        for low, high in itertools.pairwise([start, *sorted(cut for cut in cuts if cut > start)]):
            for node, weight in GAUSS:
                x = ((low + high) + (high - low) * node) / 2
                places = [(x - c) / s for _, c, s in arms]
                with mpmath.workdps(25):
                    below = [mpmath.ncdf(+z) for z in places]
                    product = mpmath.fprod(below) * weight / 2
                    for (arm, _, s), z, F in zip(arms, places, below, strict=True):
                        result[arm] += (high - low) / s * product / F * mpmath.npdf(+z)
        return np.array([float(p) for p in result])


def hard_cases(rng):
    """Arms whose scales and gaps differ in every way that could matter."""
    for spread, gap in itertools.product([0.3, 2, 6, 12], [0.01, 3]):
        scale = 10 ** rng.uniform(-spread, 0, 3)
        yield rng.normal(size=3) * scale * gap, scale
        yield rng.normal(size=3) * gap, scale
    for scale in ([1, 1e-6, 1e-6, 0], [1, 1e-3, 0, 0], [1e6, 1, 1e-6], [1e-6, 1e-6, 1e6]):
        yield rng.normal(size=len(scale)) * np.maximum(scale, 1e-7), scale
    for offset in (-7.9, -7, -4, 4, 7, 7.9):  # a narrow arm anywhere in a wide one
        yield [0, offset, offset + 1e-5], [1, 1e-5, 1e-4]
    yield 1e6 + np.arange(3) * 2.0**-33, [1e-10, 1e-10, 2e-10]  # x itself would have no digits left
    yield [1, 1 + 1e-12, 1 - 1e-12], [1, 1, 1]
    yield [0, 1e12, -1e12], [1e12, 1, 1e-12]
    yield rng.choice([0, 1, 3], 8), rng.choice([0.1, 1, 1e-3], 8)  # clusters


class TestAgainstQuadrature:
    @pytest.mark.parametrize(("center", "scale"), list(hard_cases(np.random.default_rng(1))))
    def test_hard_cases(self, center, scale):
        np.testing.assert_allclose(propensities(center, scale), oracle(center, scale), rtol=0, atol=EXACT)

    @pytest.mark.parametrize(
        ("center", "scale"),
        [
            ([0, 1e290, -1e300], [1e300, 1e-300, 1e300]),
            ([1e300, 1e300], [1e-300, 1e300]),
            ([0, 5e-324, 0], [5e-324, 5e-324, 1e-323]),  # the smallest denormals
            ([0, 1e-310, 1e-309], [1e-309, 1e-310, 0]),
        ],
    )
    def test_the_largest_and_the_smallest_numbers(self, center, scale):
        np.testing.assert_allclose(propensities(center, scale), oracle(center, scale, 700), rtol=0, atol=EXACT)

    @pytest.mark.parametrize("arms", [5, 20, 100, 500])
    @pytest.mark.parametrize("spread", [0, 0.1, 1])
    @pytest.mark.parametrize("gap", [0.1, 1, 3])
    def test_many_arms(self, arms, spread, gap):
        """Scales within a factor of ten, where the trapezoidal rule on a fine grid converges to all digits."""
        rng = np.random.default_rng(arms)
        scale = 10 ** rng.uniform(-spread, 0, arms)
        center = rng.normal(size=arms) * scale * gap
        x = np.arange((center - 9 * scale).max(), (center + 9 * scale).max(), step := scale.min() / 16)
        places = (x[:, None] - center) / scale
        below = special.ndtr(places)
        expected = step * (stats.norm.pdf(places) / scale / below * below.prod(1, keepdims=True)).sum(0)
        np.testing.assert_allclose(propensities(center, scale), expected, rtol=0, atol=EXACT)

    def test_a_rule_that_is_a_little_off_is_noticed(self):
        """Negative control: a scale that is wrong by 1e-9 of itself."""
        center, scale = [0.5, 0.3, 0.0], np.array([0.2, 0.3, 0.4])
        assert np.abs(propensities(center, scale * [1, 1, 1 + 1e-9]) - oracle(center, scale)).max() > 1e-11

    def test_the_tables(self):
        nodes, weights = np.polynomial.legendre.leggauss(BACK.size)
        np.testing.assert_allclose(np.sort(BACK), (1 + nodes) / 2, rtol=0, atol=1e-15)
        np.testing.assert_allclose(WEIGHT[np.argsort(BACK)], weights / 2, rtol=0, atol=1e-15)
        places = np.linspace(-12, 12, 5003)
        below, density = np.array([normal_law(z) for z in places]).T
        np.testing.assert_allclose(below, special.ndtr(places), rtol=1e-6, atol=3e-14)
        np.testing.assert_allclose(density, stats.norm.pdf(places), rtol=1e-6, atol=2e-12)


exponents = st.floats(-300, 299)
places = st.floats(-8, 8)


class TestClosedForms:
    @settings(FEW, max_examples=500)
    @given(exponents=st.tuples(exponents, exponents), gap=places, close=st.booleans())
    def test_two_arms(self, exponents, gap, close):
        """P(X_0 > X_1) = Φ((c_0 − c_1) / √(s_0² + s_1²))."""
        scale = [10 ** exponents[0], 10 ** (exponents[0] + exponents[1] / 100 if close else exponents[1])]
        scale[1] = min(scale[1], 1e300)
        center = [gap * math.hypot(*scale) / 10, -0.3 * scale[0]]
        expected = special.ndtr((center[0] - center[1]) / math.hypot(*scale))
        np.testing.assert_allclose(propensities(center, scale), [expected, 1 - expected], rtol=0, atol=EXACT)

    @pytest.mark.parametrize("arms", [1, 2, 3, 10, 77, 200, 1000])
    @pytest.mark.parametrize("scale", [1e-300, 1, 1e300])
    def test_like_arms_are_equally_likely(self, arms, scale):
        found = propensities(np.full(arms, 0.3 * scale), np.full(arms, scale))
        np.testing.assert_allclose(found, 1 / arms, rtol=0, atol=EXACT)

    @pytest.mark.parametrize("arms", [1, 2, 10, 200, 1000])
    @pytest.mark.parametrize("depth", [0, 1, 3, 5, 6, 7, 7.5, 7.99, 8.01, 9])
    def test_a_certain_arm_above_like_arms(self, arms, depth):
        """The certain arm wins with Φ(depth)^arms; where arms are pruned, what is lost must not add up."""
        found = propensities([0, *[-depth] * arms], [0, *[1] * arms])
        certain = special.ndtr(depth) ** arms
        np.testing.assert_allclose(found, [certain, *[(1 - certain) / arms] * arms], rtol=0, atol=3e-12)

    @pytest.mark.parametrize("ratio", [1e2, 1e6, 1e12, 1e250])
    @pytest.mark.parametrize("arms", [1, 5, 200])
    def test_one_wide_arm_among_narrow_ones(self, arms, ratio):
        """At most one narrow scale away from its center, the wide arm is above all narrow ones or below all."""
        found = propensities(np.zeros(arms + 1), [ratio, *[1] * arms])
        loss = 4 / ratio  # the maximum of the narrow arms is below 4 on average
        np.testing.assert_allclose(found, [0.5, *[0.5 / arms] * arms], rtol=0, atol=max(loss, EXACT))

    def test_an_arm_far_below_has_none(self):
        found = propensities([0, 0, -100, -1e12], [1, 1, 1, 1e9])
        assert found.tolist() == [0.5, 0.5, 0, 0]


grid_centers = st.integers(-(2**20), 2**20).map(lambda n: n / 2**18)
grid_scales = st.floats(-6, 1).map(lambda exponent: 10**exponent) | st.just(0)
arms = st.lists(st.tuples(grid_centers, grid_scales), min_size=1, max_size=12)


class TestInvariance:
    @FEW
    @given(arms=arms, power=st.integers(-900, 900))
    def test_of_units(self, arms, power):
        """Multiplied by a power of two, every number in the computation is, and every bit of the result stays."""
        center, scale = np.array(arms).T
        assert np.array_equal(propensities(center, scale), propensities(center * 2.0**power, scale * 2.0**power))

    @FEW
    @given(arms=arms, shift=st.integers(-(2**30), 2**30))
    def test_of_the_origin(self, arms, shift):
        """Centers have 20 bits here, so that the shift is exact; then no bit of the result changes."""
        center, scale = np.array(arms).T
        assert np.array_equal(propensities(center, scale), propensities(center + shift, scale))

    @FEW
    @given(arms=arms, seed=st.integers(0, 2**32))
    def test_of_the_order(self, arms, seed):
        certain = {center for center, scale in arms if scale == 0}
        arms = [(c, s) for c, s in arms if s > 0] + [(c, 0) for c in certain]  # no ties, where the order decides
        center, scale = np.array(arms).T
        order = np.random.default_rng(seed).permutation(len(arms))
        shuffled = propensities(center[order], scale[order])
        np.testing.assert_allclose(shuffled, propensities(center, scale)[order], rtol=0, atol=EXACT)

    @FEW
    @given(arms=arms)
    def test_arms_that_cannot_win_change_nothing(self, arms):
        center, scale = np.array(arms).T
        more = propensities([*center, -200, -100, -1000], [*scale, 0, 1, 10])
        assert np.array_equal(more[:-3], propensities(center, scale))
        assert not more[-3:].any()


class TestDistribution:
    @settings(FEW, max_examples=300)
    @given(arms=st.lists(st.tuples(places, exponents), min_size=1, max_size=30), certain=st.integers(0, 2))
    def test_it_is_one(self, arms, certain):
        scale = np.array([10**exponent for _, exponent in arms])
        center = np.array([place for place, _ in arms]) * scale / 10
        scale[:certain] = 0
        found = propensities(center, scale)
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert abs(math.fsum(found) - 1) <= 1e-15 * len(arms)

    def test_it_is_the_frequency_of_the_largest_draw(self):
        """With a negative control: one center of six moved by a tenth of its scale."""
        rng = np.random.default_rng(3)
        center = np.array([0.5, 0.4, 0.45, 0.1, 0.5, 0.3])
        scale = np.array([0.1, 0.2, 0.01, 0.5, 0.001, 0.0])
        winners = (center + scale * rng.standard_normal((200_000, 6))).argmax(1)
        counts = np.bincount(winners, minlength=6)
        assert counts[5] == propensities(center, scale)[5] == 0
        assert stats.chisquare(counts[:5], 200_000 * propensities(center, scale)[:5]).pvalue > 1e-3
        center[1] += 0.02
        moved = propensities(center, scale)[:5]
        assert stats.chisquare(counts[:5], 200_000 * moved).pvalue < 1e-6


def one(arms, arm):
    return [float(k == arm) for k in range(arms)]


class TestCertainArms:
    @FEW
    @given(center=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.5 + 1e-16, 1.0, math.inf]), min_size=1, max_size=8))
    @example(center=[0.0, math.inf, math.inf])
    def test_the_simulators_pick_is_certain(self, center):
        found = propensities(center, np.zeros(len(center)))
        assert found.tolist() == one(len(center), int(np.argmax(center)))

    def test_an_arm_of_center_infinity_beats_every_scale(self):
        assert propensities([1e300, math.inf, 0, math.inf], [1e300, 0, 1, 0]).tolist() == one(4, 1)

    def test_of_certain_arms_only_the_largest_can_win_the_lowest_in_a_tie(self):
        found = propensities([0, 0.2, 0.3, 0.3, 0.1], [1, 0, 0, 0, 0])
        below = special.ndtr(0.3)
        np.testing.assert_allclose(found, [1 - below, 0, below, 0, 0], rtol=0, atol=1e-15)

    def test_a_certain_arm_in_the_lower_tail_of_another(self):
        assert propensities([-20, 0], [0, 1]).tolist() == [0, 1]


class TestKernel:
    @pytest.mark.parametrize(("center", "scale"), list(hard_cases(np.random.default_rng(2))))
    def test_plain_and_compiled_agree(self, center, scale):
        center, scale = np.array(center, float), np.array(scale, float)
        out = np.full(center.size, np.nan)
        fill_propensities(center, scale, out, np.full((center.size, SCRATCH), np.nan))
        np.testing.assert_allclose(out, propensities(center, scale), rtol=0, atol=1e-15)

    def test_it_works_on_parts_of_larger_arrays(self):
        block, work = np.full((4, 7), np.nan), np.full((7, SCRATCH), np.nan)
        block[0, :5], block[1, :5] = [0.5, 0.4, 0.2, 0.1, 0.3], [0.1, 0.2, 0.3, 0.0, 0.01]
        bind(fill_propensities)(block[0, :5], block[1, :5], block[2, :5], work[:5])
        assert np.array_equal(block[2, :5], propensities(block[0, :5], block[1, :5]))
        assert np.isnan(block[:, 5:]).all()
        assert np.isnan(block[3]).all()
        assert np.isnan(work[5:]).all()


@pytest.fixture(scope="module", params=["plain", "compiled"])
def any_draw(request):
    return draw if request.param == "plain" else bind(draw)


class TestDraw:
    def test_each_arm_has_its_share_of_the_uniforms(self, any_draw):
        probabilities = propensities([0.5, 0.4, -9, 0.1], [0.1, 0.2, 0.1, 0.3])
        arms = [any_draw(probabilities, (i + 0.5) / 4000) for i in range(4000)]
        np.testing.assert_allclose(np.bincount(arms, minlength=4), 4000 * probabilities, rtol=0, atol=1)

    @pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-53])
    def test_an_arm_of_probability_0_is_never_drawn(self, any_draw, u):
        tenths = np.array([0.0, *[0.1] * 10, 0.0])  # their sum is short of 1 by rounding
        assert tenths[any_draw(tenths, u)] > 0
        assert any_draw(np.array([0.0, 1.0, 0.0]), u) == 1

    def test_a_uniform_beyond_the_sum_goes_to_the_last_arm_that_has_any(self, any_draw):
        assert any_draw(np.array([*[0.1] * 10, 0.0]), 1 - 2.0**-53) == 9


class TestBadInput:
    @pytest.mark.parametrize(
        ("center", "scale", "message"),
        [
            ([0, math.nan], [1, 1], r"center\[1\]=nan, but expected a number up to 1e300, or \+inf"),
            ([-math.inf], [1], r"center\[0\]=-inf, but expected"),
            ([0, 1e301], [1, 1], r"center\[1\]=1e\+301, but expected"),
            ([0, 0], [1, -1], r"scale\[1\]=-1, but expected a number in \[0, 1e300\]"),
            ([0, 0], [math.nan, 1], r"scale\[0\]=nan, but expected"),
            ([0, 0], [1, math.inf], r"scale\[1\]=inf, but expected"),
            ([0, 0], [1], "2 centers and 1 scales, but expected one of each for every arm"),
            ([], [], r"center has shape \(0,\), but expected one number for each arm"),
            (0.5, [1], r"center has shape \(\), but expected"),
            ([0], [[1]], r"scale has shape \(1, 1\), but expected"),
        ],
    )
    def test_values(self, center, scale, message):
        with pytest.raises(ValueError, match=message):
            propensities(center, scale)

    @pytest.mark.parametrize("center", [["a"], [None], [True], [1j]])
    def test_types(self, center):
        with pytest.raises(TypeError, match=r"center is of type .*, but expected real numbers"):
            propensities(center, [1])

    def test_what_is_given_is_left_alone(self):
        center, scale = np.array([0.5, 0.4]), np.array([0, 1], np.int64)
        center.setflags(write=False)
        propensities(center[::-1], scale)
        assert center.tolist() == [0.5, 0.4]
        assert scale.tolist() == [0, 1]
