"""Experiments to look at: snapshots made from a simulated learner, without a database."""

from __future__ import annotations

import pickle
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np

import posse
from posse.insight.conclusion.evidence import ConclusionEvidence
from posse.insight.logs import read_log
from posse.insight.watching.api import Watch, evidence_for, watch, watch_of
from posse.insight.watching.log_blocks import log_blocks
from posse.service.dashboard.history import RECENT, ChoiceHistory, Lateness, Traffic
from posse.service.dashboard.snapshots import Snapshot
from posse.service.storage.lifecycle import Life
from stores import Clock

SHOPS = ("Lyon", "Nice", "Lille", "Metz", "Brest", "Dijon", "Nantes", "Tours", "Reims", "Pau", "Caen", "Gare du Nord")
WINDOWS = ("plants", "blue", "books", "light", "music")


BEGIN = 1_760_000_000.0
Recent = namedtuple("Recent", [column.name for column in RECENT])


def learner_of_shops(
    decisions: int,
    policy: posse.Policy = posse.PosseTS(0.2),
    players: tuple[str, ...] = SHOPS,
    arms: tuple[str, ...] = WINDOWS,
    seed: int = 1,
    **more: object,
) -> tuple[posse.Learner, Clock]:
    """A learner after so many decisions, one in twenty of which still waits; the last shop is unlike the others."""
    clock, random = Clock(BEGIN), np.random.default_rng(seed)
    base = np.resize([0.28, 0.42, 0.40, 0.33, 0.25], len(arms))
    means = base + random.uniform(-0.04, 0.04, (len(players), len(arms)))
    means[-1] = np.resize([0.06, 0.08, 0.16, 0.05, 0.04], len(arms))
    learner = posse.Learner(policy, arms=arms, players=players, seed=seed, clock=clock, **more)  # type: ignore[arg-type]
    late: list[tuple[str, float]] = []
    for number in range(decisions):
        player = number % len(players)
        decision = learner.choose(players[player])
        clock.now += 0.05
        late.append((decision.id, float(random.random() < means[player, arms.index(decision.arm)])))
        if len(late) > 8 and random.random() > 0.02:
            learner.observe(*late.pop(0))
    return learner, clock


def snapshot_of(learner: posse.Learner, clock: Clock, name: str = "shop windows", status: str = "running") -> Snapshot:
    """What the dashboard would show of this learner."""
    log = learner.log().to_pylist()
    names = [tuple(name for name, _ in roster) for roster in (learner.state.player_roster, learner.state.arm_roster)]
    live = SimpleNamespace(name=name, id=0, head=b"", state=learner.state, life=Life(status))
    counted = read_log(learner).counts() if log else learner.counts()
    return Snapshot(
        live,
        clock.now,
        choices=_choices(log, *names),
        traffic=_traffic(log, clock.now),
        late=_lateness(log),
        recent=_recent(log, *names),
        watch=_watched(learner),
        counted=counted,
        notes=tuple(read_log(learner).left_out()) if log else (),
        evidence=_evidence(learner),
    )


def _evidence(learner: posse.Learner) -> bytes:
    evidence = ConclusionEvidence(len(learner.arms))
    if learner.state.decisions:
        evidence.add_answers(log_blocks(learner).answers)
    return pickle.dumps(evidence)


def _watched(learner: posse.Learner) -> Watch:
    if learner.state.decisions:
        return watch(learner)
    setup, arms = learner.setup.to_dict(), learner.arms
    return watch_of(evidence_for(setup, arms), setup, arms)


def _choices(log: list[dict[str, Any]], players: tuple[str, ...], arms: tuple[str, ...]) -> ChoiceHistory:
    size = 1
    while size * 80 < len(log):
        size *= 2
    stretches = -(-len(log) // size)
    counts = np.zeros((stretches, len(players), len(arms)))
    for number, row in enumerate(log):
        counts[number // size, players.index(row["player"]), arms.index(row["arm"])] += 1
    return ChoiceHistory(size, np.arange(len(players)), counts, counts.sum(axis=1))


def _traffic(log: list[dict[str, Any]], now: float) -> Traffic:
    times = np.linspace(now - 600, now, 61)
    answered = [row["observed_at"] for row in log if row["reward"] is not None]
    return Traffic(times, *(np.histogram(each, times)[0] for each in ([row["decided_at"] for row in log], answered)))


def _lateness(log: list[dict[str, Any]]) -> Lateness:
    answered = [row for row in log if row["reward"] is not None]
    waiting = [row["decided_at"] for row in log if row["reward"] is None]
    delays = [row["observed_at"] - row["decided_at"] for row in answered][-1000:]
    quantiles = tuple(np.quantile(delays, (0.5, 0.95)).tolist()) if delays else ()
    return Lateness(
        quantiles, sum(bool(row["defaulted"]) for row in answered), len(answered), min(waiting, default=None), False
    )


def _recent(log: list[dict[str, Any]], players: tuple[str, ...], arms: tuple[str, ...]) -> list[Recent]:
    places = ({**row, "player": players.index(row["player"]), "arm": arms.index(row["arm"])} for row in log[::-1][:15])
    return [Recent(**{name: row[name] for name in Recent._fields}) for row in places]
