"""Contexts: a shop whose visitors have a region, a device and an age: what is it worth to tell a policy?

A player is a combination of the three, 60 in all, and chooses among five offers. The attributes explain 90 % of how
combinations differ; the rest is a combination's own. PosseTS is told the attributes or not, LinTS and TreeTS are told,
and Ind-TS-V learns for each combination alone. Left, everybody's regret; right, that of the first 50 decisions of a
combination that joins after 400 rounds (`schedule.Late`).

    python examples/studies/contexts.py --figure docs/images/contexts.png    # under a minute
    python examples/studies/contexts.py --quick                              # seconds, rougher
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import posse
from posse.figures import canvas
from posse.figures.policy_looks import variant
from posse.figures.style import PRINT, SOFT

EXPLAINED, FIRST = 0.9, 50  # the share that attributes explain; how many decisions of the new combination
TOLD, NOT_TOLD, ALONE = "PosseTS, told", "PosseTS, not told", "segments alone"
POLICIES = {NOT_TOLD: posse.PosseTS(), ALONE: posse.IndTSV()}
POLICIES |= {"LinTS": posse.LinTS(), "TreeTS": posse.TreeTS(), TOLD: posse.PosseTS()}
LOOKS = {label: policy.look for label, policy in POLICIES.items()} | {NOT_TOLD: variant(posse.PosseTS.look, 1)}


def shops(count: int, seed: int) -> list[posse.Problem]:
    attributes = {"region": 5, "device": 3, "age": [25, 35, 50]}
    wanted = {"arms": 5, "low": 0.2, "high": 0.5, "spread": 0.277, "explained": EXPLAINED}
    return posse.generate.structured(count=count, seed=seed, attributes=attributes, **wanted)


def regret_of_all(problems: list[posse.Problem], horizon: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The rounds, and the regret of all players together after each, [problem, round], by policy."""
    found = {}
    for label, policy in POLICIES.items():
        told = [problem.without_attributes() for problem in problems] if label == NOT_TOLD else problems
        result = posse.simulate(told, policy, horizon, checkpoints=50)
        found[label] = result.regret[0, :, 0]
    return result.checkpoints, found


def regret_of_new_combination(problems: list[posse.Problem], before: int) -> dict[str, np.ndarray]:
    """The regret of the last player, which joins after so many rounds, [problem, decision of its own], by policy."""
    late, found = posse.schedule.Late(before / (before + FIRST)), {}
    for label in (ALONE, NOT_TOLD, TOLD):
        runs = []
        for problem in problems:
            told = problem.without_attributes() if label == NOT_TOLD else problem
            run = posse.simulation.trace(told, POLICIES[label], before + FIRST, schedule=late)
            runs.append(problem.gaps[-1][run.arms[before:, -1]].cumsum())
        found[label] = np.array(runs)
    return found


def ratio(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The mean of a over that of b, which are paired, and half of its 95 % interval."""
    estimate = a.mean() / b.mean()
    return estimate, 1.96 * (a - estimate * b).std(ddof=1) / (len(a) ** 0.5 * b.mean())


def draw_curves(axes: Axes, x: np.ndarray, found: dict[str, np.ndarray]) -> None:
    """A line for each policy's mean over problems, and the mean's 95 % interval around it."""
    x = np.insert(x, 0, 0)
    for label, after in found.items():
        regret = np.insert(after, 0, 0.0, axis=1)  # nothing is lost before the first decision
        mean, half = regret.mean(axis=0), 1.96 * regret.std(axis=0, ddof=1) / len(regret) ** 0.5
        axes.fill_between(x, mean - half, mean + half, color=LOOKS[label].color, alpha=0.18, linewidth=0)
        axes.plot(x, mean, **canvas.curve_style(label, LOOKS[label]._replace(marker="")))
    axes.set_xlim(0, x[-1])
    axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
    canvas.round_numbers(axes.xaxis, 5, whole=True)
    canvas.round_numbers(axes.yaxis, 5)
    canvas.label_ends(axes)


def figure_of(rounds: np.ndarray, everybody: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> Figure:
    with matplotlib.rc_context(PRINT):
        figure = canvas.new_figure(9.6, 3.6)
        left, right = figure.subplots(1, 2)
        draw_curves(left, rounds, everybody)
        left.set(title="Everybody: 60 combinations of attributes", xlabel="round", ylabel="rewards lost")
        draw_curves(right, np.arange(1, FIRST + 1), new)
        right.set(
            title="A combination that nobody has seen before", xlabel="decisions of its own", ylabel="rewards lost"
        )
        count, many = len(everybody[TOLD]), len(new[TOLD])
        note = f"Rewards lost: regret. Means over {count} problems (left) and {many} (right); bands: 95 % intervals."
        figure.text(0.01, 0.015, note, color=SOFT, fontsize=7.5)
        figure.tight_layout(w_pad=2.0, rect=(0, 0.04, 1, 1))
        return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    parser.add_argument("--figure", type=Path, help="the file for the picture, .png or .svg")
    options = parser.parse_args()
    count, many, horizon, before = (3, 4, 100, 50) if options.quick else (30, 200, 1000, 400)
    rounds, everybody = regret_of_all(shops(count, 1), horizon)
    print(f"regret of all after {horizon:,} rounds, mean of {count} problems ± 95 %, and relative to {NOT_TOLD}")
    for label, regret in sorted(everybody.items(), key=lambda each: each[1][:, -1].mean()):
        half = 1.96 * regret[:, -1].std(ddof=1) / count**0.5
        relative = "{:.2f} ± {:.2f}".format(*ratio(regret[:, -1], everybody[NOT_TOLD][:, -1]))
        print(f"{label:<18}{regret[:, -1].mean():>7,.0f} ± {half:<5,.0f}{relative:>14}")
    new = regret_of_new_combination(shops(many, 2), before)
    print(f"regret of a new combination, mean of {many} problems, after 10, 20 and {FIRST} decisions of its own")
    for label, regret in new.items():
        print(f"{label:<18}" + "".join(f"{regret[:, shown - 1].mean():>7.2f}" for shown in (10, 20, FIRST)))
    told = "{:.2f} ± {:.2f}".format(*ratio(new[TOLD][:, -1], new[NOT_TOLD][:, -1]))
    print(f"cold start, {EXPLAINED:.0%} explained: told / not told = {told}")
    figure = figure_of(rounds, everybody, new)
    if options.figure is not None:
        options.figure.write_bytes(canvas.to_bytes(figure, options.figure.suffix[1:]))


if __name__ == "__main__":
    main()
