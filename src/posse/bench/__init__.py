"""The benchmark: what the simulator costs, as ratios that are measured side by side in one run.

Machines are shared and noisy, so no figure stands alone: each is taken beside a yardstick, piece by piece, and
every piece is repeated and its quietest repetition counts, for both.
"""

from posse.bench.gpu import GpuReport
from posse.bench.gpu import render as render_gpu
from posse.bench.gpu import run as run_gpu
from posse.bench.measure import Report, run
from posse.bench.table import render

__all__ = ["GpuReport", "Report", "render", "render_gpu", "run", "run_gpu"]
