"""The picture of the README: what sharing is worth, and what a better model of the noise is worth.

python docs/pictures/readme.py            # writes docs/images/regret.png; some seconds
python docs/pictures/readme.py --quick    # few problems, nothing is written
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import posse
from posse.figures import canvas
from posse.figures.style import PRINT, SOFT
from posse.simulation import Result

FILE = Path(__file__).parents[1] / "images" / "regret.png"
POLICIES = {
    posse.IndTS(): "alone: Ind-TS",
    posse.RobustAggTS(0.15): "sharing, told ε: RobustAgg-TS",
    posse.IndTSV(): "alone, learns the noise: Ind-TS-V",
    posse.PosseTS(): "sharing, told nothing: PosseTS",
}


def draw(result: Result) -> Figure:
    """Regret over rounds, the mean over problems and its 95 % interval, with a line for each policy."""
    rounds = np.insert(result.checkpoints, 0, 0)
    with matplotlib.rc_context(PRINT):
        figure = canvas.new_figure(7.2, 3.1)
        axes = figure.subplots()
        for (policy, label), regret in zip(POLICIES.items(), result.regret[:, :, 0], strict=True):
            lost = np.insert(regret, 0, 0.0, axis=1)
            mean, half = lost.mean(axis=0), 1.96 * lost.std(axis=0, ddof=1) / len(lost) ** 0.5
            axes.fill_between(rounds, mean - half, mean + half, color=policy.look.color, alpha=0.2, linewidth=0)
            axes.plot(rounds, mean, **canvas.curve_style(label, policy.look._replace(marker="")))
        axes.set(xlim=(0, rounds[-1]), ylim=(0, None), xlabel="round", ylabel="regret of all players")
        canvas.round_numbers(axes.xaxis, 5, whole=True)
        canvas.round_numbers(axes.yaxis, 5)
        canvas.label_ends(axes)
        first = result.problems[0]
        note = f"{len(result.problems)} problems, {first.players} players, {first.arms} arms; bands: 95 % intervals"
        figure.text(0.01, 0.015, note, color=SOFT, fontsize=7.5)
        figure.tight_layout(rect=(0, 0.04, 1, 1))
        return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few problems, and nothing is written")
    quick = parser.parse_args().quick
    problems = posse.generate.subpar(8, count=3 if quick else 30, seed=1)
    result = posse.simulate(problems, list(POLICIES), 1000 if quick else 50_000, checkpoints=60)
    print(result)
    picture = canvas.to_bytes(draw(result), "png")
    if not quick:
        FILE.write_bytes(picture)


if __name__ == "__main__":
    main()
