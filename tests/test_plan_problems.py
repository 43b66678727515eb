"""Planning: the problems drawn from a guess or from data."""

from __future__ import annotations

import numpy as np
import pytest

import posse
from posse.insight import plan
from posse.insight.hierarchy.model import contrast_deviation, fit
from posse.insight.planning.planned_run import guessed_problems, problems_of
from posse.learner import Counts

# Problems from a guess


def lead(problem: posse.Problem, arm: int) -> float:
    """How far an arm leads the others on average over players."""
    means = problem.means.mean(axis=0)
    return float(means[arm] - np.delete(means, arm).mean())


def test_guessed_problems_have_the_effect_and_keep_epsilon():
    problems = guessed_problems(4000, 3, epsilon=0.1, effect=0.05, base=0.3, count=4, seed=1)
    error = 0.1 / np.sqrt(12 * 4000) * np.sqrt(1.5)  # of a lead over two others
    for k, problem in enumerate(problems):
        assert abs(lead(problem, k % 3) - 0.05) < 5 * error
        assert abs(lead(problem, k % 3) - 0.06) > 5 * error, "another effect would be noticed"
        spread = np.ptp(problem.means, axis=0)
        assert (spread <= 0.1 + 1e-12).all()
        assert (spread > 0.099).all(), "all of ε is used"
        assert problem.epsilon == 0.1


def test_guessed_problems_stay_within_what_a_mean_can_be_and_keep_the_effect():
    for base in (0.03, 0.93):
        problem = guessed_problems(4000, 2, 0.2, 0.02, base, count=1, seed=0)[0]
        assert problem.means.min() >= 0
        assert problem.means.max() <= 1
        room = np.minimum([base + 0.02, base], [0.98 - base, 1 - base])
        assert np.ptp(problem.means, axis=0) == pytest.approx(2 * room, rel=0.01)
        assert lead(problem, 0) == pytest.approx(0.02, abs=0.004)
        assert len(np.unique(problem.means)) == problem.means.size, "not piled up at the ends"


def test_it_says_where_there_is_no_room_for_epsilon():
    narrow, wide = (
        plan(players=2, arms=2, decisions=9, problems=2, base=base, effect=0.03, epsilon=0.1, policies=[])
        for base in (0.03, 0.06)
    )
    assert "within ε = 0.1, or 0.06 where they would leave [0, 1] otherwise." in narrow.assumed[1]
    assert wide.assumed[1].endswith("within ε = 0.1.")


def test_an_epsilon_without_room_is_not_taken_as_right():
    found = plan(players=4, decisions=50, problems=3, base=0.03, effect=0.02, epsilon=0.2)
    assert found.epsilon == pytest.approx(0.1)
    assert "no room for ε = 0.2: means that stay in [0, 1] around 0.05 and 0.03 lie within 0.1. So" in found.assumed[1]
    assert "RobustAgg-TS(0.1)" in str(found)
    assert "RobustAgg-TS(0.2)" not in [found.labels[n] for n in found.compared]
    assert max(problem.epsilon for problem in found.result.problems) <= 0.1 + 1e-12
    fits = plan(players=4, decisions=50, problems=3, base=0.08, effect=0.02, epsilon=0.2)
    assert fits.epsilon == 0.2
    assert not any("no room" in line for line in fits.assumed)
    with pytest.raises(ValueError, match="base=0 with effect=0, but rewards are 0 or 1"):
        plan(base=0, effect=0)


def test_a_guessed_problem_depends_on_seed_and_number_alone():
    few, many = (guessed_problems(3, 2, 0.1, 0.1, 0.4, count=count, seed=5) for count in (2, 4))
    assert few == many[:2]
    assert guessed_problems(3, 2, 0.1, 0.1, 0.4, count=2, seed=6) != few
    assert len({problem.stream for problem in many}) == 4


# Problems from data


