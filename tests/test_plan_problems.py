"""Planning: the problems drawn from a guess or from data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import posse
from posse.insight import plan
from posse.insight.planning import model
from posse.insight.planning.model import (
    draw_means,
    guessed_problems,
    interaction_freedom,
    level_and_own,
    population_of,
    reward_dispersion,
)
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
    """Counts of 0 and 1 from the model with arm means 0.3, 0.4, 0.5, and the true means."""
    random = np.random.default_rng(seed)
    players = len(pulls)
    means = np.array([0.3, 0.4, 0.5]) + random.normal(0, level, (players, 1)) + random.normal(0, own, (players, 3))
    sums = random.binomial(pulls, np.clip(means, 0, 1)).astype(float)
    return Counts(tuple(f"p{n}" for n in range(players)), ("a", "b", "c"), pulls, sums), means


def drawn_means(counts: Counts, count: int = 100, seed: int = 0) -> np.ndarray:
    return np.array([problem.means for problem in population_of(counts).problems(count=count, seed=seed)])


def test_problems_from_data_vary_as_what_the_data_was_made_of():
    """With few pulls a cell, so that noise (0.05) exceeds what is to be found; the observed spread is far off."""
    counts, _ = drawn_counts(0.08, 0.04, np.full((120, 3), 100), seed=2)
    means = drawn_means(counts, count=20)
    assert means.mean(axis=(0, 1)) == pytest.approx([0.3, 0.4, 0.5], abs=0.03)
    level, own = level_and_own(means)
    assert level.mean() == pytest.approx(0.08, abs=0.015)
    assert own.mean() == pytest.approx(0.04, abs=0.015)
    assert level_and_own((counts.sums / counts.pulls)[None])[1] > 0.058


def odd_counts(seed: int, by: float = 0.25, pulls: tuple[int, ...] = (35, 300, 65)) -> Counts:
    """Twelve players alike, but for one in one arm that is rarely pulled."""
    means = np.tile([0.2, 0.3, 0.25], (12, 1))
    means[3, 0] += by
    every = np.tile(pulls, (12, 1))
    sums = np.random.default_rng(seed).binomial(every, means).astype(float)
    return Counts(tuple(f"p{n}" for n in range(12)), ("a", "b", "c"), every, sums)


def test_one_odd_player_in_one_rare_arm_shows_in_proportion_to_the_evidence():
    """0.25 off with noise of 0.07, among 36 cells: in some of the problems, the more the more its data says so."""
    shares, covered = [], 0
    for seed in range(6):
        means = drawn_means(odd_counts(seed))
        excess = means[:, 3, 0] - np.median(means[:, :, 0], axis=1)
        shares.append((excess > 0.1).mean())
        low, high = np.quantile(np.ptp(means, axis=1)[:, 0], (0.02, 0.98))
        covered += low < 0.25 < high
    assert covered >= 4
    assert 0.3 < np.mean(shares) < 0.9
    seen = [odd_counts(seed).sums[3, 0] for seed in range(6)]
    assert scipy.stats.spearmanr(seen, shares).statistic > 0.8
    means = drawn_means(odd_counts(0, pulls=(350, 300, 65)))
    assert np.quantile(means[:, 3, 0] - np.median(means[:, :, 0], axis=1), 0.05) > 0.12, "ten times the data"
    assert np.median(np.ptp(means, axis=1)[:, 0]) == pytest.approx(0.27, abs=0.07)
    others = np.ptp(np.delete(means, 3, axis=1), axis=1)
    assert np.median(others, axis=0).max() < 0.1, "nobody else is odd, and no other arm"


def test_players_who_are_alike_stay_alike():
    """Observed means differ by 0.23 and more."""
    alike = [drawn_means(odd_counts(seed, by=0.0)) for seed in range(4)]
    assert np.median([np.ptp(means, axis=1).max(axis=1) for means in alike]) < 0.1
    assert np.mean([means[:, 3, 0] - np.median(means[:, :, 0], axis=1) > 0.1 for means in alike]) < 0.1
    many = drawn_means(odd_counts(0, by=0.0, pulls=(20000, 20000, 20000)))
    assert np.median(np.ptp(many, axis=1)) < 0.008


def dense(counts: Counts, level: float, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of all observed means, and the design of arm means, with every cell a row."""
    pooled = (counts.sums.sum(axis=0) + 0.5) / (counts.pulls.sum(axis=0) + 1)
    player, arm = np.nonzero(counts.pulls)
    noise = (pooled * (1 - pooled))[arm] / counts.pulls[player, arm]
    together = level**2 * (player[:, None] == player) + np.diag(own[arm] ** 2 + noise)
    return together, np.eye(counts.pulls.shape[1])[arm]


