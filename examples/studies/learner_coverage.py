"""How often intervals of differences between arms hold in logs of learners, and how wide they are: by simulation.

python examples/studies/learner_coverage.py --runs 100              # a few minutes
python examples/studies/learner_coverage.py --runs 20 --only PosseTS

Each line is a policy in a setting. For `posse evaluate` and then for `posse diagnose` it has the coverage of 95 %
intervals and their mean half-width, overall and by player. *weighted* is how many of evaluate's intervals, overall and
by player, come from weighted rows; the others come from betting.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pyarrow

import posse
from posse.insight import diagnose, evaluate

SETTINGS = {
    "1 player, 0.5 and 0.55": (np.array([[0.5, 0.55]]), 400),
    "2 players, 0.1 and 0.25 apart": (np.array([[0.5, 0.6], [0.45, 0.7]]), 300),
    "3 players, both 0.5": (np.full((3, 2), 0.5), 300),
    "5 players, 0.7, 0.5 and 0.3": (
        np.add([0.7, 0.5, 0.3], 0.05 * np.array([[1, -1, 0], [-1, 1, 1], [0, 0, -1], [1, 1, 1], [-1, -1, 0]])),
        400,
    ),
    "5 players, 5 and 8 %": (
        np.array([[0.05, 0.09], [0.06, 0.07], [0.04, 0.08], [0.07, 0.10], [0.05, 0.08]]),
        500,
    ),
    "3 players, 1 and 2 %": (np.array([[0.01, 0.02, 0.015], [0.012, 0.02, 0.02], [0.01, 0.01, 0.01]]), 1000),
    "40 players, 60 decisions each": (np.array([0.4, 0.55]) + np.linspace(-0.1, 0.1, 40)[:, None] * [1, -1], 60),
}
POLICIES = posse.IndTS(), posse.RobustAggTS(0.1), posse.PosseTS()


def learner_log(means: np.ndarray, rounds: int, policy: posse.Policy, floor: float, seed: int) -> pyarrow.Table:
    """The log of a learner whose players all act in every round; rewards are 0 or 1 with these means, [player, arm]."""
    players, arms = (
        [f"{kind}{number}" for number in range(size)] for kind, size in zip("pa", means.shape, strict=True)
    )
    learner = posse.Learner(policy, arms, players, seed=seed, floor=floor)
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        drawn = random.random(len(players))
        made = enumerate(learner.choose(players))
        learner.observe({each.id: float(drawn[p] < means[p, arms.index(each.arm)]) for p, each in made})
    return learner.log()


def intervals(log: pyarrow.Table, means: np.ndarray) -> Iterator[tuple[str, bool, float, bool]]:
    """Which command and what about, whether the interval holds, its half-width, and whether rows were weighted."""
    apart = means - means[:, :1]
    evaluation = evaluate(log, [f"a{arm}" for arm in range(1, means.shape[1])], against="a0")
    for each in evaluation.estimates:
        arm, found = int(each.target[1:]), each.difference
        assert found is not None
        true = apart[:, arm].mean() if each.player is None else apart[int(each.player[1:]), arm]
        what = "evaluate overall" if each.player is None else "evaluate by player"
        yield what, found.low <= true <= found.high, (found.high - found.low) / 2, found.kind == "weighted"
    diagnosis = diagnose(log)
    first, second = diagnosis.compared
    if len(means) > 1:
        true_effects = means[:, first] - means[:, second]
        for player, true in enumerate(true_effects):
            _, low, high = diagnosis.effects.at(player)
            yield "diagnose by player", low <= true <= high, (high - low) / 2, False
        _, low, high = diagnosis.effect
        yield "diagnose overall", low <= true_effects.mean() <= high, (high - low) / 2, False


def line(setting: str, policy: posse.Policy, floor: float, runs: int) -> str:
    """A line of the table. Logs in which some player never played some arm are left out: they judge nothing."""
    means, rounds = SETTINGS[setting]
    found: dict[str, list[tuple[bool, float, bool]]] = {}
    for seed in range(runs):
        try:
            for what, *rest in intervals(learner_log(means, rounds, policy, floor, seed), means):
                found.setdefault(what, []).append((rest[0], rest[1], rest[2]))
        except ValueError as error:
            if "no overlap" not in str(error):
                raise
    cells = [setting, policy.label, f"{floor:g}"]
    for what in ("evaluate overall", "evaluate by player", "diagnose overall", "diagnose by player"):
        rows = np.array(found.get(what, []), float).reshape(-1, 3)
        holds, half, weighted = rows.mean(axis=0) if rows.size else (np.nan,) * 3
        cells += [f"{holds:.3f}", f"{half:.3f}"] + ([f"{weighted:.2f}"] if what.startswith("evaluate") else [])
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="logs for each line (default: 100)")
    parser.add_argument("--only", default="", help="only lines whose setting or policy contains this")
    parser.add_argument("--quick", action="store_true", help="two logs of the first settings, to see that it works")
    options = parser.parse_args()
    kinds = ("evaluate overall", "half", "weighted", "by player", "half", "weighted")
    kinds += ("diagnose overall", "half", "by player", "half")
    print(f"| setting | policy | floor | {' | '.join(kinds)} |\n|{' --- |' * 13}")
    for setting in list(SETTINGS)[: 2 if options.quick else None]:
        for policy in POLICIES:
            for floor in (0.0, 0.05):
                if options.only in setting or options.only in policy.label:
                    print(line(setting, policy, floor, 2 if options.quick else options.runs), flush=True)


if __name__ == "__main__":
    main()
