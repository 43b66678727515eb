"""RobustAgg-TS-V: RobustAgg-TS with every posterior refreshed after every round."""

from dataclasses import dataclass

from posse.policies.base import Look, Refresh
from posse.policies.robustagg_ts import RobustAggTS, individual_or_aggregate


@dataclass(frozen=True)
class RobustAggTSV(RobustAggTS):
    """RobustAgg-TS whose aggregate posteriors follow everybody's data at once, pulled by the player or not.

    Wang, Zhang and Chaudhuri (2022), the variant of the appendix. An arm that nobody has pulled has center 0 + ε.

    >>> RobustAggTSV(0.15).index(0.0, 0.0, 30.0, 21.0, 20, 10.8, 0.15, 0.5, 1.0)
    (0.85, 0.31622776601683794)
    """

    name = "RobustAgg-TS-V"
    look = Look("#CC79A7", (0, (3, 1, 1, 1, 1, 1)), "D", "xxxx")
    refresh = Refresh.ANY_PULL

    @staticmethod
    def index(n, s, N, S, M, log_T, epsilon, c1, c2):
        return individual_or_aggregate(n, s, N, S, M, log_T, epsilon, c1, c2)
