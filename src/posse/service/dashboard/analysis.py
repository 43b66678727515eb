"""What takes longer than a page may: the diagnosis of ε, and what sharing has saved. Runs in a process of its own.

Started by `posse.service.dashboard.analyst`, it reads questions from standard input and writes answers to standard
output, a line of JSON each, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from posse.insight import diagnose
from posse.insight.planning.model import LEAST_DISPERSION, population_of
from posse.learner import Counts
from posse.learner.setup import Setup
from posse.policies.base import Policy
from posse.policies.ind_ts import IndTS
from posse.policies.ind_tsv import IndTSV
from posse.policies.ind_ucb import IndUCB
from posse.policies.posse_ts import PosseTS
from posse.schedule import Random
from posse.simulation import simulate
from posse.text import plain

ALONE = (IndTSV, IndTS, IndUCB)
PROBLEMS = 24
MOST_WORK = 30_000_000  # simulated (decision, arm) pairs: some seconds
FEWEST_REWARDS = 50
LEVEL = 0.9


def diagnosis(question: dict[str, Any]) -> dict[str, Any]:
    """The verdict, the alarm, and for each arm how far players differ."""
    found = diagnose(_counts(question))
    said = found.to_dict()
    wanted = ("alarm", "broken", "bound", "bounds", "pairs", "epsilon", "level", "spread", "arms")
    return {**{name: said[name] for name in wanted}, "rewards": found.pulls.sum(axis=0).tolist()}


def savings(question: dict[str, Any]) -> dict[str, Any] | None:
    """How much more reward than learning alone, by simulation; None where there is too little to go by.

    Means are drawn from what the data leaves possible (`insight.planning.model`). With each draw, the running
    policy and Ind-TS-V, which learns alone, decide as often as was really decided; the difference of their regrets is
    what sharing saved if the draw is the truth. For a policy that learns alone, it is what PosseTS would have saved.
    """
    counts, setup = _counts(question), Setup.from_dict(question["setup"])
    decided = np.array(question["chosen"], np.int64)
    offered = np.array(question["offered"], bool)
    acting = decided.sum(axis=1) > 0
    if acting.sum() < 2 or offered.sum() < 2 or counts.pulls[:, offered].sum() < FEWEST_REWARDS:
        return None
    # Arms that are no longer offered, and players that never acted, would take part in the simulation otherwise.
    pulls, sums = (table[np.ix_(acting, offered)] for table in (counts.pulls, counts.sums))
    squares = np.array(question["squares"], float)[np.ix_(acting, offered)]
    some = Counts(
        tuple(map(str, range(len(pulls)))), tuple(map(str, range(pulls.shape[1]))), pulls, sums, counts.low, counts.high
    )
    policy: Policy = setup.policy.for_rewards(setup.low, setup.high)
    alone = isinstance(policy, ALONE)
    pair: list[Policy] = [PosseTS(), policy] if alone else [policy, IndTSV()]
    traffic = decided[acting].sum(axis=1)
    rounds, work = int(traffic.max()), int(traffic.sum()) * pulls.shape[1] * 2
    problems = max(6, min(PROBLEMS, MOST_WORK // work))
    part = min(1.0, MOST_WORK / (work * problems))  # of a very long run, its beginning
    result = simulate(
        population_of(some, _dispersion(some, squares)).problems(count=problems, seed=0),
        pair,
        max(1, round(rounds * part)),
        schedule=Random((traffic / rounds).tolist()),
        checkpoints=1,
        threads=1,
        anytime=setup.horizon is None,
    )
    unit = setup.high - setup.low
    saved = unit * (result.final_regret[1] - result.final_regret[0]).mean(axis=-1)
    low, middle, high = np.quantile(saved, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
    return {
        "alone": alone,
        "low": float(low),
        "middle": float(middle),
        "high": float(high),
        "regrets": [unit * float(regret) for regret in result.final_regret.mean(axis=(1, 2))],
        "decisions": round(int(traffic.sum()) * part),
        "problems": problems,
        "part": part,
        "policies": [policy.label for policy in pair],
    }


def _counts(question: dict[str, Any]) -> Counts:
    given = question["counts"]
    return Counts(
        tuple(given["players"]),
        tuple(given["arms"]),
        np.array(given["pulls"], np.int64),
        np.array(given["sums"], np.float64),
        given["low"],
        given["high"],
        given["epsilon"],
    )


def _dispersion(counts: Counts, squares: np.ndarray) -> float:
    """The rewards' variance within (player, arm) as a share of mean · (1 − mean); 1 for rewards of 0 and 1."""
    unit = counts.high - counts.low
    pulls, sums = counts.pulls, (counts.sums - counts.low * counts.pulls) / unit
    within = np.divide(sums**2, pulls, out=np.zeros(sums.shape), where=pulls > 0)
    greatest = float((sums - within).sum())
    return min(1.0, max(float((squares - within).sum()) / greatest, LEAST_DISPERSION)) if greatest > 0 else 1.0


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {"diagnosis": diagnosis, "savings": savings}


def main() -> None:
    """Answer questions until there are no more; one thread for each kind, so that the quick do not wait."""
    with contextlib.suppress(OSError):
        os.nice(10)  # decisions come first
    writing = threading.Lock()

    def answer(question: dict[str, Any]) -> None:
        try:
            reply = {"answer": plain(KINDS[question["kind"]](question))}
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            reply = {"error": str(error)}
        with writing:
            print(json.dumps({"id": question["id"], **reply}), flush=True)

    pools = {kind: ThreadPoolExecutor(1) for kind in KINDS}
    for line in sys.stdin:
        question = json.loads(line)
        pools[question["kind"]].submit(answer, question)
    os._exit(0)  # nobody waits for what is still being worked out


if __name__ == "__main__":
    main()
