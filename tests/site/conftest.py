import sys
from pathlib import Path

sys.path += [
    str(Path(__file__).parents[1] / "service"),
    str(Path(__file__).parents[1]),
]  # its browser; what tests share
