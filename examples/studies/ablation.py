"""What each part of PosseTS is worth: the policy with one part left out at a time, on families of the battery.

python examples/studies/ablation.py                         # ten minutes on two cores
python examples/studies/ablation.py --runs 12 --rounds 3000 # small
python examples/studies/ablation.py --constants             # each constant 30 % smaller and larger, not parts left out
python examples/studies/ablation.py --quick                 # one part and one family
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import posse
from posse.experiments.spec.shipped_specs import battery_spec
from posse.policies.likeness.tables import LESS, LIKELIHOOD, WEIGHT, tie
from posse.policies.posse_ts import PosseTS

FAMILIES = (
    *("paper-8", "paper-2", "few-rounds", "shifted", "logit-levels-100-players", "reversed", "groups-2-of-30"),
    *("groups-40-and-10-and-10", "mixed", "one-arm-differs", "low-rates", "jackpots-5-players", "one-noisy"),
)


def nothing(*numbers):
    """Levels stay 0, and nobody is odd."""


def one_group(*numbers):
    return 1


def no_sums(n, s, q):
    """Dispersion stays 1, as for rewards of 0 and 1."""
    return 0.0, 0.0


def one_for_all(rows, arms, choices, lane):
    """All arms have the ρ that their likelihoods give together."""
    highest = -math.inf
    for choice in range(choices):
        rows[WEIGHT, choice] = 0.0
        for arm in range(arms):
            rows[WEIGHT, choice] += rows[LIKELIHOOD + choice, arm]  # logarithms, as `tie` takes them
        highest = max(highest, rows[WEIGHT, choice])
    for choice in range(choices):
        for arm in range(arms):
            rows[LIKELIHOOD + choice, arm] = math.exp(rows[WEIGHT, choice] - highest)


def most_likely(rows, arms, choices, lane):
    """An arm has the ρ of the strength that is most likely."""
    tie(rows, arms, choices, lane)
    for arm in range(arms):
        highest = 0.0
        for choice in range(choices):
            highest = max(highest, rows[LIKELIHOOD + choice, arm])
        for choice in range(choices):
            rows[LIKELIHOOD + choice, arm] = 1.0 if rows[LIKELIHOOD + choice, arm] == highest else 0.0


def all_of_it(center, scale, seen, information, log_T):
    """Drawn from the whole posterior, as in Thompson sampling."""
    return center, scale


def plain_normal(m, at_most, variance):
    """A normal on the scale of rewards."""
    return m, math.sqrt(variance)


LEFT_OUT: dict[str, dict[str, Any]] = {
    "dispersion": {"dispersion_sums": no_sums},
    "levels": {"levels": nothing},
    "groups": {"find_groups": one_group},
    "odd players": {"odd_players": nothing},
    "arms' own ρ": {"tie": one_for_all},
    "averaging over strengths": {"tie": most_likely},
    "bonus for chance": {"explore": all_of_it},
    "fourth roots": {"on_fourth_roots": plain_normal},
}


def constants() -> dict[str, dict[Any, Any]]:
    """Each constant by 0.7 and by 1.3: by name, or if it stands in the text of a function, by function and value."""
    named = {"WORTH": 1.5, "RARE": 10.0, "COUNTS_HALF": 0.2, "TOO_LARGE": 2.0, "BONUS": 0.6, "CHANCE": 0.3}
    written = {"first ρ": ("begin", 0.04), "part of ρ beside groups": ("find_groups", 0.5)}
    found: dict[str, dict[Any, Any]] = {}
    for times in (0.7, 1.3):
        found |= {f"{name} × {times}": {name: value * times} for name, value in named.items()}
        found |= {f"{name} × {times}": {place: place[1] * times} for name, place in written.items()}
        found[f"exp LESS × {times}"] = {"LESS": LESS + math.log(times)}
    return dict(sorted(found.items()))


def replaced(function: Any, others: dict[Any, Any]) -> Any:
    """A function of posse's policies in which others stand for what it, or one that it calls, names.

    `others` has functions and constants by name, and constants in the text of a function by (function, value).
    """
    scope, code = dict(function.__globals__), function.__code__
    for name in code.co_names:
        found = scope.get(name)
        if name in others:
            scope[name] = others[name]
        elif isinstance(found, FunctionType) and found.__module__.startswith("posse.policies"):
            scope[name] = replaced(found, others)
    made = FunctionType(_rewritten(code, others), scope, function.__name__, function.__defaults__)
    made.__dict__.update(function.__dict__)
    return made


def _rewritten(code: CodeType, others: dict[Any, Any]) -> CodeType:
    return code.replace(co_consts=tuple(others.get((code.co_name, value), value) for value in code.co_consts))


def changed(label: str, others: dict[Any, Any]) -> posse.Policy:
    """PosseTS in which others stand for functions or constants."""
    functions = {name: staticmethod(replaced(getattr(PosseTS, name), others)) for name in ("summary", "index")}
    return dataclass(frozen=True)(type("PosseTSChanged", (PosseTS,), functions))(label=label)


def main(runs: int, rounds: int, policies: Sequence[posse.Policy], families: Sequence[str]) -> None:
    rows: list[list[str]] = [[policy.label] for policy in policies]
    for study in battery_spec(families=families).studies:
        problems = study.problems[0].part(0, min(runs, study.problems[0].count)).make(0)
        again = -(-runs // len(problems))
        result = posse.simulate(problems, policies, min(study.horizons[0], rounds), replications=again, checkpoints=1)
        regret, lock_ins = result.final_regret.mean(axis=(1, 2)), result.lock_ins().sum(axis=(1, 2))
        for row, mean, locked in zip(rows, regret, lock_ins, strict=True):
            row.append(f"{mean if row is rows[0] else mean / regret[0]:.{0 if row is rows[0] else 2}f} ({locked})")
        print(study.name, "done", flush=True)
    print("| | " + " | ".join(families) + " |")
    print("| --- |" + " --- |" * len(families))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=102, help="runs for each family, over its problems (default 102)")
    parser.add_argument("--rounds", type=int, default=10**6, help="at most so many; the default is each family's own")
    parser.add_argument(
        "--constants", action="store_true", help="change constants by 30 %% instead of leaving out parts"
    )
    parser.add_argument("--quick", action="store_true", help="one part and one family, small")
    given = parser.parse_args()
    others = constants() if given.constants else LEFT_OUT
    if given.quick:
        main(2, 300, [PosseTS(), changed("levels", LEFT_OUT["levels"])], FAMILIES[:1])
    else:
        alone = [] if given.constants else [posse.IndTSV(label="sharing")]
        main(given.runs, given.rounds, [PosseTS(), *alone, *(changed(*each) for each in others.items())], FAMILIES)
