"""The learner: a thin shell around the core that keeps names, numbers and decisions in memory."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np

from posse.attributes import Attributes, Value
from posse.checks import value_range
from posse.decision import Decision, as_reports
from posse.learner import log, snapshot
from posse.learner.counts import Counts
from posse.learner.frames import given_players, given_records
from posse.learner.ledger import Answer, Ledger, Row, RowLog
from posse.learner.reports import Reports
from posse.learner.setup import PLAYER_LIMIT, Name, Setup, check_names
from posse.learner.shares import check_shares
from posse.learner.state import LearnerState
from posse.notebook import Summarized, Summary
from posse.outcomes import Alarm, Outcome, declared
from posse.policies.base import Policy
from posse.policies.posse_ts import PosseTS
from posse.text import plural


class Learner(Summarized):
    """Chooses arms for players, and learns from the rewards whenever they come.

    >>> import posse
    >>> learner = posse.Learner(arms=["tea", "coffee"], players=["north", "south"], seed=1)
    >>> decision = learner.choose("north")
    >>> decision.arm, round(decision.propensity, 3)
    ('coffee', 0.5)
    >>> learner.observe(decision.id, 1.0)
    1

    Args:
        policy: `posse.PosseTS()`, which needs to know nothing, or another, such as `posse.RobustAggTS(0.1)`; its ε is
            in the units of the rewards. With `forget=...`, a half-life in events, old rewards count less.
        arms: their names, strings or whole numbers; the number 7 becomes the name "7".
        players: their names, likewise; more may `join` later. With attributes, {name: {attribute: value}}, or a data
            frame or Arrow table with the column `player` and a column for each attribute that is known.
        horizon: how many rounds are planned, which the policies' ln T takes; None for the anytime form, ln t. Past the
            horizon, ln t takes over.
        seed: two learners with one seed draw the same random numbers, so give each its own.
        reward_range: the lowest and the highest reward that is possible.
        floor: the least probability of every available arm that `shares` does not name.
        holdout: the part of the decisions whose arm is drawn with equal shares: every arm has its least share, and the
            rest is divided equally, up to the greatest shares.
        default_reward, patience: the reward that is taken for a decision that has none after so many seconds.
        waiting_limit: how many decisions may wait for their rewards; the oldest beyond it is given up. With a default
            reward there is no such limit: every decision waits until its patience is over.
        keep_log: keep every answered decision for `log`. False bounds the memory for good; then a reward is told from
            its repetition only for the `waiting_limit` newest answers.
        attributes: what is known of players, each with its kind, such as {"region": "category", "device": ["phone",
            "desktop"], "age": [18, 30, 50]}: any strings, these strings, or a number cut into bins. Then
            `choose({"region": "south", "age": 44})` is for the player that is this combination; it joins by itself.
        player_limit: how many players there may be, retired ones included.
        shares: limits on the probabilities of arms, such as {"new": (0.05, 0.3), "today": 0.2}: the least and the
            greatest, or one number for both. `set_shares` changes them.
        control: the arm that the others are compared with, for those who read the log.
        burn_in: how many decisions are drawn with equal shares at first, as in the holdout.
        outcomes: what else comes of decisions, such as {"refund": posse.Outcome(at_most=0.05, action="retire")}; see
            docs/outcomes.md.
        clock: gives the time in seconds.
    """

    def __init__(
        self,
        policy: Policy = PosseTS(),
        arms: Iterable[Name] = (),
        players: Iterable[Name] | Mapping[Name, Mapping[str, Any]] | Any = (),
        horizon: int | None = None,
        *,
        seed: int = 0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        floor: float = 0.0,
        holdout: float = 0.0,
        default_reward: float | None = None,
        patience: float | None = None,
        waiting_limit: int = 100_000,
        keep_log: bool = True,
        attributes: Mapping[str, Any] | None = None,
        player_limit: int = PLAYER_LIMIT,
        shares: Mapping[Name, float | tuple[float, float]] = {},
        control: Name | None = None,
        burn_in: int = 0,
        outcomes: Mapping[str, Outcome | Mapping[str, Any]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        ends = value_range("reward_range", reward_range, "reward")
        fixed = floor, holdout, default_reward, patience, waiting_limit, keep_log, Attributes(attributes), player_limit
        later = declared(outcomes), check_shares(shares), None if control is None else str(control), burn_in
        setup = Setup(*(policy, horizon, seed, *ends, *fixed, *later))
        if not callable(clock):
            raise TypeError(f"clock={clock!r}, but expected a function that gives the time in seconds")
        self._begin(setup, {"arms": check_names("arm", arms), **given_players(setup, players)}, clock)

    def _begin(self, setup: Setup, first: dict[str, list[Any]], clock: Callable[[], float]) -> None:
        """Set everything up, before the first event; `first` has the arms, the players and the players' attributes."""
        values = [setup.attributes.check(each) for each in first.get("attributes", ())]
        self.state = LearnerState(setup, first["arms"], first["players"], values)
        self.ledger = Ledger(setup)
        self.changes: list[dict[str, Any]] = []  # who and what came and went, with the number of the event
        self.first = first
        self._clock, self._now, self._lock = clock, -math.inf, threading.RLock()

    # ---------------------------------------------------------------- decisions

    @overload
    def choose(self, player: Name | Mapping[str, Any], available: Iterable[Name] | None = None) -> Decision: ...
    @overload
    def choose(
        self,
        player: list[str] | list[int] | list[dict[str, Any]] | tuple[Name | Mapping[str, Any], ...],
        available: Iterable[Name] | None = None,
    ) -> list[Decision]: ...
    def choose(self, player: Any, available: Iterable[Name] | None = None) -> Any:
        """Choose an arm for a player, or one for each of several who act in the same round.

        A dictionary {attribute: value} is the player that has this combination of attributes. It joins if it is new.
        `available` restricts the choice to some of the arms.
        """
        by_name = isinstance(player, (str, int, np.integer))
        one = by_name or isinstance(player, Mapping)
        with self._lock:
            state, roster = self.state, self.state.player_roster
            names, new = ([player], {}) if by_name else state.named([player] if one else player)
            places = [roster.current(name) for name in names if name not in new]
            offered, now = state.offered(available), self._tick()
            if new:
                for name, values in new.items():
                    self._change("join", name, values=values)
                places = [roster.place(name) for name in names]
            made = state.choose(places, offered, now)
            for _, row in made:
                self._wait(row)
            decisions = [decision for decision, _ in made]
            return decisions[0] if one else decisions

    def _wait(self, row: Row) -> None:
        self.state.wait(row)
        for given_up in self.ledger.wait(row):
            self.state.wait(given_up, -1)

    def probabilities(
        self, player: Name | Mapping[str, Any], available: Iterable[Name] | None = None
    ) -> dict[str, float]:
        """The probability of each arm if the player were to choose now; nothing is decided.

        A combination of attributes that was never seen has none yet: `choose` lets it join.
        """
        with self._lock:
            offered, place = self.state.offered(available), self._current(player)
            self._tick()
            shares = self.state.probabilities(self.state.evaluate(place), offered).tolist()
            return {self.state.arm_roster.names[arm]: p for arm, p in enumerate(shares) if offered[arm]}

    def _current(self, player: Name | Mapping[str, Any]) -> int:
        """The place of a player that is here."""
        (name,), _ = self.state.named([player])
        return self.state.player_roster.current(name)

    def indices(self, player: Name | Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Center and scale of each arm's index for the player, for rewards mapped to [0, 1].

        A center is no estimate of a mean: it has the bonus of a policy that explores by one, and that of PosseTS and
        Ind-TS-V is on the scale x^¼ − (1−x)^¼. Beta-TS has (a, b) of its Beta law here, IMED its mean and count.
        """
        with self._lock:
            place = self._current(player)
            self._tick()
            center, scale, _, _ = self.state.evaluate(place).tolist()
            return {name: (center[arm], scale[arm]) for arm, name in self.state.arm_roster.listed()}

    def shared_weights(self) -> np.ndarray:
        """How much the next decision of each player in `counts` is expected to rest on others' data, from 0 to 1."""
        with self._lock:
            self._tick()
            return self.state.shared_weights()

    # ---------------------------------------------------------------- rewards

    def observe(
        self,
        decision: str | Decision | Any,
        reward: float | None = None,
        outcomes: Mapping[str, float] | Iterable[str] | None = None,
        refused: list[tuple[Any, Exception]] | None = None,
    ) -> int:
        """Take the reward or outcomes of a decision, or those of many at once as one round; return how many were new.

        What is reported again is acknowledged and counted once. If any report is refused, none is taken; see `refused`.

        Args:
            decision: a `Decision` or its id; for many, a dictionary {decision: reward}, pairs (decision, reward), or
                (decision, reward, {outcome: value}), or a data frame or Arrow table with the column `decision` (or
                `id`), and `reward` or a column for each outcome, empty where nothing has come.
            reward: the reward of a single decision. True and False are 1 and 0. None if only outcomes are reported.
            outcomes: those of a single decision, {outcome: value}; for a table, which of its columns they are.
            refused: a list that takes each report that is refused, as (decision, error); the others are taken.
        """
        many = not isinstance(decision, (str, Decision))
        reports = as_reports(decision, reward, self.setup.outcomes.keys() if outcomes is None and many else outcomes)
        with self._lock:
            self._tick()
            fresh = Reports(self.state, self.ledger)
            fresh.take_all(reports, refused)
            self._observe([(self.ledger.waiting[serial], value) for serial, value in fresh.rewards.items()])
            if fresh.outcomes:
                self.ledger.outcomes |= {key: each.value for key, each in fresh.outcomes.items()}
                for kind, arm, outcome in self.state.guarded(fresh.outcomes.values()):
                    self._change(kind, arm, outcome=outcome)
            return fresh.decisions

    def _observe(self, answered: list[tuple[Row, float]], defaulted: bool = False) -> None:
        """Take in rewards as one round, and write them down."""
        if not answered:
            return
        self.state.observe(answered)
        for row, reward in answered:
            self.ledger.answer(row, Answer(reward, self.state.events, self._now, defaulted))

    def record(self, rewards: Iterable[tuple[Name, Name, float]] | Any) -> None:
        """Take past rewards that it did not decide, (player, arm, reward) or a table of these, as one round."""
        with self._lock:
            checked = self.state.check_records(given_records(rewards))
            self._observe(self.state.record(checked, self._tick()))

    def _tick(self) -> float:
        """The time, which never goes back; take the default for every decision that has waited too long."""
        now = float(self._clock())
        if not math.isfinite(now):
            raise ValueError(f"the clock says {now}, but expected seconds")
        self._now = max(self._now, now)
        patience, default = self.state.setup.patience, self.state.setup.default_reward
        if patience is not None and default is not None:
            waiting = self.ledger.waiting.values()  # oldest first
            late = itertools.takewhile(lambda row: row.decided_at + patience <= self._now, waiting)
            self._observe([(row, default) for row in late], defaulted=True)
        return self._now

    # ---------------------------------------------------------------- players and arms

    def join(self, player: Name, attributes: Mapping[str, Any] | None = None, *, knows_others: bool = True) -> None:
        """Let a player join, or come back with all it had learnt and the attributes that it first came with.

        A new one starts from what the others know, unless `knows_others=False`: then it takes others' data for an arm
        into account only once it has pulled it, as in the paper. Only policies refreshed at own pulls differ in this.
        """
        if not isinstance(knows_others, bool):
            raise TypeError(f"knows_others={knows_others!r}, but expected True or False")
        with self._lock:
            values = None if attributes is None else self.setup.attributes.values(attributes)
            self.state.check_join(player, values)
            self._change("join", player, knows_others, values)

    def retire(self, player: Name) -> None:
        """Let a player leave. What it has learnt stays with the others, and its late rewards are still taken."""
        self._change("retire", player)

    def add_arm(self, arm: Name) -> None:
        """Offer a new arm to all players, or one that was retired again."""
        self._change("add arm", arm)

    def retire_arm(self, arm: Name) -> None:
        """Offer an arm no longer. Its late rewards are still taken."""
        self._change("retire arm", arm)

    def set_shares(self, shares: Mapping[Name, float | tuple[float, float]]) -> None:
        """Replace all limits on the probabilities of arms, for all decisions from now on; {} removes them."""
        with self._lock:
            self._set_shares(shares, self.rounds)

    def _set_shares(self, shares: Any, rounds: int) -> None:
        found = {arm: list(pair) for arm, pair in self.state.set_shares(shares).items()}
        self.changes.append({"event": self.events, "kind": "shares", "shares": found, "rounds": rounds})

    def _change(
        self,
        kind: str,
        name: Name,
        knows_others: bool = True,
        values: tuple[Value, ...] | None = None,
        outcome: str | None = None,
    ) -> None:
        with self._lock:
            if kind == "alarm":
                self.state.alarm(name, outcome)
            else:
                self.state.change(kind, name, knows_others, values)
            change = {"event": self.events, "kind": kind, "name": str(name), "knows_others": knows_others}
            more = {"attributes": None if values is None else list(values), "outcome": outcome}
            self.changes.append(change | {field: value for field, value in more.items() if value is not None})

    @property
    def setup(self) -> Setup:
        """All that is fixed."""
        return self.state.setup

    @property
    def shares(self) -> dict[str, tuple[float, float]]:
        """The least and the greatest share of each arm that has limits now."""
        return dict(self.state.shares)

    @property
    def rounds(self) -> int:
        """How many rounds there were."""
        return self.state.rounds

    @property
    def events(self) -> int:
        """How many times rewards were taken, or a player or an arm came or went."""
        return self.state.events

    @property
    def decisions(self) -> int:
        """How many decisions were made."""
        return self.state.decisions

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The arms that were shown to cross the bound of an outcome, in order."""
        with self._lock:
            raised = [change for change in self.changes if change["kind"] == "alarm"]
            return tuple(Alarm(change["outcome"], change["name"], change["event"]) for change in raised)

    @property
    def players(self) -> tuple[str, ...]:
        """The players that are here."""
        with self._lock:
            return tuple(name for _, name in self.state.player_roster.listed())

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are offered."""
        with self._lock:
            return tuple(name for _, name in self.state.arm_roster.listed())

    # ---------------------------------------------------------------- what there is to see

    def counts(self) -> Counts:
        """Observed pulls and reward sums, of all who ever joined and all arms, in the order in which they came.

        Of a policy that forgets, what is left of them; `log` has all.
        """
        with self._lock:
            self._tick()
            return self.state.counts()

    def log(self) -> Any:
        """Decisions and rewards as an Arrow table, one row a decision; docs/learner.md lists the columns."""
        with self._lock:
            self._tick()
            if not self.setup.keep_log:
                raise ValueError("this learner keeps no log: it was made with keep_log=False")
            about = log.describe(self.state, log.Past(self.first, self.changes, self.ledger.given_up, self._now))
            ledger, attributes = self.ledger.copy(), self.state.attributes()
        waiting = RowLog((row, None) for row in ledger["waiting"])  # from here on, others may choose
        return log.arrow_table(about, ledger["answered"] + waiting.parts(), attributes, ledger["outcomes"])

    @classmethod
    def replay(cls, table: Any, clock: Callable[[], float] = time.time) -> Learner:
        """The learner that wrote a log, from nothing but that log."""
        learner = cls.__new__(cls)
        log.replay(learner, table, clock)
        return learner

    def save(self, path: str | Path) -> None:
        """Write everything into one file; a crash at any moment leaves the old file or the new one, whole.

        Other threads may choose and observe meanwhile. The file holds what was known when its writing began.
        """
        snapshot.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, clock: Callable[[], float] = time.time) -> Learner:
        """The learner that was saved, as if it had never stopped."""
        learner = cls.__new__(cls)
        snapshot.read(learner, Path(path), clock)
        return learner

    def __reduce__(self) -> Any:
        raise TypeError("a learner is not copied or pickled; save it and load it")

    def __repr__(self) -> str:
        here = f"{plural(self.state.player_roster.count, 'player')}, {plural(self.state.arm_roster.count, 'arm')}"
        done = f"{plural(self.decisions, 'decision')}, {len(self.ledger.waiting):,} waiting"
        return f"<Learner {self.setup.policy.label}: {here}, {done}>"

    def _summary(self) -> Summary:
        with self._lock:
            return Summary(repr(self).strip("<>"), self.state.counts().by_arm())
