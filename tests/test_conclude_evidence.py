"""The evidence behind `posse conclude`: the same as the formulas, in any blocks, and for any arms on offer."""

import itertools

import numpy as np
import pytest
from slow_conclusion import slow_evidence, slow_sums, slow_winner

from posse.confidence import shares
from posse.insight.conclusion.evidence import REACHES, ConclusionEvidence, pair_evidence, pair_levels
from posse.insight.conclusion.needed import decisions_needed
from posse.insight.watching.evidence import DecisionBlock, RewardGuess


def made_block(seed, rows, means, availability=1.0, least=0.02):
    """Decisions whose probabilities change from row to row, and whose arms are not always on offer."""
    random = np.random.default_rng(seed)
    players, arms = means.shape
    weights = random.gamma(0.7, size=(rows, arms)) + least
    offered = random.random((rows, arms)) < availability
    offered[np.arange(rows), random.integers(arms, size=rows)] = True
    weights = np.where(offered, weights, 0.0)
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    player = random.integers(players, size=rows)
    arm = (random.random(rows)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    arm = np.where(probabilities[np.arange(rows), arm] > 0, arm, probabilities.argmax(axis=1))
    reward = (random.random(rows) < means[player, arm]) * 1.0
    return DecisionBlock(player, arm, probabilities, reward)


def guesses_of(block):
    found = RewardGuess(block.probabilities.shape[1]).follow(block)
    return np.concatenate([guess for _, guess in found])


MEANS = np.array([[0.2, 0.5, 0.8], [0.3, 0.4, 0.9]])


@pytest.mark.parametrize("availability", [1.0, 0.7])
def test_sums_and_evidence_are_those_of_the_formulas(availability):
    block = made_block(1, 300, MEANS, availability)
    evidence = ConclusionEvidence(3, tolerance=0.05)
    evidence.add_answers(block)
    guesses = guesses_of(block)
    for scope in range(3):
        rows = [row for row in range(300) if scope == 0 or block.player[row] == scope - 1]
        for i, j in ((0, 1), (1, 0), (2, 0), (1, 2)):
            for place, reach in enumerate(REACHES):
                count, total, spread = slow_sums(block, guesses, rows, i, j, reach)
                assert evidence.counts[scope, i, j] == count
                assert evidence.sums[scope, place, i, j] == pytest.approx(total, abs=1e-9)
                assert evidence.spreads[scope, place, i, j] == pytest.approx(spread, rel=1e-9)
            found = pair_evidence(
                evidence.counts[scope, i, j], evidence.sums[scope, :, i, j], evidence.spreads[scope, :, i, j], -0.05
            )
            assert found == pytest.approx(slow_evidence(block, guesses, rows, i, j, 0.05), abs=1e-9)


def test_an_arm_beats_those_that_it_beats_at_one_look():
    block = made_block(2, 700, MEANS, 0.9, least=0.3)
    evidence = ConclusionEvidence(3)
    evidence.add_answers(block)
    guesses = guesses_of(block)
    looks = np.cumsum([part.arm.size for part, _ in RewardGuess(3).follow(block)])
    levels = 0.025 * np.array([1.0, *shares(2)])[:, None, None] * pair_levels(3, 3)
    decided = 0
    for scope, i in itertools.product(range(3), range(3)):
        since = {}
        for look in looks:
            rows = [row for row in range(look) if scope == 0 or block.player[row] == scope - 1]
            beaten = [
                j
                for j in {0, 1, 2} - {i}
                if slow_evidence(block, guesses, rows, i, j, 0.0) >= -np.log(levels[scope, i, j])
            ]
            if len(beaten) >= len(since):
                since = {j: since.get(j, look) for j in beaten}
        assert evidence.since[scope, i].tolist() == [since.get(j, 0) for j in range(3)]
        decided += len(since)
    assert 3 <= decided < 18  # some pairs are decided and some are not, so the comparison says something
    winner, since = evidence.winners(np.ones(3, bool))
    assert winner[0] == slow_winner(evidence.since[0] > 0, np.ones(3, bool)) == 2
    assert since[0] == evidence.since[0, 2].max()


def test_an_arm_that_was_never_the_best_does_not_win_by_proofs_of_different_times():
    """Red beats blue at first, but not green; then blue makes up for it; then red beats green: blue is the best."""
    phases = ((2000, (0.8, 0.5, 0.8)), (2150, (0.5, 0.8, 0.5)), (1500, (0.5, 0.5, 0.0)))
    ever = 0
    for seed in range(6):
        random, evidence, total = np.random.default_rng(seed), ConclusionEvidence(3), np.zeros(3)
        for decisions, means in phases:
            for _ in range(0, decisions, 50):
                arm = random.integers(3, size=50)
                reward = (random.random(50) < np.array(means)[arm]).astype(float)
                evidence.add_answers(DecisionBlock(np.zeros(50, np.int64), arm, np.full((50, 3), 1 / 3), reward))
                total += 50 * np.array(means)
                winner = evidence.winners(np.ones(3, bool))[0][0]
                assert winner < 0 or total[winner] == total.max()
            ever += evidence.since[0, 0, 1] > 0
    assert ever  # red was shown to beat blue


def test_blocks_of_any_size_give_the_same_evidence():
    block = made_block(3, 3000, MEANS, 0.8)
    whole, parts = ConclusionEvidence(3), ConclusionEvidence(3)
    whole.add_answers(block)
    random = np.random.default_rng(0)
    ends = np.sort(random.choice(3000, 40, replace=False))
    for start, end in zip([0, *ends], [*ends, 3000], strict=True):
        parts.add_answers(block.taken(slice(start, end)))
    assert parts.answers == whole.answers == 3000
    for name in ("counts", "sums", "spreads", "own_sums", "own_spreads"):
        room = getattr(whole, name).shape[0]
        np.testing.assert_allclose(getattr(parts, name)[:room], getattr(whole, name), rtol=1e-9, atol=1e-9)
    assert ((parts.since[:3] > 0) >= (whole.since > 0)).all()  # more looks decide no later


def test_players_and_arms_may_come_later():
    block = made_block(4, 2000, np.vstack([MEANS, MEANS]))
    early = made_block(5, 500, MEANS[:, :2])
    evidence = ConclusionEvidence(2)
    evidence.add_answers(early)
    two = evidence.sums[0, :, :2, :2].copy()
    evidence.add_answers(block)
    assert evidence.counts.shape[1] == 3
    assert evidence.counts[0, 0, 1] == 2500
    assert evidence.counts[0, 0, 2] == evidence.counts[0, 2, 2] == 2000
    assert (evidence.sums[0, :, :2, :2] != two).any()
    assert evidence.counts[1:5, 0, 1].sum() == 2500


def test_memory_is_bounded_and_everybody_counts_all_the_same():
    block = made_block(6, 2000, np.tile(MEANS, (10, 1)))
    bounded, free = ConclusionEvidence(3, cells=5 * 9), ConclusionEvidence(3)
    bounded.add_answers(block)
    free.add_answers(block)
    assert bounded.players == 5
    assert bounded.counts[1:].sum() < free.counts[1:].sum()
    np.testing.assert_allclose(bounded.sums[0], free.sums[0])
    np.testing.assert_allclose(bounded.sums[5], free.sums[5])


@pytest.mark.parametrize("first", [2, 3, 5])
def test_the_levels_of_an_arms_pairs_never_add_up_to_more_than_the_whole(first):
    levels = pair_levels(400, first)
    assert (levels == levels.T).all()
    for best in (0, first - 1, first, 50, 399):
        assert np.delete(levels[best], best).sum() <= 1 + 1e-12
    assert levels[0, 1] > 0.8 / (first - 1)


def test_an_arm_that_is_no_longer_on_offer_need_not_be_beaten():
    evidence = ConclusionEvidence(3)
    evidence.since[0] = [[0, 0, 7], [0, 0, 9], [0, 0, 0]]
    assert evidence.winners(np.array([True, True, True]))[0][0] == -1
    winner, since = evidence.winners(np.array([True, False, True]))
    assert (winner[0], since[0]) == (0, 7)
    assert evidence.winners(np.array([True, False, False]))[0][0] == -1  # nothing to beat


def test_intervals_of_arms_and_differences_hold_the_truth_and_shrink():
    widths = []
    for rows in (500, 20_000):
        block = made_block(7, rows, MEANS, least=0.3)
        evidence = ConclusionEvidence(3)
        evidence.add_answers(block)
        value, low, high = evidence.difference(2, 0, 0.05)
        assert low < 0.6 < high
        assert low <= value <= high
        mean = evidence.mean(2, 0.05)
        assert mean[1] < 0.85 < mean[2]
        widths.append((high - low, mean[2] - mean[1]))
    assert widths[1][0] < widths[0][0] / 4
    assert widths[1][1] < widths[0][1] / 4


@pytest.mark.parametrize(
    ("means", "least"),
    [([0.2, 0.2, 0.3], 1 / 3), ([0.2, 0.2, 0.3], 0.1), ([0.5, 0.6], 0.25)],
    ids=["equal shares", "a least share of 0.1", "two arms"],
)
def test_how_many_decisions_it_takes_is_known_before(means, least):
    """Beside 60 experiments with these shares; twice as many decisions would be noticed."""
    random, arms, since = np.random.default_rng(1), len(means), []
    table = np.tile(means, (4, 1))
    half, late = (decisions_needed(table, 1.0, np.full(4, 0.25), least, part) for part in (0.5, 0.8))
    shares = np.full(arms, least)
    shares[-1] = 1 - (arms - 1) * least
    count = int(2 * late)
    for _ in range(60):
        arm = random.choice(arms, count, p=shares)
        reward = (random.random(count) < np.array(means)[arm]) * 1.0
        evidence = ConclusionEvidence(arms)
        evidence.add_answers(DecisionBlock(np.arange(count) % 4, arm, np.tile(shares, (count, 1)), reward))
        winner, when = (each[0] for each in evidence.winners(np.ones(arms, bool)))
        since.append(when if winner == arms - 1 else np.inf)
    assert np.quantile(since, 0.5) == pytest.approx(half, rel=0.3)
    assert np.quantile(since, 0.8) == pytest.approx(late, rel=0.3)


def test_arms_that_are_alike_are_never_told_apart():
    assert decisions_needed(np.full((2, 3), 0.2), 1.0, np.full(2, 0.5), 1 / 3) == np.inf