def unbalanced() -> Counts:
    pulls = np.array([[40, 0, 10], [5, 60, 30], [0, 0, 25], [80, 20, 7], [0, 0, 0]])
    return drawn_counts(0.08, 0.05, pulls, seed=8)[0]


def restricted_likelihood(counts: Counts, level: float, own: np.ndarray) -> float:
    """Of standard deviations, arm means integrated out, by the whole covariance (Patterson and Thompson, 1971)."""
    seen = counts.sums[counts.pulls > 0] / counts.pulls[counts.pulls > 0]
    covariance, design = dense(counts, level, own)
    inverse = np.linalg.inv(covariance)
    precision = design.T @ inverse @ design
    rest = seen - design @ np.linalg.solve(precision, design.T @ inverse @ seen)
    return -0.5 * (np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(precision)[1] + rest @ inverse @ rest)


def test_standard_deviations_are_drawn_from_their_posterior(monkeypatch):
    """Against sums over a whole coarse grid, for normal own deviations (σ_pk = σ_k); the prior alone is far off."""
    monkeypatch.setattr(model, "GRID", 6)
    monkeypatch.setattr(model, "REACH", 60.0)
    monkeypatch.setattr(model, "FREEDOMS", (1e6,))
    pulls = np.array([[150, 40], [90, 60], [60, 200], [100, 30]])
    sums = np.array([[45, 25], [30, 20], [12, 130], [28, 6]]).astype(float)
    counts = Counts(("p", "q", "r", "s"), ("a", "b"), pulls, sums)
    population = population_of(counts)
    grid = population.grid
    of_arm = np.exp(model.scale_priors(grid)[0])
    prior = of_arm.T @ of_arm  # of the two arms' σ, s summed out
    scores = [[[restricted_likelihood(counts, t, np.array([a, b])) for b in grid] for a in grid] for t in grid]
    exact = np.exp(np.array(scores) - np.max(scores)) * prior
    exact /= exact.sum()
    chain = model._chain(population, np.random.default_rng(0))
    states = [next(chain) for _ in range(6000)][100:]
    for column, axes in ((lambda s: s.level, (1, 2)), (lambda s: s.scale[0], (0, 2)), (lambda s: s.scale[1], (0, 1))):
        place = np.searchsorted(grid, np.array([column(state) for state in states]) * (1 - 1e-9))
        shares = np.bincount(place, minlength=6) / len(states)
        assert shares == pytest.approx(exact.sum(axis=axes), abs=0.04)
        assert np.abs(shares - 1 / 6).max() > 0.1


