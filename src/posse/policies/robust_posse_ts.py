"""RobustPosseTS: PosseTS with a regret bound, for players that differ by at most a stated ε."""

import math
from dataclasses import dataclass

from posse.checks import dissimilarity, number
from posse.policies.base import Look, Policy, Refresh
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, in_any_order, member
from posse.policies.guarantee import cutoff_of, guarded
from posse.policies.posse_ts import EXPECTED, PAIR_DISPERSION, VARIANCE, PosseTS
from posse.policies.statistics import STEP

BOUND_FOR_EACH_POLICY = True

COUNT, SUM = len(PosseTS.shared), len(PosseTS.shared) + 1  # everybody's, of an arm
CUTOFF = len(PosseTS.of_player)  # the cutoff of `guarded`

model_summary, model_index, model_welcome = PosseTS.summary, PosseTS.index, PosseTS.welcome


@dataclass(frozen=True)
class RobustPosseTS(Policy):
    """PosseTS, overruled where it might cost more regret than RobustAgg-TS's bound or Ind-UCB's allows.

    The bound holds for `rounds` rounds, whatever the model believes, if no two players differ by more than ε on any
    arm. An arm that may be better than the model's favourite, by the data and ε, is tried; an arm that is surely worse
    is not pulled. docs/theory.md has the theorem, its proof, and what it costs.

    >>> RobustPosseTS(0.1).label, RobustPosseTS(0.1, rounds=50_000).label
    ('RobustPosseTS(0.1)', 'RobustPosseTS(0.1, rounds=50000)')
    """

    epsilon: float
    rounds: float = 100_000.0

    name = "RobustPosseTS"
    look = Look("#A05BC8", (0, (4, 1)), "X", "xx")
    shared = (*PosseTS.shared, "N", "S")
    of_player = (*PosseTS.of_player, "cutoff")
    of_pair, of_value = PosseTS.of_pair, PosseTS.of_value
    refresh = Refresh.SCHEDULE
    work_tables, work_rows, work_columns = PosseTS.work_tables, PosseTS.work_rows, PosseTS.work_columns
    moved_by_others = PosseTS.moved_by_others
    others_weight = staticmethod(PosseTS.others_weight)
    belief = staticmethod(PosseTS.belief)
    reward_of = staticmethod(PosseTS.reward_of)

    @staticmethod
    def summary(
        n, s, q, of_arm, of_player, of_pair, of_value, columns, weights, part_of, work, log_T, lane, epsilon, rounds
    ):
        known = of_arm, of_player, of_pair, of_value, columns, weights, part_of
        model_summary(n, s, q, *known, work, log_T, lane, epsilon)
        arms, players = n.shape
        for arm in dealt_to_teams(lane, arms):
            N, S = 0, 0
            for first in by_team(lane, players):
                player = member(lane, first)
                N, S = in_any_order(N, n[arm, player], lane, first), in_any_order(S, s[arm, player], lane, first)
            of_arm[arm, COUNT], of_arm[arm, SUM] = N * 1.0, S * STEP
        barrier(lane)
        for player in dealt(lane, players):
            best = -math.inf
            for arm in range(arms):
                own, total = n[arm, player] * 1.0, s[arm, player] * STEP
                best = prefer(best, arm, player, own, total, of_arm, of_player, of_pair, players, epsilon, rounds)

    @staticmethod
    def welcome(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon, rounds):
        model_welcome(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon)
        if of_player[player, CUTOFF] == 0.0:  # it has no data yet
            best = -math.inf
            for arm in range(of_arm.shape[0]):
                best = prefer(best, arm, player, 0.0, 0.0, of_arm, of_player, of_pair, player + 1, epsilon, rounds)

    @staticmethod
    def index(n, s, expected, variance, dispersion, log_T, M, N, S, cutoff, epsilon, rounds):
        center, scale = model_index(n, s, expected, variance, dispersion, log_T)
        return guarded(center, scale, n, s, N, S, M, cutoff, epsilon, rounds)

    def check(self) -> None:
        dissimilarity(self.epsilon)
        number("rounds", self.rounds, least=3)


def prefer(best, arm, player, own, total, of_arm, of_player, of_pair, M, epsilon, rounds):
    """Let a player's cutoff be this arm's if the model's center is above the best so far; return the best."""
    expected, variance = of_pair[EXPECTED][arm, player], of_pair[VARIANCE][arm, player]
    dispersion = of_pair[PAIR_DISPERSION][arm, player]
    center, _ = model_index(own, total, expected, variance, dispersion, math.log(rounds))
    if center > best:
        of_player[player, CUTOFF] = cutoff_of(own, total, of_arm[arm, COUNT], of_arm[arm, SUM], M, epsilon, rounds)
    return max(center, best)
