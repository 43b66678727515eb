"""What a client says and how it takes the answers: requests, repetitions and the buffer, without input or output.

Each verb is a generator. It yields what is to be done, a request or a pause, and is sent what came of it; so that the
blocking and the asynchronous client share every line of it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, overload
from urllib.parse import quote

from posse.checks import number
from posse.learner import ConflictingReward, Decision, UnknownDecision
from posse.learner.learner import as_reports
from posse.learner.ledger import parse_id, write_id
from posse.policies import Policy
from posse.policies.posse_ts import PosseTS
from posse.service.client.retry import Asking, ServiceError, Steps, Unreachable

BATCH = 1000  # the most rewards in one request
SHORT = 1.0  # seconds in which a reward is delivered or else put into the buffer
LONGEST_REST = 5.0  # seconds for which rewards go straight into the buffer, or stay there, at most


@dataclass(frozen=True)
class Report:
    """A reward on its way."""

    experiment: str
    decision: str
    reward: float


class Conversation(Asking):
    """The verbs of a client, and what it remembers between them."""

    def __init__(self, patience: float, buffer_limit: int) -> None:
        super().__init__(patience)
        self.buffer_limit = buffer_limit
        self.buffer: deque[Report] = deque()
        self.refused: deque[tuple[Report, str]] = deque(maxlen=BATCH)
        self._lock = threading.Lock()  # of the buffer
        self._rest, self._rest_until = 0.0, 0.0
        self._stuck_until = 0.0  # when what an experiment keeps in the buffer is tried again

    # ---------------------------------------------------------------- decisions and rewards

    @overload
    def choose(self, experiment: str, player: str, available: Iterable[str] | None = None) -> Steps[Decision]: ...
    @overload
    def choose(
        self, experiment: str, player: list[str] | tuple[str, ...], available: Iterable[str] | None = None
    ) -> Steps[list[Decision]]: ...
    def choose(
        self, experiment: str, player: str | list[str] | tuple[str, ...], available: Iterable[str] | None = None
    ) -> Steps[Any]:
        """Choose an arm for a player, or one for each of several who act in the same round.

        Where no answer comes the request is repeated under the same idempotency key, so that it happens once.
        """
        body: dict[str, Any] = {"player": player} if isinstance(player, str) else {"players": list(player)}
        if available is not None:
            body["available"] = list(available)
        answer = yield from self.ask("POST", f"{_at(experiment)}/decisions", body, key=uuid.uuid4().hex)
        decisions = [Decision(**each) for each in answer["decisions"]]
        return decisions[0] if isinstance(player, str) else decisions

    def observe(
        self,
        experiment: str,
        decision: str | Mapping[str, float] | Iterable[tuple[str, float]],
        reward: float | None = None,
    ) -> Steps[int]:
        """Report the reward of a decision, or those of many; return how many were taken as new.

        While the service is away rewards wait in the buffer, which does not count as taken, and go out in batches when
        it is back. Unlike the learner, which refuses a batch as a whole, the service takes what is good in it; the
        error is about the first that is not.
        """
        reports = [
            Report(experiment, write_id(*parse_id(identity)), number(f"reward of decision {identity}", value))
            for identity, value in as_reports(decision, reward)
        ]
        if time.monotonic() < self._rest_until:
            self._keep(reports)
            return 0
        try:
            patience = 0.0 if self._rest else SHORT  # it was away a moment ago: ask once
            yield from self._take_along(patience)
            outcomes = yield from self._report(reports, patience)
        except Unreachable:
            self._keep(reports)
            return 0
        for outcome in outcomes:
            if outcome["status"] in REFUSED:
                raise REFUSED[outcome["status"]](outcome["detail"])
        return sum(outcome["status"] == "taken" for outcome in outcomes)

    def flush(self) -> Steps[int]:
        """Send what waits in the buffer; return how many rewards were taken as new.

        What the service refuses then is kept in `refused` and said in the log. Where it fails for an experiment, the
        rewards of that one stay in the buffer, and the error is raised once all others are sent.
        """
        taken, error = yield from self._deliver(self.patience)
        if error is not None:
            raise error
        return taken

    def leave(self) -> Steps[None]:
        """Send what waits in the buffer, for the last time."""
        try:
            yield from self.flush()
        except ServiceError as error:
            detail = f"{len(self.buffer):,} rewards were not delivered: {error}"
            raise type(error)(detail, error.status, error.kind) from error

    def _take_along(self, patience: float) -> Steps[None]:
        """Send what waits in the buffer, on the occasion of a reward, which may be of another experiment."""
        if time.monotonic() < self._stuck_until:
            return
        _, error = yield from self._deliver(patience)
        if error is not None:
            self._stuck_until = time.monotonic() + LONGEST_REST  # or each reward would ask twice

    def _deliver(self, patience: float) -> Steps[tuple[int, ServiceError | None]]:
        """Send what waits in the buffer; how many rewards were taken as new, and the first error.

        What can never be taken is put aside, and an experiment that fails is passed over, so that they keep nothing
        else up.
        """
        taken = 0
        failed: dict[str, ServiceError] = {}
        while reports := self._first_batch(failed):
            try:
                outcomes = yield from self._report(reports, patience)
            except BaseException as error:
                if not _is_final(error):
                    with self._lock:
                        self.buffer.extendleft(reversed(reports))
                    if isinstance(error, Unreachable) or not isinstance(error, ServiceError):
                        raise
                    experiment = reports[0].experiment
                    failed[experiment] = error
                    logging.getLogger("posse").warning("rewards of %s stay in the buffer: %s", experiment, error)
                    continue
                outcomes = [{"status": "invalid", "detail": str(error)}] * len(reports)
            for report, outcome in zip(reports, outcomes, strict=True):
                taken += outcome["status"] == "taken"
                if outcome["status"] in REFUSED:
                    self.refused.append((report, outcome["detail"]))
                    logging.getLogger("posse").warning("a reward was refused: %s", outcome["detail"])
        return taken, next(iter(failed.values()), None)

    def _first_batch(self, passed: Container[str]) -> list[Report]:
        """The first rewards of the buffer, of one experiment that is not passed over, taken out."""
        reports: list[Report] = []
        with self._lock:
            before = sum(1 for _ in takewhile(lambda report: report.experiment in passed, self.buffer))
            if before == len(self.buffer):
                return []
            self.buffer.rotate(-before)
            experiment = self.buffer[0].experiment
            while self.buffer and len(reports) < BATCH and self.buffer[0].experiment == experiment:
                reports.append(self.buffer.popleft())
            self.buffer.rotate(before)
        return reports

    def _report(self, reports: list[Report], patience: float) -> Steps[list[dict[str, Any]]]:
        """The outcomes of rewards of one experiment, in order.

        Those that were delivered before an error are delivered again, which is safe.
        """
        outcomes: list[dict[str, Any]] = []
        for start in range(0, len(reports), BATCH):
            batch = reports[start : start + BATCH]
            body = {"rewards": [{"decision": each.decision, "reward": each.reward} for each in batch]}
            try:
                answer = yield from self.ask("POST", f"{_at(batch[0].experiment)}/rewards", body, patience=patience)
            except Unreachable:
                self._rest = min(2 * self._rest or SHORT / 2, LONGEST_REST)
                self._rest_until = time.monotonic() + self._rest
                raise
            outcomes += answer["outcomes"]
        self._rest = self._rest_until = 0.0
        return outcomes

    def _keep(self, reports: list[Report]) -> None:
        with self._lock:
            if len(self.buffer) + len(reports) > self.buffer_limit:
                raise Unreachable(
                    f"the service is away, and {len(self.buffer):,} rewards wait already; {len(reports)} more are "
                    f"over the buffer's limit of {self.buffer_limit:,} and are not kept"
                )
            self.buffer.extend(reports)

    def record(self, experiment: str, rewards: Iterable[tuple[str, str, float]]) -> Steps[int]:
        """Take rewards of the past, as (player, arm, reward), that the service did not decide; one call, one round."""
        body = {"rewards": [{"player": player, "arm": arm, "reward": reward} for player, arm, reward in rewards]}
        answer = yield from self.ask("POST", f"{_at(experiment)}/records", body, repeatable=False)
        return answer["taken"]

    # ---------------------------------------------------------------- experiments

    def create(
        self,
        experiment: str,
        arms: Iterable[str],
        players: Iterable[str] = (),
        policy: Policy = PosseTS(),
        horizon: int | None = None,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        floor: float = 0.0,
        holdout: float = 0.0,
        default_reward: float | None = None,
        patience: float | None = None,
    ) -> Steps[dict[str, Any]]:
        """Create an experiment, with the arguments of `posse.Learner`; return what it is."""
        body = {
            "name": experiment,
            "arms": list(arms),
            "players": list(players),
            "policy": {
                "name": type(policy).__name__,
                "constants": {name: getattr(policy, name) for name in policy.constant_names()},
            },
            "horizon": horizon,
            "seed": seed,
            "reward_range": list(reward_range),
            "floor": floor,
            "holdout": holdout,
            "default_reward": default_reward,
            "patience": patience,
        }
        return (yield from self.ask("POST", "/v1/experiments", body, repeatable=False))

    def change(
        self,
        experiment: str,
        *,
        join: Iterable[str] = (),
        retire: Iterable[str] = (),
        add_arms: Iterable[str] = (),
        retire_arms: Iterable[str] = (),
        paused: bool | None = None,
        knows_others: bool = True,
    ) -> Steps[dict[str, Any]]:
        """Let players and arms come and go, pause and resume, all of it or nothing; return what the experiment is."""
        body = {
            "join": list(join),
            "retire": list(retire),
            "add_arms": list(add_arms),
            "retire_arms": list(retire_arms),
            "paused": paused,
            "knows_others": knows_others,
        }
        return (yield from self.ask("PATCH", _at(experiment), body, repeatable=False))

    def join(self, experiment: str, player: str, *, knows_others: bool = True) -> Steps[dict[str, Any]]:
        """Let a player join, or come back with all it had learnt."""
        return (yield from self.change(experiment, join=[player], knows_others=knows_others))

    def retire(self, experiment: str, player: str) -> Steps[dict[str, Any]]:
        """Let a player leave. What it has learnt stays with the others, and its late rewards are still taken."""
        return (yield from self.change(experiment, retire=[player]))

    def add_arm(self, experiment: str, arm: str) -> Steps[dict[str, Any]]:
        """Offer a new arm to all players, or one that was retired again."""
        return (yield from self.change(experiment, add_arms=[arm]))

    def retire_arm(self, experiment: str, arm: str) -> Steps[dict[str, Any]]:
        """Offer an arm no longer. Its late rewards are still taken."""
        return (yield from self.change(experiment, retire_arms=[arm]))

    def erase(self, experiment: str, player: str) -> Steps[str]:
        """Let the service forget the name of a player; return the name that takes its place."""
        answer = yield from self.ask("POST", f"{_at(experiment)}/erasures", {"player": player}, repeatable=False)
        return answer["player"]

    # ---------------------------------------------------------------- what there is to see

    def experiments(self) -> Steps[list[dict[str, Any]]]:
        """All experiments that the token may see."""
        answer = yield from self.ask("GET", "/v1/experiments")
        return answer["experiments"]

    def experiment(self, experiment: str) -> Steps[dict[str, Any]]:
        """An experiment as it stands."""
        return (yield from self.ask("GET", _at(experiment)))

    def state(self, experiment: str) -> Steps[dict[str, Any]]:
        """The numbers behind the decisions."""
        return (yield from self.ask("GET", f"{_at(experiment)}/state"))

    def diagnosis(self, experiment: str) -> Steps[dict[str, Any]]:
        """Is ε right? What `posse.insight.diagnose` says."""
        return (yield from self.ask("GET", f"{_at(experiment)}/diagnosis"))

    def log(self, experiment: str, after: int = 0) -> Steps[list[dict[str, Any]]]:
        """The log, as rows with the learner's columns, from the events after a number on."""
        rows: list[dict[str, Any]] = []
        while True:
            answer = yield from self.ask("GET", f"{_at(experiment)}/log?after={after}")
            rows += answer["rows"]
            if answer["next"] is None:
                return rows
            after = answer["next"]


REFUSED: dict[str, type[ValueError]] = {
    "conflict": ConflictingReward,
    "unknown": UnknownDecision,
    "invalid": ValueError,
}
NOWHERE = ("not-found", "unknown-experiment")


def _is_final(error: BaseException) -> bool:
    """Whether rewards met with this error will always meet with it."""
    return isinstance(error, ValueError) or (isinstance(error, ServiceError) and error.kind in NOWHERE)


def _at(experiment: str) -> str:
    if not isinstance(experiment, str):
        raise TypeError(f"experiment={experiment!r}, but expected the name of an experiment")
    return f"/v1/experiments/{quote(experiment, safe='')}"
