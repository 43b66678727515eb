"""The benchmark: what the simulator costs, as ratios that are measured side by side in one run.

Machines are shared and noisy, so no figure stands alone: each is taken beside a yardstick, piece by piece, and
every piece is repeated and its quietest repetition counts, for both.
"""

from posse.bench.measure import Report, run
from posse.bench.table import render

__all__ = ["Report", "render", "run"]
