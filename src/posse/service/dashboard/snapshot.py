"""All that the pages show of one experiment at one moment, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.learner import Counts
from posse.learner.setup import Setup
from posse.learner.state import State
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS
from posse.rewards import GRID
from posse.service.storage.queries import indices

SHOWN_PLAYERS = 40  # in the picture of who chooses what


@dataclass(frozen=True)
class Recent:
    """One of the latest decisions."""

    player: str
    arm: str
    propensity: float
    shared: float
    holdout: bool
    decided_at: float
    reward: float | None
    """None while none has come."""
    observed_at: float | None
    defaulted: bool


@dataclass(frozen=True, eq=False)
class Trail:
    """What was chosen, in stretches of equally many decisions; of long stretches a part is counted."""

    size: int
    """Decisions in a stretch; the last may have fewer."""
    players: np.ndarray
    """The places of the players that are counted one by one, at most `SHOWN_PLAYERS`."""
    counts: np.ndarray
    """Their decisions, [stretch, player, arm]."""
    everybody: np.ndarray
    """Everybody's, [stretch, arm]."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Decisions and rewards in recent stretches of time, and how long rewards take."""

    times: np.ndarray
    """The ends of the stretches, in seconds, one more than there are stretches."""
    decisions: np.ndarray
    rewards: np.ndarray
    delays: np.ndarray
    """Seconds from decision to reward, of the latest rewards that were reported."""
    oldest: float | None
    """When the oldest decision that still waits was made, among the latest; None if none does."""
    older: bool
    """Whether there are older ones."""
    defaulted: int
    """Of the latest rewards, how many were taken by default."""
    looked_at: int
    """How many latest rewards that is about."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One experiment at one moment."""

    name: str
    setup: Setup
    players: tuple[tuple[str, bool], ...]
    """Names, and whether each is here."""
    arms: tuple[tuple[str, bool], ...]
    paused: bool
    decisions: int
    events: int
    rewards: int
    waiting: int
    now: float
    pulls: np.ndarray
    """Pulls whose reward is known, int [player, arm]."""
    sums: np.ndarray
    """Their rewards in the user's units, [player, arm]."""
    squares: np.ndarray
    """Sums of squares of the rewards on [0, 1], [player, arm]."""
    chosen: np.ndarray
    """Pulls, those that wait for a reward included, int [player, arm]."""
    centers: np.ndarray
    """Of what is believed of the means, [player, arm]; PosseTS and Ind-TS-V add a bonus and draw with less scale."""
    scales: np.ndarray
    weights: np.ndarray
    """How much each index rests on other players' data, 0 to 1, [player, arm]."""
    probabilities: np.ndarray
    """The chance of each arm if the player chose now, [player, arm]; 0 for arms that are not offered."""
    trail: Trail
    traffic: Traffic
    recent: tuple[Recent, ...]

    @property
    def counts(self) -> Counts:
        """What was observed, as the diagnosis takes it."""
        return Counts(
            tuple(name for name, _ in self.players),
            tuple(name for name, _ in self.arms),
            self.pulls,
            self.sums,
            self.setup.low,
            self.setup.high,
            getattr(self.setup.policy, "epsilon", None),
        )


def numbers_of(state: State) -> dict[str, Any]:
    """The part of a snapshot that the learner's state knows, by field."""
    counts, found = state.counts(), indices(state)
    believed = np.stack([found.centers, found.scales])
    if isinstance(state.setup.policy, PosseTS | IndTSV):
        for player in range(len(found.players)):
            believed[:, player] = state.evaluate(player, belief=True)[:2]
    return {
        "setup": state.setup,
        "players": tuple(state.player_roster),
        "arms": tuple(state.arm_roster),
        "decisions": state.decisions,
        "events": state.events,
        "rewards": int(counts.pulls.sum()),
        "waiting": int(state.waiting.sum()),
        "pulls": counts.pulls,
        "sums": counts.sums,
        "squares": state.tally.squares / GRID,
        "chosen": counts.pulls + state.waiting,
        "centers": believed[0],
        "scales": believed[1],
        "weights": found.weights,
        "probabilities": found.probabilities,
    }
