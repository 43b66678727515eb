"""What happened to a learner, in slow and obvious Python: a list of decisions and rewards, and who is there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

STEPS = 2**24  # rewards are kept in steps of 1 / 2²⁴ of their range


class Refused(Exception):
    """A report that must be refused; `why` names the reasons, any of which may be given."""

    def __init__(self, *why):
        super().__init__(*why)
        self.why = set(why)


@dataclass
class Entry:
    """A decision, or a reward of the past; `event` is that of its reward."""

    number: int
    id: str | None
    round: int
    player: str
    arm: str
    decided_at: float
    propensity: float | None = None
    probabilities: list[float | None] | None = None
    holdout: bool = False
    shared: float = 0.0
    reward: float | None = None
    steps: int = 0
    event: int | None = None
    defaulted: bool | None = None
    observed_at: float | None = None
    given_up: bool = False


class SlowHistory:
    """A learner's decisions, rewards, players and arms; what follows from them is in slow_learner.py."""

    def __init__(
        self,
        policy,
        arms,
        players,
        horizon,
        low=0.0,
        high=1.0,
        floor=0.0,
        holdout=0.0,
        default=None,
        patience=None,
        limit=math.inf,
        keep_log=True,
        kinds=None,
        values=(),
        shares=None,
        burn_in=0,
    ):
        self.policy, self.horizon = policy, horizon
        self.kinds, self.values = kinds or {}, dict(zip(players, values or [()] * len(players), strict=True))
        self.low, self.high = low, high
        self.floor, self.holdout = floor, holdout
        self.shares, self.burn_in = shares or {}, burn_in
        self.default, self.patience = default, patience
        self.limit, self.keep_log = limit, keep_log
        self.players, self.arms = list(players), list(arms)
        self.active, self.offered = set(players), set(arms)
        self.starts = dict.fromkeys(players, 0)  # the event whose knowledge a player began with, None for none
        self.joined = {}  # the event at which a player came that was not there at first
        self.added = {}  # the same of arms
        self.entries = []
        self.answer_order = []  # ids
        self.rounds = self.events = 0
        self.round_of = [0]  # the round in which each event happened
        self.time = -math.inf

    def waiting(self):
        return [entry for entry in self.entries if entry.reward is None and not entry.given_up]

    def answered(self):
        return [entry for entry in self.entries if entry.reward is not None]

    def given_up(self):
        return sum(entry.given_up for entry in self.entries)

    def waiting_for(self, player, arm):
        return sum((entry.player, entry.arm) == (player, arm) for entry in self.waiting())

    def steps(self, reward):
        return round((Fraction(reward) - Fraction(self.low)) / (Fraction(self.high) - Fraction(self.low)) * STEPS)

    # ---------------------------------------------------------------- decisions and rewards

    def tick(self, now):
        """Time never goes back; the default is taken for every decision that has waited too long."""
        self.time = max(self.time, now)
        if self.patience is not None:
            late = [entry for entry in self.waiting() if entry.decided_at + self.patience <= self.time]
            self.take([(entry, self.default) for entry in late], defaulted=True)

    def happen(self):
        """One event more."""
        self.events += 1
        self.round_of.append(self.rounds)

    def take(self, rewards, defaulted=False):
        if rewards:
            self.happen()
        for entry, reward in rewards:
            entry.reward, entry.event, entry.defaulted = reward, self.events, defaulted
            entry.steps, entry.observed_at = self.steps(reward), self.time
            if entry.id is not None:
                self.answer_order.append(entry.id)

    def decided(self, decisions):
        """Be told what was decided in a round."""
        for made in decisions:
            self.entries.append(
                Entry(
                    len(self.entries),
                    made.id,
                    made.round,
                    made.player,
                    made.arm,
                    self.time,
                    made.propensity,
                    [made.probabilities.get(arm) for arm in self.arms],
                    made.holdout,
                    made.shared,
                )
            )
        while self.default is None and len(self.waiting()) > self.limit:
            self.waiting()[0].given_up = True

    def record(self, rewards):
        self.rounds += 1
        past = [
            Entry(len(self.entries) + k, None, self.rounds, player, arm, self.time)
            for k, (player, arm, _) in enumerate(rewards)
        ]
        self.entries += past
        self.take([(entry, reward) for entry, (_, _, reward) in zip(past, rewards, strict=True)])

    def observe(self, reports):
        """Judge all reports, then take the new ones; how many there are."""
        fresh = {}
        for identity, reward in reports:
            entry = self.judge(identity, reward, fresh)
            if entry is not None:
                fresh[entry.number] = (entry, reward)
        self.take(list(fresh.values()))
        return len(fresh)

    def judge(self, identity, reward, fresh):
        """The decision if its reward is news, None if it is known."""
        entry = next((entry for entry in self.entries if entry.id is not None and entry.id == identity), None)
        why = set()
        if entry is None or entry.given_up or self.forgotten(entry):
            why.add("unknown")
        if not self.low <= reward <= self.high:  # false for NaN, too
            why.add("value")
        if why:
            raise Refused(*why)
        if entry.reward is not None:
            if entry.steps != self.steps(reward):
                raise Refused("conflict")
            return None
        if entry.number in fresh and fresh[entry.number][1] != reward:
            raise Refused("conflict")
        return entry

    def forgotten(self, entry):
        """Without a log only the newest answers are remembered."""
        return entry.reward is not None and not self.keep_log and entry.id not in self.answer_order[-self.limit :]

    # ---------------------------------------------------------------- players, arms and shares

    def join(self, player, knows_others, values=()):
        self.happen()
        self.active.add(player)
        if player not in self.players:
            self.players.append(player)
            self.values[player] = values
            self.joined[player] = self.events
            self.starts[player] = self.events if knows_others else None

    def retire(self, player):
        self.happen()
        self.active.remove(player)

    def add_arm(self, arm):
        self.happen()
        self.offered.add(arm)
        if arm not in self.arms:
            self.arms.append(arm)
            self.added[arm] = self.events

    def retire_arm(self, arm):
        self.happen()
        self.offered.remove(arm)

    def set_shares(self, shares):
        self.happen()
        self.shares = shares

    # ---------------------------------------------------------------- the log

    def log(self):
        """The rows of the log."""
        return [
            {
                "decision": entry.id,
                "round": entry.round,
                "player": entry.player,
                "arm": entry.arm,
                "propensity": entry.propensity,
                "probabilities": entry.probabilities,
                "holdout": entry.holdout,
                "shared": entry.shared,
                "reward": entry.reward,
                "observed": entry.event,
                "defaulted": entry.defaulted,
                "decided_at": entry.decided_at,
                "observed_at": entry.observed_at,
            }
            for entry in self.entries
            if not entry.given_up
        ]
