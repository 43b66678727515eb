"""RobustPosseTS: PosseTS with a regret bound, for players that differ by at most a stated ε."""

import math
from dataclasses import dataclass

from posse.checks import dissimilarity, number
from posse.compile import out_of_line
from posse.policies.base import Look, Policy, Refresh, several
from posse.policies.bound import barrier, by_team, dealt, dealt_to_teams, in_any_order, member
from posse.policies.fourth_root import explore, posterior
from posse.policies.guarantee import NO_BOUND, cutoff_of, guarded, sharp_bound
from posse.policies.posse_ts import EXPECTED, PAIR_DISPERSION, VARIANCE, PosseTS
from posse.policies.statistics import STEP

BOUND_FOR_EACH_POLICY = True

COUNT, SUM = len(PosseTS.shared), len(PosseTS.shared) + 1  # everybody's, of an arm
CUTOFF = len(PosseTS.of_player)  # the cutoff of `guarded`
BASIS, BASIS_TOO, FAVOUR, CENTER, SCALE, REACH = (len(PosseTS.of_pair) + place for place in range(6))  # see `form_pair`

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
    of_pair = (*PosseTS.of_pair, *several("basis", 2), "favour", "center", "scale", "reach")
    of_value = PosseTS.of_value
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
        new = model_summary(n, s, q, *known, work, log_T, lane, epsilon)
        arms, players = n.shape
        for arm in dealt_to_teams(lane, arms):
            N, S = 0, 0
            for first in by_team(lane, players):
                player = member(lane, first)
                N, S = in_any_order(N, n[arm, player], lane, first), in_any_order(S, s[arm, player], lane, first)
            of_arm[arm, COUNT], of_arm[arm, SUM] = N * 1.0, S * STEP
        barrier(lane)
        log_rounds = math.log(rounds)
        for player in dealt(lane, players):
            for arm in range(arms):
                own, total = n[arm, player] * 1.0, s[arm, player] * STEP
                basis = basis_of(own, total, of_pair[EXPECTED][arm, player], log_T, players)
                if new or basis != (of_pair[BASIS][arm, player], of_pair[BASIS_TOO][arm, player]):
                    cutoff = of_player[player, CUTOFF]
                    form_pair(arm, player, own, total, of_pair, log_T, log_rounds, players, cutoff, epsilon, rounds)
            arm = favourite_of(player, of_pair)
            own, total = n[arm, player] * 1.0, s[arm, player] * STEP
            N, S = of_arm[arm, COUNT], of_arm[arm, SUM]
            of_player[player, CUTOFF] = cutoff_of(own, total, N, S, players, epsilon, rounds)

    @staticmethod
    def welcome(player, of_arm, of_player, of_pair, of_value, columns, weights, log_T, epsilon, rounds):
        model_welcome(player, of_arm, of_player, of_pair, of_value, columns, weights, epsilon)
        if of_player[player, CUTOFF] == 0.0:  # it has no data yet
            for arm in range(of_arm.shape[0]):
                form_pair(arm, player, 0.0, 0.0, of_pair, log_T, math.log(rounds), player + 1, 0.0, epsilon, rounds)
            arm = favourite_of(player, of_pair)
            N, S = of_arm[arm, COUNT], of_arm[arm, SUM]
            of_player[player, CUTOFF] = cutoff_of(0.0, 0.0, N, S, player + 1, epsilon, rounds)

    @staticmethod
    def index(
        n, s, expected, variance, dispersion, basis, center, scale, reach, N, S, cutoff, M, log_T, epsilon, rounds
    ):
        if basis_of(n, s, expected, log_T, M) != basis:
            center, scale = model_index(n, s, expected, variance, dispersion, log_T)
            reach = NO_BOUND
        return guarded(center, scale, n, s, N, S, M, cutoff, epsilon, rounds, reach)

    def check(self) -> None:
        dissimilarity(self.epsilon)
        number("rounds", self.rounds, least=3)


def basis_of(n, s, expected, log_T, M):
    """All that the remembered numbers of a pair rest on and that may change before the next summary, in two numbers.

    No part of a sum ever falls before then, so a sum that is the same has the same parts.
    """
    return n + (log_T + math.log(M)), s + expected


@out_of_line
def form_pair(arm, player, n, s, of_pair, log_T, log_rounds, M, cutoff, epsilon, rounds):
    """Form numbers of a pair that most summaries leave as they are.

    They are the center that makes an arm the model's favourite, center and scale of the index, and what the sharp bound
    of the player's own data does not exceed. That need not be exact if it is far enough below the cutoff.
    """
    expected, variance = of_pair[EXPECTED][arm, player], of_pair[VARIANCE][arm, player]
    dispersion = of_pair[PAIR_DISPERSION][arm, player]
    center, scale, seen, information = posterior(n, s, dispersion, expected, variance)
    of_pair[BASIS][arm, player], of_pair[BASIS_TOO][arm, player] = basis_of(n, s, expected, log_T, M)
    of_pair[FAVOUR][arm, player], _ = explore(center, scale, seen, information, log_rounds)
    of_pair[CENTER][arm, player], of_pair[SCALE][arm, player] = explore(center, scale, seen, information, log_T)
    middle = 0.5 * (s / max(n, 1.0) + cutoff)
    of_pair[REACH][arm, player] = sharp_bound(n, s, 0.0, 0.0, M, epsilon, rounds, middle)


def favourite_of(player, of_pair):
    """The arm that the model likes best."""
    best = 0
    for arm in range(of_pair[FAVOUR].shape[0]):
        best = arm if of_pair[FAVOUR][arm, player] > of_pair[FAVOUR][best, player] else best
    return best