def drawn_counts(level: float, own: float, pulls: np.ndarray, seed: int) -> tuple[Counts, np.ndarray]:
    """Counts of 0 and 1 from means 0.3, 0.4, 0.5 with levels and contrasts, and the true means."""
    random = np.random.default_rng(seed)
    players = len(pulls)
    means = np.array([0.3, 0.4, 0.5]) + random.normal(0, level, (players, 1)) + random.normal(0, own, (players, 3))
    sums = random.binomial(pulls, np.clip(means, 0, 1)).astype(float)
    return Counts(tuple(f"p{n}" for n in range(players)), ("a", "b", "c"), pulls, sums), means


def drawn_means(counts: Counts, count: int = 100, seed: int = 0) -> np.ndarray:
    return np.array([problem.means for problem in problems_of(fit(counts), counts.low, count, seed)])


def test_problems_from_data_vary_as_what_the_data_was_made_of():
    """With few pulls a cell, so that noise (0.05) exceeds what is to be found; the observed spread is far off."""
    counts, _ = drawn_counts(0.08, 0.04, np.full((120, 3), 100), seed=2)
    means = drawn_means(counts, count=20)
    assert means.mean(axis=(0, 1)) == pytest.approx([0.3, 0.4, 0.5], abs=0.03)
    assert means.mean(axis=2).std(axis=1, ddof=1).mean() == pytest.approx(0.08, abs=0.02)
    assert contrast_deviation(means).mean() == pytest.approx(0.04, abs=0.015)
    assert contrast_deviation((counts.sums / counts.pulls)[None])[0] > 0.058


def odd_counts(seed: int, by: float = 0.25, pulls: tuple[int, ...] = (35, 300, 65)) -> Counts:
    """Twelve players alike, but for one in one arm that is rarely pulled."""
    means = np.tile([0.2, 0.3, 0.25], (12, 1))
    means[3, 0] += by
    every = np.tile(pulls, (12, 1))
    sums = np.random.default_rng(seed).binomial(every, means).astype(float)
    return Counts(tuple(f"p{n}" for n in range(12)), ("a", "b", "c"), every, sums)


def test_one_odd_player_shows_where_there_is_data_for_it():
    means = drawn_means(odd_counts(0, pulls=(350, 300, 65)))
    assert np.quantile(means[:, 3, 0] - np.median(means[:, :, 0], axis=1), 0.05) > 0.12
    others = np.ptp(np.delete(means, 3, axis=1), axis=1)
    assert np.median(others[:, 1:], axis=0).max() < 0.12, "no other arm is odd"


def test_players_who_are_alike_stay_alike():
    """Observed means differ by 0.23 and more."""
    alike = [drawn_means(odd_counts(seed, by=0.0)) for seed in range(4)]
    assert np.median([np.ptp(means, axis=1).max(axis=1) for means in alike]) < 0.1
    many = drawn_means(odd_counts(0, by=0.0, pulls=(20000, 20000, 20000)))
    assert np.median(np.ptp(many, axis=1)) < 0.008


def test_problems_from_data_depend_on_the_seed():
    counts = odd_counts(0)
    assert (drawn_means(counts, 3, seed=5) == drawn_means(counts, 3, seed=5)).all()
    assert (drawn_means(counts, 3, seed=5) != drawn_means(counts, 3, seed=6)).any()


def test_it_says_where_levels_and_contrasts_cannot_be_told_apart():
    pulls = np.array([[90, 0], [80, 0], [0, 70], [0, 90]])
    one_each = Counts(("p", "q", "r", "s"), ("a", "b"), pulls, np.round(pulls * [[0.2], [0.5], [0.4], [0.3]]))
    found = plan(one_each, decisions=20, problems=3, policies=[])
    assert any("cannot be told apart" in line for line in found.assumed)
    crossed = plan(drawn_counts(0.05, 0.02, np.full((4, 3), 50), seed=1)[0], decisions=20, problems=3, policies=[])
    assert not any("cannot be told apart" in line for line in crossed.assumed)
    with pytest.raises(ValueError, match="no arm has rewards of two players on record"):
        plan(Counts(("p", "q"), ("a", "b"), np.diag([10, 10]), np.diag([5.0, 5.0])))
