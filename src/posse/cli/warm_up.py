"""posse warm-up: compile policies before they are needed."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from posse.cli import IMPORT, Commands, add_command
from posse.cli.policies import named_policies
from posse.text import plural

if TYPE_CHECKING:
    from posse.policies.base import Policy

PURPOSES = {"simulate": "simulations", "learner": "the learner and the service"}


def add(commands: Commands) -> None:
    parser = add_command(commands, _warm_up, "compile policies ahead, for example while an image is built", "warm-up")
    text = "this policy, such as IndTSV or Ind-TS-V, or all (may be repeated; default: PosseTS, the learner's default)"
    parser.add_argument("--policy", action="append", metavar="NAME", help=text)
    text = "only for simulations, or only for the learner and the service (default: for all of them)"
    parser.add_argument("--for", dest="purpose", choices=tuple(PURPOSES), help=text)
    parser.add_argument("--import", **IMPORT)


def _warm_up(options: argparse.Namespace) -> None:
    """Compile policies now and keep the result on disk, so that their first use elsewhere does not wait.

    `posse cache` shows where it is kept.
    """
    from posse.compile.cache import cache_use
    from posse.policies import all_policies
    from posse.testing import example

    names = options.policy or ["PosseTS"]
    algorithms = {name.partition("(")[0].strip() for name in names}
    public = [cls for cls in all_policies() if not cls.__name__.startswith("_")]
    known = [example(cls) for cls in public if "all" in names or algorithms & {cls.__name__, cls.name}]
    policies = known if "all" in names else named_policies(names, known)
    purposes = [options.purpose] if options.purpose else list(PURPOSES)
    steps = [(purpose, policy) for policy in policies for purpose in purposes]
    start = time.monotonic()
    for number, (purpose, policy) in enumerate(steps, 1):
        print(f"{number} of {len(steps)}: {type(policy).__name__} for {PURPOSES[purpose]}", flush=True)
        (_simulate if purpose == "simulate" else _learn)(policy)
    use = cache_use()
    kept = f"{plural(use.kernels, 'kernel')}, {use.bytes / 1e6:,.1f} MB, in {use.folder}"
    print(f"compiled in {time.monotonic() - start:.1f} s; the cache now has {kept}")


def _simulate(policy: Policy) -> None:
    from posse.problem import Problem
    from posse.simulation import simulate

    simulate(Problem([[0.5, 0.5]]), policy, 1, threads=1)


def _learn(policy: Policy) -> None:
    """Do once what needs a kernel of its own."""
    from posse.learner import Learner

    learner = Learner(policy, arms=["one", "other"], players=["somebody"])
    learner.observe(learner.choose("somebody").id, 1.0)
    learner.join("somebody else")
    learner.indices("somebody else")
    learner.shared_weights()
