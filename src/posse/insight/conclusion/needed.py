"""How many decisions it takes until an arm is shown to be the best for everybody, before there are any.

The evidence that arm i is better than j grows in a decision by g = λ Δ − ψ(λ) V on average, where Δ = μ_i − μ_j and

    V = (v_i + (μ_i − m_i)²) / p_i + (v_j + (1 − μ_j − m_j)²) / p_j

is the mean square of the terms (`posse.insight.conclusion.evidence`), if guesses are right: v are the variances of the
rewards, p the arms' shares and m the limited guesses. After n decisions it is about normal with mean g n and variance
λ² V n, so it has reached b with probability Φ(z) once g n − b = z λ √(V n). Here b = ln(number of bets / level), and
the best bet counts. All K − 1 other arms must be beaten; taken as independent, each with probability part^(1/(K−1)).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from posse.insight.conclusion.evidence import BETS, COSTS, REACHES, pair_levels


def decisions_needed(
    means: np.ndarray, dispersion: float, weights: np.ndarray, least: float, part: float = 0.5, level: float = 0.05
) -> float:
    """Decisions of all players until this part of experiments ships the best arm for everybody; infinite if never.

    `means` are [player, arm] on [0, 1], rewards vary by dispersion · mean · (1 − mean), and `weights` are the players'
    parts of the decisions. Every arm but the best has the share `least`, and the best one has the rest.

    >>> means = np.tile([0.2, 0.2, 0.3], (4, 1))
    >>> [round(decisions_needed(means, 1.0, np.full(4, 0.25), share), -2) for share in (1 / 3, 0.1)]
    [2400.0, 4100.0]
    """
    arms = means.shape[1]
    overall = weights @ means
    best = int(overall.argmax())
    share = np.full(arms, float(least))
    share[best] = 1 - (arms - 1) * least
    variance = dispersion * means * (1 - means)
    spread = np.empty((2, REACHES.size, arms))  # of an arm's terms, about r and about 1 − r
    for side, mean in enumerate((means, 1 - means)):
        missed = mean - np.minimum(mean, REACHES[:, None, None] * share)  # by the limited guesses
        spread[side] = np.einsum("p,cpk->ck", weights, variance + missed**2) / np.maximum(share, 1e-300)
    apart = spread[0][:, [best]] + spread[1]
    grows = BETS[:, None] * (overall[best] - overall) - COSTS[:, None] * apart
    enough = np.log(BETS.size / (level / 2 * pair_levels(arms, arms)[best]))
    noise = NormalDist().inv_cdf(part ** (1 / (arms - 1))) * BETS[:, None] * np.sqrt(apart)
    root = noise + np.sqrt(noise**2 + 4 * np.maximum(grows, 0) * enough)  # 2 g √n
    needed = np.divide(root, 2 * grows, out=np.full(grows.shape, np.inf), where=grows > 0).min(axis=0) ** 2
    return float(np.delete(needed, best).max())
