"""The benchmark: what the simulator, the learner, a GPU and the service cost, each measured beside a yardstick.

Machines are shared and noisy, so no figure stands alone: it is measured beside a yardstick, piece by piece. Every piece
is repeated, and its quietest repetition counts, for both.
"""

from posse.bench import gpu, simulator, table

__all__ = ["gpu", "simulator", "table"]