def test_means_are_drawn_from_their_posterior():
    """Against the Gaussian posterior of all cells at once, empty cells and an empty player included."""
    counts = unbalanced()
    population = population_of(counts)
    own = np.array([0.02, 0.05, 0.03])
    covariance, design = dense(counts, 0.03, own)
    inverse = np.linalg.inv(covariance)
    player, arm = np.nonzero(counts.pulls)
    everyone, every_arm = (index.ravel() for index in np.indices(counts.pulls.shape))
    same = everyone[:, None] == player
    cross = 0.03**2 * same + own[arm] ** 2 * (same & (every_arm[:, None] == arm))
    full = np.eye(3)[every_arm]
    of_arms = np.linalg.inv(design.T @ inverse @ design)
    arms = of_arms @ design.T @ inverse @ population.observed[player, arm]
    mean = full @ arms + cross @ inverse @ (population.observed[player, arm] - design @ arms)
    part = full - cross @ inverse @ design
    prior = 0.03**2 * (everyone[:, None] == everyone) + np.diag(own[every_arm] ** 2)
    spread = prior - cross @ inverse @ cross.T + part @ of_arms @ part.T

    random = np.random.default_rng(1)
    every_own = np.tile(own, (5, 1))
    draws = np.array(
        [draw_means(population.observed, population.noise, 0.03, every_own, random)[2].ravel() for _ in range(6000)]
    )
    error = np.sqrt(np.diag(spread) / len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) < 4.5 * error).all()
    assert (np.abs(draws.mean(axis=0) - full @ arms) > 4.5 * error).any(), "the players' own data matters"
    assert np.cov(draws.T) == pytest.approx(spread, abs=6 * np.diag(spread).max() / np.sqrt(len(draws)))


def test_a_problem_from_data_does_not_depend_on_how_many_are_drawn():
    population = population_of(unbalanced())
    few, many = (population.problems(count=count, seed=5) for count in (2, 4))
    assert few == many[:2]
    assert population.problems(count=2, seed=6) != few


def test_freedom_for_own_deviations_is_that_of_the_design():
    random = np.random.default_rng(0)
    for _ in range(40):
        known = random.random((6, 4)) < 0.35
        player, arm = np.nonzero(known)
        design = np.hstack([np.eye(6)[player], np.eye(4)[arm]])
        assert interaction_freedom(known) == len(player) - np.linalg.matrix_rank(design)


def test_levels_and_own_deviations_are_those_of_an_analysis_of_variance():
    random = np.random.default_rng(3)
    means = 0.5 + random.normal(0, 0.05, (4, 2000, 1)) + random.normal(0, 0.02, (4, 2000, 3))
    level, own = level_and_own(means)
    assert level == pytest.approx(np.full(4, 0.05), rel=0.1)
    assert own == pytest.approx(np.full(4, 0.02), rel=0.1)


def test_it_says_where_levels_and_own_deviations_cannot_be_told_apart():
    pulls = np.array([[90, 0], [80, 0], [0, 70], [0, 90]])
    one_each = Counts(("p", "q", "r", "s"), ("a", "b"), pulls, np.round(pulls * [[0.2], [0.5], [0.4], [0.3]]))
    found = plan(one_each, decisions=20, problems=3, policies=[])
    assert any("cannot be told apart" in line for line in found.assumed)
    crossed = plan(drawn_counts(0.05, 0.02, np.full((4, 3), 50), seed=1)[0], decisions=20, problems=3, policies=[])
    assert not any("cannot be told apart" in line for line in crossed.assumed)
    with pytest.raises(ValueError, match="no arm has rewards of two players on record"):
        plan(Counts(("p", "q"), ("a", "b"), np.diag([10, 10]), np.diag([5.0, 5.0])))


def test_dispersion_tells_rewards_of_0_and_1_from_others():
    random = np.random.default_rng(0)
    player, arm = random.integers(0, 30, 400), random.integers(0, 4, 400)
    assert reward_dispersion(player, arm, random.integers(0, 2, 400).astype(float)) == pytest.approx(1, abs=1e-12)
    beta = random.beta(0.3 * 9, 0.7 * 9, 400)  # variance m (1 − m) / 10
    assert reward_dispersion(player, arm, beta) == pytest.approx(0.1, abs=0.02)
    assert reward_dispersion(np.arange(5), np.zeros(5, int), np.ones(5)) == 1.0
