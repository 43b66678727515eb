"""TreeTS: a tree divides the players by their attributes, and each leaf is one learner."""

import math
from dataclasses import dataclass

from posse.checks import number
from posse.compile import out_of_line
from posse.policies.base import Look, Policy, Refresh
from posse.policies.fourth_root import UNIFORM, dispersion_sums, explore, mean_of, posterior
from posse.policies.linear_model import single_parts
from posse.policies.statistics import STEP

LEAF, TRIED = 0, 1  # rows of `work` with a place for each player; then three for each arm, of a node and of its part
NODE, PART = 2, 5
ROWS = 8
OTHERS, OTHERS_MEAN = 0, 1  # places in `of_pair`


@dataclass(frozen=True)
class TreeTS(Policy):
    """Thompson sampling for segments that are found in the data: the leaves of a tree over players' attributes.

    The tree is grown anew at each summary, from one leaf with all players. A leaf is split by one attribute: players
    with one value, or with a number up to some bin, against the others. A split saves N₁ N₂ / (N₁ + N₂) · (m₁ − m₂)² of
    an arm's squared error, with pulls N and means m of the two sides. Divided by the variance of the arm's rewards and
    added up over k arms, that is about χ² with k degrees of freedom if the two sides are alike. The split with the
    largest deviate z of the cube root of χ²/k (Wilson and Hilferty, 1931) is made if z is above `evidence`. An arm
    counts where both sides have N m (1−m) of at least `least`. Missing values never go with others.

    Each leaf is then a player of Ind-TS-V. Elmachtoub, McNellis, Oh and Petrik, "A practical method for solving
    contextual bandit problems using decision trees" (UAI 2017), sample trees from the bootstrap; here there is one
    tree, and chance comes from the posterior in its leaves. Personalization tools divide visitors in such a way.

    >>> TreeTS().label, TreeTS(evidence=4).label
    ('TreeTS', 'TreeTS(evidence=4)')
    """

    evidence: float = 2.0
    least: float = 2.0

    name = "TreeTS"
    look = Look("#4D4D4D", (0, (1, 1, 4, 1)), "8", "**")
    refresh = Refresh.SCHEDULE
    shared = ()
    of_player = ("dispersion",)
    of_pair = ("others", "others_mean")
    of_value = ("splits",)
    work_rows = ROWS
    moved_by_others = "others_mean"
    reward_of = staticmethod(mean_of)

    @staticmethod
    def others_weight():
        return 1.0

    @staticmethod
    def summary(n, s, q, of_player, of_pair, of_value, columns, weights, part_of, work, evidence, least):
        arms, players = n.shape
        for player in range(players):
            work[LEAF, player] = 0.0
        for arm in range(arms):
            for column in range(part_of.size):
                of_value[0][arm, column] = 0.0
        leaf, leaves = 0, 1
        while leaf < leaves:
            sum_up(work, NODE, n, s, q, leaf)
            part, like, best = find_split(n, s, q, columns, weights, work, leaf, least)
            if best > evidence:
                for player in range(players):
                    if work[LEAF, player] == leaf and goes_with(player, like, part, columns, weights):
                        work[LEAF, player] = leaves
                for arm in range(arms):
                    of_value[0][arm, columns[like, part]] += 1.0
                leaves += 1
            else:
                expect(work, n, s, of_player, of_pair, leaf)
                leaf += 1
        of_player[players, 0] = 1.0

    @staticmethod
    def index(n, s, others, others_mean, dispersion, log_T):
        total = s + others * others_mean
        center, scale, seen, information = posterior(n + others, total, dispersion, 0.5, UNIFORM)
        return explore(center, scale, seen, information, log_T)

    @staticmethod
    def belief(n, s, others, others_mean, dispersion):
        return posterior(n + others, s + others * others_mean, dispersion, 0.5, UNIFORM)[:2]

    def check(self) -> None:
        number("evidence", self.evidence, least=0)
        number("least", self.least, above=0)


def goes_with(player, like, part, columns, weights):
    """Whether a split that takes out those like one player takes out this one; of a number, those up to that one."""
    same = columns[player, part] == columns[like, part]
    return same and weights[player, part] <= weights[like, part]


def add(work, rows, n, s, q, player):
    """Add a player's counts, sums and sums of squares to three rows."""
    for arm in range(n.shape[0]):
        work[rows, arm] += n[arm, player]
        work[rows + 1, arm] += s[arm, player] * STEP
        work[rows + 2, arm] += q[arm, player] * STEP


def clear(work, rows, arms):
    """Set three rows to 0."""
    for arm in range(arms):
        work[rows, arm], work[rows + 1, arm], work[rows + 2, arm] = 0.0, 0.0, 0.0


def sum_up(work, rows, n, s, q, leaf):
    """The sums over a leaf's players."""
    clear(work, rows, n.shape[0])
    for player in range(n.shape[1]):
        if work[LEAF, player] == leaf:
            add(work, rows, n, s, q, player)


@out_of_line
def find_split(n, s, q, columns, weights, work, leaf, least):
    """The part and the player by which a leaf splits best, and the deviate of that; of equals the first."""
    arms, players = n.shape
    best, best_part, best_like = -math.inf, 0, 0
    for part in range(single_parts(columns.shape[1])):
        for player in range(players):
            work[TRIED, player] = 0.0 if work[LEAF, player] == leaf else 1.0
        for like in range(players):
            if work[TRIED, like] == 0.0:
                clear(work, PART, arms)
                for player in range(players):
                    if work[LEAF, player] == leaf and goes_with(player, like, part, columns, weights):
                        add(work, PART, n, s, q, player)
                        if weights[player, part] == weights[like, part]:
                            work[TRIED, player] = 1.0
                found = deviate(work, arms, least)
                if found > best + 1e-9:
                    best, best_part, best_like = found, part, like
    return best_part, best_like, best


def deviate(work, arms, least):
    """How unlike a part of a leaf is the rest, as a standard normal deviate; −∞ without enough data."""
    square, freedom = 0.0, 0
    for arm in range(arms):
        pulls, total, squares = work[NODE, arm], work[NODE + 1, arm], work[NODE + 2, arm]
        one = work[PART, arm]
        other = pulls - one
        if min(one, other) * total * (pulls - total) >= least * pulls * pulls and pulls > 0.0:
            away = work[PART + 1, arm] / one - (total - work[PART + 1, arm]) / other
            saved = one * other / pulls * away * away
            within = max(squares - total * total / pulls - saved, 0.0)
            square += saved * (pulls + 1.0) / (within + 0.25)
            freedom += 1
    if freedom == 0:
        return -math.inf
    spread = 2.0 / (9.0 * freedom)
    return ((square / freedom) ** (1.0 / 3.0) - 1.0 + spread) / math.sqrt(spread)


def expect(work, n, s, of_player, of_pair, leaf):
    """Fill what a leaf's players are told: the others' pulls and their mean, and the dispersion of rewards."""
    arms, players = n.shape
    noisiest = 0.0
    for arm in range(arms):
        above, below = dispersion_sums(work[NODE, arm], work[NODE + 1, arm], work[NODE + 2, arm])
        noisiest = max(noisiest, (1.0 + above) / (1.0 + below))
    for player in range(players):
        if work[LEAF, player] == leaf:
            of_player[player, 0] = min(noisiest, 1.0)
            for arm in range(arms):
                others = work[NODE, arm] - n[arm, player]
                mean = (work[NODE + 1, arm] - s[arm, player] * STEP) / others if others > 0.0 else 0.5
                of_pair[OTHERS][arm, player], of_pair[OTHERS_MEAN][arm, player] = others, mean
