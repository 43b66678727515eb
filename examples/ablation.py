"""What each part of PosseTS is worth: the policy with one part left out at a time, on families of the battery.

python examples/ablation.py            # ten minutes on two cores, a third of it compilation
python examples/ablation.py --quick    # one part and one family, small
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import posse
from posse.experiments.spec.shipped_specs import battery_spec
from posse.policies.posse_ts import PosseTS

FAMILIES = [
    *("paper-8", "paper-2", "uniform", "few-rounds", "shifted", "reversed", "one-odd", "favourites", "groups", "mixed"),
    *("nothing-shared-2-arms", "beta-low-variance", "low-rates"),
]


def nothing(of_arm, of_player, means, shares):
    """Levels stay 0 and oddities 1."""


def no_sums(n, s, q):
    """Dispersion stays 1, as for rewards of 0 and 1."""
    return 0.0, 0.0


def fixed(excess, information, pooled, cap, margin):
    """The spread of players whose means are uniform within 0.15."""
    return 0.15 * 0.15 / 12.0


def not_its_own(excess, information, pooled, cap, margin):
    """All arms have the pooled spread."""
    return min(max(pooled, 1e-8), cap)


def no_error(information):
    """The estimate itself, no margin above it."""
    return 0.0


def no_insurance(rounds):
    return 0.0


def all_of_it(center, scale, seen, information, log_T):
    """Drawn from the whole posterior, as in Thompson sampling."""
    return center, scale


def plain_normal(m, at_most, variance):
    """A normal on the scale of rewards."""
    return m, math.sqrt(variance)


LEFT_OUT: dict[str, dict[str, Any]] = {
    "dispersion": {"dispersion_sums": no_sums},
    "estimated spread": {"blended": fixed, "oddities": nothing},
    "arms' own spreads": {"blended": not_its_own},
    "margin above the spread": {"standard_error": no_error},
    "insurance in long runs": {"insurance": no_insurance},
    "levels": {"levels": nothing},
    "oddities": {"oddities": nothing},
    "bonus for chance": {"upper_part": all_of_it},
    "fourth roots": {"on_fourth_roots": plain_normal},
}


def replaced(function: Any, others: dict[str, Any]) -> Any:
    """A function of posse's policies in which others stand for those that it, or one that it calls, names."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        found = scope.get(name)
        if name in others:
            scope[name] = others[name]
        elif isinstance(found, FunctionType) and found.__module__.startswith("posse.policies"):
            scope[name] = replaced(found, others)
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)


def without(part: str) -> posse.Policy:
    """PosseTS without a part."""
    functions = {name: staticmethod(replaced(getattr(PosseTS, name), LEFT_OUT[part])) for name in ("summary", "index")}
    return dataclass(frozen=True)(type("PosseTSWithout", (PosseTS,), functions))(label=part)


def main(count: int, longest: int, parts: int, families: list[str]) -> None:
    spec = battery_spec(families=families)
    policies = [PosseTS(), posse.IndTSV(label="sharing"), *map(without, list(LEFT_OUT)[:parts])]
    rows: list[list[str]] = [[policy.label] for policy in policies]
    for study in spec.studies:
        problems = study.problems[0].part(0, count).make(0)
        result = posse.simulate(problems, policies, min(study.horizons[0], longest), replications=3, checkpoints=1)
        regret, lock_ins = result.final_regret.mean(axis=(1, 2)), result.lock_ins().sum(axis=(1, 2))
        for row, mean, locked in zip(rows, regret, lock_ins, strict=True):
            row.append(f"{mean if row is rows[0] else mean / regret[0]:.{0 if row is rows[0] else 2}f} ({locked})")
        print(study.name, "done", flush=True)
    print("| without | " + " | ".join(families) + " |")
    print("| --- |" + " --- |" * len(families))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller")
    main(*((2, 300, 1, FAMILIES[:1]) if parser.parse_args().quick else (34, 10**6, len(LEFT_OUT), FAMILIES)))
