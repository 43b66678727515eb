"""RobustPosseTS: PosseTS with a regret bound, for players that differ by at most a stated ε."""

import math
from dataclasses import dataclass

from posse.checks import dissimilarity, number
from posse.policies.base import Look, Policy, Refresh
from posse.policies.guarantee import cutoff_of, guarded
from posse.policies.likeness import (
    CENTER,
    DISPERSION,
    DOUBT,
    GROUPS,
    LEVEL,
    LEVEL_DOUBT,
    LOOSENESS,
    NOISE,
    ODD,
    OWN,
    SHARE,
)
from posse.policies.posse_ts import PosseTS
from posse.policies.statistics import STEP

COUNT, SUM = len(PosseTS.shared), len(PosseTS.shared) + 1  # everybody's, of an arm
CUTOFF = len(PosseTS.of_player)  # the cutoff of `guarded`

model_summary, model_index = PosseTS.summary, PosseTS.index


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
    refresh = Refresh.SCHEDULE
    work_tables, work_rows = PosseTS.work_tables, PosseTS.work_rows
    moved_by_others = PosseTS.moved_by_others
    others_weight = staticmethod(PosseTS.others_weight)
    belief = staticmethod(PosseTS.belief)
    reward_of = staticmethod(PosseTS.reward_of)

    @staticmethod
    def summary(n, s, q, of_arm, of_player, work, epsilon, rounds):
        model_summary(n, s, q, of_arm, of_player, work)
        arms, players = n.shape
        for arm in range(arms):
            N, S = 0, 0
            for player in range(players):
                N += n[arm, player]
                S += s[arm, player]
            of_arm[arm, COUNT], of_arm[arm, SUM] = N * 1.0, S * STEP
        log_T = math.log(rounds)
        for player in range(players):
            best = -math.inf
            for arm in range(arms):
                own, total = n[arm, player] * 1.0, s[arm, player] * STEP
                of, by = of_arm[arm], of_player[player]
                center, _ = model_index(
                    own,
                    total,
                    of[DISPERSION],
                    of[OWN],
                    of[LOOSENESS],
                    of[CENTER : CENTER + GROUPS],
                    of[DOUBT : DOUBT + GROUPS],
                    by[NOISE],
                    by[ODD],
                    by[LEVEL],
                    by[LEVEL_DOUBT],
                    by[SHARE : SHARE + GROUPS],
                    players,
                    log_T,
                    epsilon,
                )
                if center > best:
                    best = center
                    of_player[player, CUTOFF] = cutoff_of(
                        own, total, of_arm[arm, COUNT], of_arm[arm, SUM], players, epsilon, rounds
                    )

    @staticmethod
    def index(
        n,
        s,
        dispersion,
        own,
        looseness,
        centers,
        doubts,
        noise,
        odd,
        level,
        level_doubt,
        shares,
        M,
        log_T,
        N,
        S,
        cutoff,
        epsilon,
        rounds,
    ):
        center, scale = model_index(
            n, s, dispersion, own, looseness, centers, doubts, noise, odd, level, level_doubt, shares, M, log_T, epsilon
        )
        return guarded(center, scale, n, s, N, S, M, cutoff, epsilon, rounds)

    def check(self) -> None:
        dissimilarity(self.epsilon)
        number("rounds", self.rounds, least=3)
