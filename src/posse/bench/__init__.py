"""The benchmark: what the simulator, the learner, a GPU and the service cost, each measured beside a yardstick.

Machines are shared and noisy, so every measurement is compared with a yardstick from the same run. Both are measured in
short pieces that take turns. Each piece is repeated, and its fastest repetition counts.
"""

from posse.bench import gpu, simulator

__all__ = ["gpu", "simulator"]
