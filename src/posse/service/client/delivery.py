"""Reports on their way to the service, and the buffer for them. Nothing here does input or output (see retry.py)."""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from posse.checks import number
from posse.decision import ConflictingReward, Decision, UnknownDecision, as_reports, parse_id, write_id
from posse.service.client.retry import ServiceError, Steps, Unreachable, ask, experiment_path

BATCH = 1000  # the most rewards in one request
SHORT = 1.0  # seconds in which a reward is delivered; otherwise it goes into the buffer
LONGEST_REST = 5.0  # the most seconds for which rewards go into the buffer, or stay there, without a request
REFUSALS = {"conflict": ConflictingReward, "unknown": UnknownDecision, "invalid": ValueError}
FINAL = ("not-found", "unknown-experiment", "archived")

RewardStatus = Literal["taken", "known", "buffered"]
"""What became of a reward: it is new and counts, or the same came before, or it waits here for the service."""

logger = logging.getLogger("posse")


@dataclass(frozen=True)
class RewardReport:
    """A reward, outcomes or both on their way to the service."""

    experiment: str
    decision: str
    reward: float | None
    outcomes: Mapping[str, float] = field(default_factory=dict, hash=False)


class RewardDelivery:
    """Reports of rewards and outcomes, and the buffer for those that cannot be delivered now."""

    def __init__(self, patience: float, buffer_limit: int) -> None:
        self.patience, self.buffer_limit = patience, buffer_limit
        self.buffer: defaultdict[str, deque[RewardReport]] = defaultdict(deque)  # by experiment
        self.refused: deque[tuple[RewardReport, str]] = deque(maxlen=BATCH)
        self._lock = threading.Lock()  # for the buffer
        self._rest, self._rest_until = 0.0, 0.0  # while the service is away
        self._stuck_until = 0.0  # when rewards that an experiment keeps in the buffer are tried again

    @property
    def buffered(self) -> int:
        """How many rewards wait in the buffer."""
        return sum(map(len, list(self.buffer.values())))

    @overload
    def observe(
        self,
        experiment: str,
        decision: str | Decision,
        reward: float | None = None,
        outcomes: Mapping[str, float] | None = None,
    ) -> Steps[RewardStatus]: ...
    @overload
    def observe(
        self,
        experiment: str,
        decision: Mapping[str, float] | Iterable[tuple[Any, ...]],
        *,
        outcomes: Iterable[str] | None = None,
    ) -> Steps[list[RewardStatus]]: ...
    def observe(self, experiment: str, decision: Any, reward: float | None = None, outcomes: Any = None) -> Steps[Any]:
        """Report the reward or outcomes of a decision, or of many; return what became of it, or of each in order.

        Many are given as to `posse.Learner.observe`; `outcomes` names the columns of a table that are outcomes.
        "taken" is a reward that is new to the service, and "known" one that came before. While the service is away, a
        reward is "buffered": it waits in the buffer, and goes out in a batch when the service is back. A learner
        refuses a batch as a whole; the service takes the good rewards of a batch, and the error is about the first bad
        one.
        """
        one = isinstance(decision, (str, Decision))
        reports = [
            RewardReport(
                experiment,
                write_id(*parse_id(identity)),
                None if value is None and given else number(f"reward of decision {identity}", value),
                {name: number(f"{name} of decision {identity}", measured) for name, measured in given.items()},
            )
            for identity, value, given in as_reports(decision, reward, outcomes)
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
                    final = isinstance(error, ServiceError) and error.kind in FINAL  # it would always be met with
                    if not (final or isinstance(error, ValueError)):
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
            body = {"rewards": [_report_body(each) for each in batch]}
            try:
                answer = yield from ask(
                    "POST", f"{experiment_path(batch[0].experiment)}/rewards", body, patience=patience
                )
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


def _report_body(report: RewardReport) -> dict[str, Any]:
    """A report as the service takes it, which may be a version without outcomes."""
    body: dict[str, Any] = {"decision": report.decision, "reward": report.reward}
    return body | {"outcomes": report.outcomes} if report.outcomes else body
