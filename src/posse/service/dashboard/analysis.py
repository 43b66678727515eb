"""What takes longer than a page may: how far players differ, and what sharing has saved."""

import importlib
from typing import Any

import numpy as np

from posse.insight import Diagnosis, diagnose
from posse.insight.conclusion import text
from posse.insight.diagnosis.attributes import LEAST
from posse.insight.diagnosis.text import SIGNIFICANT
from posse.insight.hierarchy.data import PlayerData
from posse.insight.hierarchy.model import fit
from posse.insight.planning.planned_run import problems_of
from posse.learner import Counts
from posse.learner.setup import Setup
from posse.policies.base import Policy
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS
from posse.schedule import Random
from posse.service.dashboard.log_evidence import conclude_from
from posse.simulation import simulate
from posse.text import plain

PROBLEMS = 24
MOST_WORK = 30_000_000  # simulated (decision, arm) pairs: some seconds
FEWEST_REWARDS = 50
LEVEL = 0.9


def diagnosis(counts: Counts, notes: tuple[str, ...]) -> dict[str, Any]:
    """How players differ, the verdict on ε, and for each arm by how much they differ: certainly, and probably.

    The state is "alarm", "doubt" (ε is probably too small), "fine", or "free" (no ε was promised).
    """
    found = diagnose(PlayerData(counts, notes=notes))
    if not found.model.comparable:
        return {"state": "early"}
    spreads, epsilon = found.spreads, found.epsilon
    columns = found.arms, found.bounds, spreads.value, spreads.low, spreads.high, found.pairs
    names = "arm", "certain", "likely", "low", "high", "pair"
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    state = "free" if epsilon is None else "fine"
    if found.alarm:
        state = "alarm"
    elif epsilon is not None and epsilon < found.spread.low:
        state = "doubt"
    worst = max(rows, key=lambda row: float(row["certain"])) if found.bound > 0 else None
    differ = {
        "in_level": found.model.level_p < SIGNIFICANT,
        "in_effect": found.model.contrast_p < SIGNIFICANT,
        "at_all": found.differ,
        "p": found.model.difference_p,
    }
    verdict = {"state": state, "epsilon": epsilon, "likely": found.spread.value, "worst": worst, **differ}
    verdict |= {"explained": explained(found), "notes": found.notes}
    return dict(plain({**verdict, "rows": rows, "broken": found.broken}))


def conclusion(*given: Any) -> dict[str, Any]:
    """What `conclude` says of an experiment, as its page shows it."""
    found = conclude_from(*given)
    arms = [{**plain(arm), "place": place} for place, arm in enumerate(found.arms) if arm.offered]
    own = {player.name: player.winner for player in found.players if player.winner is not None}
    shown = {"state": "ready", "verdict": found.verdict, "arms": arms, "chances": found.best.chances}
    sentences = {"costs": text.costs(found), "cautions": text.cautions(found), "unreliable": text.unreliable(found)}
    return {**shown, **sentences, "winner": found.winner, "leader": found.leader, "winners": own}


def explained(found: Diagnosis) -> list[dict[str, Any]] | None:
    """How much each attribute explains of how players differ in what the arms do, most first, then what is their own.

    None if there are no attributes, or nothing to explain.
    """
    if found.shares is None or found.shares.contrasts is None:
        return None
    shares, names = found.shares.contrasts.interval(found.level), list(found.shares.values)
    if not (found.model.contrast_p < SIGNIFICANT or np.any(shares.low[:-1] >= LEAST)):
        return None
    order = [*np.argsort(-shares.value[:-1], kind="stable").tolist(), len(names)]
    return [{"name": [*names, ""][place], **shares.at(place)._asdict()} for place in order]


def savings(counts: Counts, chosen: np.ndarray, offered: np.ndarray, written: dict[str, Any]) -> dict[str, Any]:
    """How much more reward than learning alone, by simulation. Tables are [player, arm], `offered` is [arm].

    Means are drawn from what the data leaves possible (`insight.hierarchy`). With each draw, the running
    policy and Ind-TS-V, which learns alone, make as many decisions as were really made. The difference of their regrets
    is what sharing saved if the draw is the truth. For a policy that learns alone, it is what PosseTS would have saved.

    The state is "one arm" (nothing to choose), "early" (too little data), "alone" (they do not share), "more" or "less"
    (clearly), or "unclear".
    """
    importlib.import_module(written["policy"]["module"])  # a policy of the user's own may not be loaded here yet
    setup, acting = Setup.from_dict(written), chosen.sum(axis=1) > 0
    if offered.sum() < 2:
        return {"state": "one arm"}
    if acting.sum() < 2 or counts.pulls[:, offered].sum() < FEWEST_REWARDS:
        return {"state": "early"}
    # Otherwise retired arms, and players that never acted, would take part in the simulation.
    cells = np.ix_(acting, offered)
    pulls, sums, squares = counts.pulls[cells], counts.sums[cells], counts.squares
    players, arms = (tuple(map(str, range(length))) for length in pulls.shape)
    some = Counts(
        players, arms, pulls, sums, counts.low, counts.high, squares=None if squares is None else squares[cells]
    )
    policy: Policy = setup.policy.for_rewards(setup.low, setup.high)
    pair: list[Policy] = [policy, IndTSV()] if policy.shares else [PosseTS(), policy]
    traffic = chosen[acting].sum(axis=1)
    rounds, work = int(traffic.max()), int(traffic.sum()) * pulls.shape[1] * 2
    problems = max(6, min(PROBLEMS, MOST_WORK // work))
    part = min(1.0, MOST_WORK / (work * problems))  # only the beginning of a very long run is simulated
    result = simulate(
        problems_of(fit(some), some.low, problems, seed=0),
        pair,
        max(1, round(rounds * part)),
        schedule=Random((traffic / rounds).tolist()),
        checkpoints=1,
        threads=1,
        anytime=setup.horizon is None,
    )
    unit = setup.high - setup.low
    saved = unit * (result.final_regret[1] - result.final_regret[0]).mean(axis=-1)
    low, middle, high = np.quantile(saved, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)).tolist()
    state = "more" if low > 0 else "less" if high < 0 else "unclear"
    return {
        "state": state if policy.shares else "alone",
        "low": low,
        "middle": middle,
        "high": high,
        "regrets": [unit * float(regret) for regret in result.final_regret.mean(axis=(1, 2))],
        "decisions": round(int(traffic.sum()) * part),
        "problems": problems,
        "part": part,
        "policies": [str(policy.label) for policy in pair],
    }
