"""The pictures of docs/policies: where each policy does well, and where not.

Policies without attributes play twice: on problems whose twenty players are alike (left, regret over time), and on the
same kind of problem whose last player is unlike the others (right, what that player loses). Those that share are told
that players differ by at most 0.05, which is wrong for the last player. Policies for attributes play on problems whose
attributes explain 90 % of how players differ (left) and nothing (right).

    python docs/pictures/policies.py            # writes docs/images/policies/*.png; a minute, more if kernels compile
    python docs/pictures/policies.py --quick    # few problems, nothing is written
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
from posse.figures.style import INK, LIGHT, PRINT, SOFT
from posse.simulation import Result

FOLDER = Path(__file__).parents[1] / "images" / "policies"
SPREAD = 0.05
POLICIES = (
    posse.PosseTS(),
    posse.RobustPosseTS(SPREAD, rounds=3000),
    posse.RobustAggTS(SPREAD),
    posse.RobustAggTSV(SPREAD),
    posse.RobustAgg(SPREAD),
    posse.HierTS(SPREAD / 12**0.5),
    posse.NaiveAgg(),
    posse.IndTSV(),
    posse.IndTS(),
    posse.IndUCB(),
    posse.BetaTS(),
    posse.KLUCB(),
    posse.KLUCBPlusPlus(),
    posse.IMED(),
    posse.BayesUCB(),
)
WITH_ATTRIBUTES = (posse.PosseTS(), posse.LinTS(), posse.TreeTS(), posse.IndTSV())
EXPLAINED = {0.9: posse.MixedTS(0.025, 0.076, prior_sd=0.12), 0.0: posse.MixedTS(0.08, 0.0, prior_sd=0.12)}
Losses = tuple[np.ndarray, dict[str, np.ndarray], dict[str, float]]


def name_of(policy: posse.Policy) -> str:
    """The policy's name without its constants."""
    return policy.name or type(policy).__name__


def file_of(policy: posse.Policy) -> str:
    """The name of a policy's page and picture, without its ending: `robustagg-ts` for RobustAggTS."""
    return type(policy).__module__.rpartition(".")[2].replace("_", "-")


def without_attributes(count: int) -> Losses:
    """Rounds, rewards lost a player over time where all are alike, and rewards lost by an odd one, by policy."""
    family = {"players": 20, "arms": 5, "spread": SPREAD, "count": count, "seed": 1}
    alike = posse.simulate(posse.generate.structured(**family), POLICIES, 3000, checkpoints=60)
    odd = posse.simulate(posse.generate.structured(**family, odd=1), POLICIES, 3000, checkpoints=1)
    return alike.checkpoints, a_player(alike), last_player(odd)


def with_attributes(count: int) -> Losses:
    """Rounds, rewards lost a player over time where attributes explain 90 %, and in the end where they explain none."""
    found = []
    for explained, mixed in EXPLAINED.items():
        family = {"attributes": {"region": 4, "device": 5, "channel": 3}, "spread": 0.277, "low": 0.3, "high": 0.7}
        problems = posse.generate.structured(**family, arms=5, explained=explained, count=count, seed=1)
        found.append(posse.simulate(problems, [*WITH_ATTRIBUTES, mixed], 1000, checkpoints=50))
    most, nothing = found
    return most.checkpoints, a_player(most), {name: lost[-1] for name, lost in a_player(nothing).items()}


def a_player(result: Result) -> dict[str, np.ndarray]:
    """Rewards lost a player at each checkpoint, the mean over problems, by policy."""
    lost = result.regret.mean(axis=(1, 2)) / result.problems[0].players
    return {name_of(policy): each for policy, each in zip(result.policies, lost, strict=True)}


def last_player(result: Result) -> dict[str, float]:
    """Rewards lost by the last player in the end, the mean over problems, by policy."""
    lost = result.player_regret[..., -1].mean(axis=(1, 2))
    return {name_of(policy): float(each) for policy, each in zip(result.policies, lost, strict=True)}


def draw(policy: posse.Policy, losses: Losses, titles: tuple[str, str]) -> Figure:
    """One policy in its own color among all others in gray."""
    rounds, over_time, at_the_end = losses
    with matplotlib.rc_context(PRINT):
        figure = canvas.new_figure(7.2, 2.7)
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _curves(left, policy, np.insert(rounds, 0, 0), over_time)
        _bars(right, policy, at_the_end)
        left.set_title(titles[0], fontsize=8.5)
        right.set_title(titles[1], fontsize=8.5)
        figure.tight_layout(w_pad=1.5)
        return figure


def _curves(axes: Axes, policy: posse.Policy, rounds: np.ndarray, over_time: dict[str, np.ndarray]) -> None:
    shown, reference = name_of(policy), posse.IndTSV if isinstance(policy, posse.PosseTS) else posse.PosseTS
    for name, lost in sorted(over_time.items(), key=lambda item: item[0] == shown):
        look = policy.look if name == shown else reference.look if name == reference.name else None
        style = {"color": LIGHT, "linewidth": 0.7} if look is None else {"color": look.color, "label": name}
        style |= {"linewidth": 2.2} if name == shown else {}
        axes.plot(rounds, np.insert(lost, 0, 0.0), gid=name, **style)
    axes.set(xlim=(0, rounds[-1]), ylim=(0, None), xlabel="round", ylabel="rewards lost a player")
    canvas.round_numbers(axes.xaxis, 4, whole=True)
    canvas.round_numbers(axes.yaxis, 4)
    canvas.label_ends(axes)


def _bars(axes: Axes, policy: posse.Policy, at_the_end: dict[str, float]) -> None:
    shown = name_of(policy)
    names = sorted(at_the_end, key=at_the_end.__getitem__, reverse=True)
    values = [at_the_end[name] for name in names]
    axes.barh(names, values, color=[policy.look.color if name == shown else LIGHT for name in names], height=0.72)
    axes.tick_params(axis="y", length=0, labelsize=6 if len(names) > 8 else 7.5)
    for label in axes.get_yticklabels():
        label.set(color=INK if label.get_text() == shown else SOFT)
        label.set_fontweight("bold" if label.get_text() == shown else "normal")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("rewards lost a player")
    canvas.round_numbers(axes.xaxis, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few problems, and nothing is written")
    quick = parser.parse_args().quick
    count = 4 if quick else 60
    plain, told = without_attributes(count), with_attributes(count)
    alike = ("All players alike", "What an odd player loses")
    known = ("Attributes explain 90 % of the differences", "Attributes explain nothing")
    drawn = [(policy, plain, alike) for policy in POLICIES]
    drawn += [(policy, told, known) for policy in (posse.LinTS(), posse.TreeTS(), EXPLAINED[0.9])]
    for policy, losses, titles in drawn:
        picture = canvas.to_bytes(draw(policy, losses, titles), "png")
        name = name_of(policy)
        shown = f"{name:<16}{losses[1][name][-1]:>8.1f} and {losses[2][name]:>8.1f}"
        if not quick:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / f"{file_of(policy)}.png").write_bytes(picture)
            shown += f"   {file_of(policy)}.png, {len(picture) / 1024:.0f} kB"
        print(shown)


if __name__ == "__main__":
    main()
