"""The verbs of both clients, and the buffer of rewards. Nothing here does input or output (see retry.py)."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote

from posse.checks import number
from posse.decision import ConflictingReward, Decision, UnknownDecision, as_reports, parse_id, write_id
from posse.service.client.retry import ServiceError, Steps, Unreachable, ask

if TYPE_CHECKING:
    from posse.policies.base import Policy

BATCH = 1000  # the most rewards in one request
SHORT = 1.0  # seconds in which a reward is delivered; otherwise it goes into the buffer
LONGEST_REST = 5.0  # the most seconds for which rewards go into the buffer, or stay there, without a request
REFUSALS = {"conflict": ConflictingReward, "unknown": UnknownDecision, "invalid": ValueError}
NOT_FOUND = ("not-found", "unknown-experiment")

RewardStatus = Literal["taken", "known", "buffered"]
"""What became of a reward: it is new and counts, or the same came before, or it waits here for the service."""

logger = logging.getLogger("posse")


@dataclass(frozen=True)
class RewardReport:
    """A reward on its way to the service."""

    experiment: str
    decision: str
    reward: float


class ClientProtocol:
    """The verbs of a client, and what it remembers between them."""

    def __init__(self, patience: float, buffer_limit: int) -> None:
        self.patience = patience
        self.buffer_limit = buffer_limit
        self.buffer: defaultdict[str, deque[RewardReport]] = defaultdict(deque)  # by experiment
        self.refused: deque[tuple[RewardReport, str]] = deque(maxlen=BATCH)
        self._lock = threading.Lock()  # for the buffer
        self._rest, self._rest_until = 0.0, 0.0  # while the service is away
        self._stuck_until = 0.0  # when rewards that an experiment keeps in the buffer are tried again

    @property
    def buffered(self) -> int:
        """How many rewards wait in the buffer."""
        return sum(map(len, list(self.buffer.values())))

    # ---------------------------------------------------------------- decisions and rewards

    @overload
    def choose(
        self,
        experiment: str,
        player: str | Mapping[str, Any],
        available: Iterable[str] | None = None,
        *,
        key: str | None = None,
    ) -> Steps[Decision]: ...
    @overload
    def choose(
        self,
        experiment: str,
        player: list[str] | list[dict[str, Any]] | tuple[str, ...],
        available: Iterable[str] | None = None,
        *,
        key: str | None = None,
    ) -> Steps[list[Decision]]: ...
    def choose(
        self, experiment: str, player: Any, available: Iterable[str] | None = None, *, key: str | None = None
    ) -> Steps[Any]:
        """Choose an arm for a player, or one for each of several players who act in the same round.

        A dictionary {attribute: value} is the player that has this combination of attributes. It joins if it is new.
        `key` is the idempotency key: the same key with the same request gives the same decisions again, also to a
        program that has restarted meanwhile.
        """
        one = isinstance(player, (str, Mapping))
        players = [player] if one else list(player)
        combinations = [isinstance(each, Mapping) for each in players]
        if any(combinations) and not all(combinations):
            raise TypeError("players are given by name and by attributes, but expected one way in one request")
        field = "attributes" if any(combinations) else "player" if one else "players"
        body: dict[str, Any] = {field: players[0] if one else players}
        if available is not None:
            body["available"] = list(available)
        answer = yield from self._change("POST", f"{_path(experiment)}/decisions", body, key)
        decisions = [Decision(**each) for each in answer["decisions"]]
        return decisions[0] if one else decisions

    @overload
    def observe(self, experiment: str, decision: str | Decision, reward: float) -> Steps[RewardStatus]: ...
    @overload
    def observe(
        self, experiment: str, decision: Mapping[str, float] | Iterable[tuple[str | Decision, float]]
    ) -> Steps[list[RewardStatus]]: ...
    def observe(self, experiment: str, decision: Any, reward: float | None = None) -> Steps[Any]:
        """Report the reward of a decision, or the rewards of many; return what became of it, or of each in order.

        "taken" is a reward that is new to the service, and "known" one that came before. While the service is away, a
        reward is "buffered": it waits in the buffer, and goes out in a batch when the service is back. A learner
        refuses a batch as a whole; the service takes the good rewards of a batch, and the error is about the first bad
        one.
        """
        one = isinstance(decision, (str, Decision))
        reports = [
            RewardReport(experiment, write_id(*parse_id(identity)), number(f"reward of decision {identity}", value))
            for identity, value in as_reports(decision, reward)
        ]
        statuses = yield from self._deliver(reports)
        return statuses[0] if one else statuses

    def _deliver(self, reports: list[RewardReport]) -> Steps[list[RewardStatus]]:
        """Send rewards of one experiment, and those of the buffer before them; keep them if the service is away."""
        buffered: list[RewardStatus] = ["buffered"] * len(reports)
        if time.monotonic() < self._rest_until:
            self._keep(reports)
            return buffered
        try:
            patience = 0.0 if self._rest else SHORT  # the service was away a moment ago, so ask only once
            yield from self._send_buffer_along(patience)
            outcomes = yield from self._send(reports, patience)
        except Unreachable:
            self._keep(reports)
            return buffered
        for outcome in outcomes:
            if outcome["status"] in REFUSALS:
                raise REFUSALS[outcome["status"]](outcome["detail"])
        return [outcome["status"] for outcome in outcomes]

    def flush(self) -> Steps[int]:
        """Send the rewards in the buffer; return how many were new to the service.

        Rewards that the service refuses are kept in `refused`, with a warning in the log. If the service fails for an
        experiment, the rewards of that experiment stay in the buffer, and the error is raised after all others are
        sent.
        """
        new, error = yield from self._send_buffer(self.patience)
        if error is not None:
            raise error
        return new

    def leave(self) -> Steps[None]:
        """Send the rewards in the buffer for the last time."""
        try:
            yield from self.flush()
        except ServiceError as error:
            detail = f"{self.buffered:,} rewards were not delivered: {error}"
            raise type(error)(detail, error.status, error.kind) from error

    def _send_buffer_along(self, patience: float) -> Steps[None]:
        """Send the rewards in the buffer together with a new reward, which may be of another experiment."""
        if time.monotonic() < self._stuck_until:
            return
        _, error = yield from self._send_buffer(patience)
        if error is not None:
            self._stuck_until = time.monotonic() + LONGEST_REST  # otherwise each new reward would take two requests

    def _send_buffer(self, patience: float) -> Steps[tuple[int, ServiceError | None]]:
        """Send the rewards in the buffer; return how many were new, and the first error.

        Rewards that can never be delivered are put aside, and an experiment that fails is skipped, so that neither
        delays the rest.
        """
        new, first_error = 0, None
        for experiment in list(self.buffer):
            while reports := self._take_batch(experiment):
                try:
                    outcomes = yield from self._send(reports, patience)
                except BaseException as error:
                    if not _is_final(error):
                        with self._lock:
                            self.buffer[experiment].extendleft(reversed(reports))
                        if isinstance(error, Unreachable) or not isinstance(error, ServiceError):
                            raise
                        first_error = first_error or error
                        logger.warning("rewards of %s stay in the buffer: %s", experiment, error)
                        break
                    outcomes = [{"status": "invalid", "detail": str(error)}] * len(reports)
                for report, outcome in zip(reports, outcomes, strict=True):
                    new += outcome["status"] == "taken"
                    if outcome["status"] in REFUSALS:
                        self.refused.append((report, outcome["detail"]))
                        logger.warning("a reward was refused: %s", outcome["detail"])
        return new, first_error

    def _take_batch(self, experiment: str) -> list[RewardReport]:
        """Take the first rewards of an experiment out of the buffer."""
        with self._lock:
            waiting = self.buffer[experiment]
            return [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]

    def _send(self, reports: list[RewardReport], patience: float) -> Steps[list[dict[str, Any]]]:
        """Send rewards of one experiment; return their outcomes in order.

        Rewards that were delivered before an error will be delivered again, which is safe.
        """
        outcomes: list[dict[str, Any]] = []
        for start in range(0, len(reports), BATCH):
            batch = reports[start : start + BATCH]
            body = {"rewards": [{"decision": each.decision, "reward": each.reward} for each in batch]}
            try:
                answer = yield from ask("POST", f"{_path(batch[0].experiment)}/rewards", body, patience=patience)
            except Unreachable:
                self._rest = min(2 * self._rest or SHORT / 2, LONGEST_REST)
                self._rest_until = time.monotonic() + self._rest
                raise
            outcomes += answer["outcomes"]
        self._rest = self._rest_until = 0.0
        return outcomes

    def _keep(self, reports: list[RewardReport]) -> None:
        with self._lock:
            if self.buffered + len(reports) > self.buffer_limit:
                raise Unreachable(
                    f"the service is away, and {self.buffered:,} rewards wait already; {len(reports)} more are "
                    f"over the buffer's limit of {self.buffer_limit:,} and are not kept"
                )
            for report in reports:
                self.buffer[report.experiment].append(report)

    def record(
        self, experiment: str, rewards: Iterable[tuple[str, str, float]], *, key: str | None = None
    ) -> Steps[int]:
        """Record rewards of the past, as (player, arm, reward), that the service did not choose; a call is a round."""
        body = {"rewards": [{"player": player, "arm": arm, "reward": reward} for player, arm, reward in rewards]}
        return (yield from self._change("POST", f"{_path(experiment)}/records", body, key))["taken"]

    # ---------------------------------------------------------------- experiments

    def create(
        self,
        experiment: str,
        arms: Iterable[str],
        players: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        policy: Policy | None = None,
        horizon: int | None = None,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        floor: float = 0.0,
        holdout: float = 0.0,
        default_reward: float | None = None,
        patience: float | None = None,
        attributes: Mapping[str, Any] | None = None,
        player_limit: int | None = None,
        shares: Mapping[str, float | tuple[float, float]] | None = None,
        control: str | None = None,
        burn_in: int = 0,
        key: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Create an experiment with the arguments of `posse.Learner`; return its description.

        The policy is `posse.PosseTS()` unless one is given.
        """
        body: dict[str, Any] = {"name": experiment, "arms": list(arms), "players": _given(players)}
        body |= {"horizon": horizon, "seed": seed, "reward_range": list(reward_range), "floor": floor}
        body |= {"holdout": holdout, "default_reward": default_reward, "patience": patience}
        if policy is not None:
            body["policy"] = {"name": type(policy).__name__, "constants": policy.arguments()}
        body |= {"shares": dict(shares or {}), "control": control, "burn_in": burn_in}
        if player_limit is not None:
            body["player_limit"] = player_limit
        if attributes is not None:
            from posse.attributes import Attributes  # here, because it needs NumPy

            body["attributes"] = Attributes(attributes).to_dict()
        return self._change("POST", "/v1/experiments", body, key)

    def change(
        self,
        experiment: str,
        *,
        join: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        retire: Iterable[str] = (),
        add_arms: Iterable[str] = (),
        retire_arms: Iterable[str] = (),
        status: str | None = None,
        ship: str | None = None,
        ship_for: Mapping[str, str] | None = None,
        description: str | None = None,
        knows_others: bool = True,
        shares: Mapping[str, float | tuple[float, float]] | None = None,
        key: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Change players, arms, their shares, the status or the description: all of it or nothing.

        The status is "running", "paused", "finished" or "archived". With "finished", `ship` may name the arm that every
        decision is from then on, and `ship_for` other arms for some players. Return how it stands then.
        """
        names = {"join": join, "retire": retire, "add_arms": add_arms, "retire_arms": retire_arms}
        body: dict[str, Any] = {kind: _given(of_kind) for kind, of_kind in names.items()}
        body |= {"status": status, "ship": ship, "ship_for": dict(ship_for or {}), "description": description}
        body |= {"knows_others": knows_others, "shares": None if shares is None else dict(shares)}
        return self._change("PATCH", _path(experiment), body, key)

    def join(
        self,
        experiment: str,
        player: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        knows_others: bool = True,
        key: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Let a player join, or come back with everything it had learned."""
        join = [player] if attributes is None else {player: attributes}
        return self.change(experiment, join=join, knows_others=knows_others, key=key)

    def retire(self, experiment: str, player: str, *, key: str | None = None) -> Steps[dict[str, Any]]:
        """Let a player leave. What it has learned stays with the others, and its late rewards still count."""
        return self.change(experiment, retire=[player], key=key)

    def add_arm(self, experiment: str, arm: str, *, key: str | None = None) -> Steps[dict[str, Any]]:
        """Offer a new arm, or a retired one, to all players."""
        return self.change(experiment, add_arms=[arm], key=key)

    def retire_arm(self, experiment: str, arm: str, *, key: str | None = None) -> Steps[dict[str, Any]]:
        """Stop offering an arm. Its late rewards still count."""
        return self.change(experiment, retire_arms=[arm], key=key)

    def set_shares(
        self, experiment: str, shares: Mapping[str, float | tuple[float, float]], *, key: str | None = None
    ) -> Steps[dict[str, Any]]:
        """Replace all limits on the probabilities of arms, for all decisions from now on."""
        return self.change(experiment, shares=shares, key=key)

    def erase(self, experiment: str, player: str, *, key: str | None = None) -> Steps[str]:
        """Let the service forget the name and attributes of a player; return the name that takes its place."""
        return (yield from self._change("POST", f"{_path(experiment)}/erasures", {"player": player}, key))["player"]

    def _change(self, method: str, path: str, body: Any, key: str | None) -> Steps[Any]:
        """Ask for something that must not happen twice: with a key, so that it may be asked again."""
        return ask(method, path, body, patience=self.patience, key=uuid.uuid4().hex if key is None else key)

    # ---------------------------------------------------------------- what there is to see

    def experiments(self) -> Steps[list[dict[str, Any]]]:
        """All experiments that the token may see."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            answer = yield from self._get(f"/v1/experiments?limit={BATCH}&after={quote(after, safe='')}")
            found, after = found + answer["experiments"], answer["next"]
        return found

    def experiment(self, experiment: str) -> Steps[dict[str, Any]]:
        """The description of an experiment as it stands."""
        return self._get(_path(experiment))

    def players(self, experiment: str) -> Steps[list[dict[str, Any]]]:
        """The name of everybody who ever joined, and whether each is here."""
        return self._pages(experiment, "players", "players")

    def state(self, experiment: str) -> Steps[dict[str, Any]]:
        """The numbers behind the decisions. Many players come in several answers, each as things stood then."""
        found: dict[str, Any] = {}
        after: int | None = 0
        while after is not None:
            answer = yield from self._get(f"{_path(experiment)}/state?limit={BATCH}&after={after}")
            after = answer.pop("next")
            found = {field: found.get(field, []) + rows for field, rows in answer.items()} | {"arms": answer["arms"]}
        return found

    def diagnosis(self, experiment: str) -> Steps[dict[str, Any]]:
        """Is ε right? What `posse.insight.diagnose` says."""
        return self._get(f"{_path(experiment)}/diagnosis")

    def log(self, experiment: str, after: int = 0) -> Steps[list[dict[str, Any]]]:
        """The log as rows with the learner's columns, from the rows after number `after` on."""
        return self._pages(experiment, "log", "rows", after)

    def _pages(self, experiment: str, part: str, field: str, after: int = 0) -> Steps[list[dict[str, Any]]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = yield from self._get(f"{_path(experiment)}/{part}?after={after}")
            found += answer[field]
            if answer["next"] is None:
                return found
            after = answer["next"]

    def _get(self, path: str) -> Steps[Any]:
        return ask("GET", path, patience=self.patience)


def _given(names: Iterable[str] | Mapping[str, Mapping[str, Any]]) -> Any:
    return dict(names) if isinstance(names, Mapping) else list(names)


def _is_final(error: BaseException) -> bool:
    """Whether rewards that met with this error would always meet with it."""
    return isinstance(error, ValueError) or (isinstance(error, ServiceError) and error.kind in NOT_FOUND)


def _path(experiment: str) -> str:
    if not isinstance(experiment, str):
        raise TypeError(f"experiment={experiment!r}, but expected the name of an experiment")
    return f"/v1/experiments/{quote(experiment, safe='')}"
