"""How likely arms are the best, what that costs, and how rarely a wrong one is shown over many experiments."""

from __future__ import annotations

from dataclasses import replace

import conclude_coverage
import numpy as np
import pytest
from sizes import FULL

import posse
from posse.insight.conclusion.chances import best_chances
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.hierarchy.model import fit
from posse.insight.watching.evidence import DecisionBlock
from posse.learner import Counts


def test_chances_and_losses_are_those_of_the_draws_counted_one_by_one():
    pulls = np.array([[90, 30, 5], [10, 200, 9], [0, 0, 0]])
    sums = np.array([[40.0, 15, 1], [3, 120, 2], [0, 0, 0]])
    counts = Counts(("a", "b", "c"), ("x", "y", "z"), pulls, sums)
    offered, present = np.array([True, True, False]), np.array([[0.7, 0.3, 0], [0.1, 0.9, 0], [0, 0, 0]])
    found, model = best_chances(counts, offered, present), fit(counts)
    weights = model.weights["middle"] / model.weights["middle"].sum()
    traffic = [125 / 344, 219 / 344, 0.0]
    chances, overall, one, going = np.zeros((3, 3)), np.zeros(3), np.zeros(3), 0.0
    for weight, draw in zip(weights, model.draws, strict=True):
        average = [sum(traffic[p] * draw[p, arm] for p in range(3)) for arm in range(2)]
        overall[int(np.argmax(average))] += weight
        for p in range(3):
            chances[p, int(np.argmax(draw[p, :2]))] += weight
            for arm in range(3):
                one[arm] += weight * traffic[p] * (max(draw[p, :2]) - draw[p, arm])
            going += weight * traffic[p] * (max(draw[p, :2]) - present[p] @ draw[p])
    np.testing.assert_allclose(found.chances, chances, atol=1e-12)
    np.testing.assert_allclose(found.overall, overall, atol=1e-12)
    np.testing.assert_allclose(found.one_loss[:2], one[:2], atol=1e-12)
    assert found.going_loss == pytest.approx(going)
    assert found.own_loss <= found.one_loss[:2].min()
    assert found.chances.sum(axis=1) == pytest.approx(1)


def test_the_weight_of_others_is_small_with_much_own_data_and_1_without_any():
    sums = np.array([[2000.0, 2400], [2100, 2500], [12, 15], [0, 0]])
    pulls = np.array([[10_000, 10_000], [10_000, 10_000], [60, 60], [0, 0]])
    found = best_chances(Counts(tuple("abcd"), ("x", "y"), pulls, sums), np.ones(2, bool), np.zeros((4, 2)))
    assert (found.others[3] == 1).all()
    assert (found.others[2] > 0.5).all()
    assert (found.others[:2] < 0.6).all()


def test_chances_of_being_best_are_about_right():
    """Of arms that are drawn alike, one with a chance of q is the best in about q of the cases."""
    random = np.random.default_rng(5)
    said, right = [], []
    for _ in range(400 if FULL else 40):
        means = 1 / (1 + np.exp(-random.normal(-0.5, 0.3, 2)))
        pulls = np.full((1, 2), 100)
        counts = Counts(("a",), ("x", "y"), pulls, random.binomial(pulls, means).astype(float))
        said.append(best_chances(counts, np.ones(2, bool), np.zeros((1, 2))).overall[1])
        right.append(means[1] > means[0])
    said, right = np.array(said), np.array(right)
    assert abs(said.mean() - right.mean()) < 0.1
    assert np.mean((said - right) ** 2) < 0.2 < np.mean((1 - said - right) ** 2)  # turned round, they say nothing


def test_many_experiments_at_once_are_what_one_is():
    """The vectorised simulation decides as the library does, if both make the same guesses."""
    setting = replace(conclude_coverage.LEADS[2], lead=0.4)
    seen = []

    class Recorded(conclude_coverage.ManyEvidence):
        def add(self, player, arm, chances, reward, guess):
            seen.append((player, arm[0], chances[0], reward[0], guess[0]))
            super().add(player, arm, chances, reward, guess)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conclude_coverage, "ManyEvidence", Recorded)
        *_, last = conclude_coverage.run(setting, 3, 500)
    player, arm, chances, reward, guesses = (np.array(each) for each in zip(*seen, strict=True))
    evidence = ConclusionEvidence(3)
    evidence._guess = SameGuesses(guesses)
    evidence.add_answers(DecisionBlock(player, arm, chances, reward))
    winner, since = evidence.winners(np.ones(3, bool))
    assert winner[0] == 2
    assert since[0] == last.evidence.winners()[0, 0, 2] > 0
    np.testing.assert_allclose(
        evidence.sums[0, :, 2, 0], last.evidence.sums[0, 0, :, 0, 2] + last.evidence.sums[0, 1, :, 0, 0] - 500
    )


class SameGuesses:
    """Guesses that are given, one row at a time, so that the evidence is looked at after each."""

    def __init__(self, guesses):
        self.guesses, self.count = guesses, 0

    def follow(self, block):
        for row in range(block.arm.size):
            yield block.taken(slice(row, row + 1)), self.guesses[row : row + 1]
            self.count += 1


@pytest.mark.parametrize("setting", [conclude_coverage.NULL[3], conclude_coverage.NULL[6]], ids=lambda each: each.name)
def test_wrong_winners_are_rare_and_a_naive_test_has_many(setting):
    everybody, player, naive = conclude_coverage.wrong_winners(setting, *((2000, 1000) if FULL else (400, 250)))
    assert everybody <= 0.025
    assert not player > 0.025
    assert naive > 0.2


def test_wrong_probabilities_are_noticed_as_wrong_winners(monkeypatch):
    """A negative control: arms are not chosen with the probabilities that are logged, so experiments go wrong."""
    add = conclude_coverage.ManyEvidence.add

    def tilted(pulls, sums, player):
        return np.tile([0.0, 1.0], (len(pulls), 1)), np.ones((len(pulls), 2))

    def add_equal(self, player, arm, chances, reward, guess):
        add(self, player, arm, np.full_like(chances, 0.5), reward, 0 * guess)

    setting = replace(conclude_coverage.NULL[0], policy=tilted)
    assert conclude_coverage.wrong_winners(setting, 50, 300)[0] == 0
    monkeypatch.setattr(conclude_coverage.ManyEvidence, "add", add_equal)
    assert conclude_coverage.wrong_winners(setting, 50, 300)[0] > 0.9


def test_learners_ship_the_best_arm_in_the_end():
    found = conclude_coverage.needed_by_learner(posse.PosseTS(), 0.1, 2, 400)
    assert found.wrong == 0
    assert 0 < found.lost < 67  # less than with equal shares
