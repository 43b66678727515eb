"""The demonstration: a made-up chain of shops that sends traffic to a real service."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posse.checks import number
from posse.learner import Decision
from posse.policies.base import Policy
from posse.policies.ind_tsv import IndTSV
from posse.policies.posse_ts import PosseTS
from posse.service.client import Client, ServiceError

SHOPS = ("Lyon", "Nice", "Lille", "Metz", "Brest", "Dijon", "Nantes", "Tours", "Reims", "Pau", "Caen", "Gare du Nord")
WINDOWS = ("plants", "blue light", "books", "mannequins", "bare")
COME_IN = (0.44, 0.62, 0.58, 0.50, 0.38)  # the share of passers-by who come in, by window, in the average shop
STATION = (0.09, 0.12, 0.20, 0.08, 0.05)  # in the last shop, where people hurry past and books do best
APART = 0.04  # the other shops differ from the average by at most this

SHARING, ALONE = "Shop windows", "Shop windows, each shop alone"
RUSH = 3000  # so many people pass as fast as the service answers, so that there is something to see
STEP = 0.1  # seconds between two groups of people
MEAN_WAIT = 3.0  # seconds until it is known whether somebody came in
FORGOTTEN = 0.02  # the share of rewards that are never reported, after the rush: conclusions wait for those
COMPILING = 120.0  # seconds that the very first decision may take, on a slow machine
PATIENCE = 60.0  # seconds after which a missing reward counts as 0
SETTINGS: dict[str, Any] = {  # a bare window is what the shops had before; some decisions stay random, to compare
    "default_reward": 0.0,
    "patience": PATIENCE,
    "control": "bare",
    "holdout": 0.05,
}


@dataclass
class ShopChain:
    """People pass the shops, see the window that the service chose, and come in or not after a while."""

    client: Client
    clock: Callable[[], float] = time.monotonic
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    due: list[tuple[float, str, str, float]] = field(default_factory=list)
    """A heap of rewards: when each is known, its experiment, its decision and its value."""
    begun: set[str] = field(default_factory=set)
    passed: int = 0

    def __post_init__(self) -> None:
        means = np.array(COME_IN) + self.random.uniform(-APART, APART, (len(SHOPS), len(WINDOWS)))
        means[-1] = STATION
        self.means = means

    def open(self, experiment: str) -> None:
        """Create an experiment with all shops, sharing or each alone, unless it exists."""
        if experiment not in self.begun:
            if experiment not in [each["name"] for each in self.client.experiments()]:
                policy: Policy = PosseTS() if experiment == SHARING else IndTSV()
                self.client.create(experiment, WINDOWS, SHOPS, policy, **SETTINGS)
            self.begun.add(experiment)

    def pass_by(self, people: int) -> None:
        """Let so many people pass, each at another shop. Both experiments meet the same people."""
        shops = self.random.choice(len(SHOPS), size=min(people, len(SHOPS)), replace=False)
        tastes = dict(zip((SHOPS[shop] for shop in shops), self.random.random(len(shops)), strict=True))
        for experiment in (SHARING, ALONE):
            self.open(experiment)  # one at a time, so that compiling for the second does not delay the first
            for decision in self._choose(experiment, list(tastes)):
                mean = self.means[SHOPS.index(decision.player), WINDOWS.index(decision.arm)]
                comes = float(tastes[decision.player] < mean)
                if self.passed < RUSH or self.random.random() >= FORGOTTEN:
                    known = self.clock() + self.random.exponential(MEAN_WAIT)
                    heapq.heappush(self.due, (known, experiment, decision.id, comes))
        self.passed += len(shops)

    def _choose(self, experiment: str, shops: list[str]) -> list[Decision]:
        """Decisions for these shops; none while the experiment is paused, or once it is finished."""
        try:
            return self.client.choose(experiment, shops)
        except ServiceError as error:
            if error.kind not in ("paused", "finished", "archived"):
                raise
            return []

    def report(self) -> None:
        """Report the rewards that are known by now."""
        known: dict[str, dict[str, float]] = {SHARING: {}, ALONE: {}}
        while self.due and self.due[0][0] <= self.clock():
            _, experiment, decision, reward = heapq.heappop(self.due)
            known[experiment][decision] = reward
        for experiment, rewards in known.items():
            if rewards:
                self.client.observe(experiment, rewards)


def send_traffic(url: str, rate: float) -> None:
    """Let so many people a second pass the shops, until Ctrl-C."""
    with Client(url, timeout=COMPILING) as client:
        chain = ShopChain(client)
        owed, last = 0.0, time.monotonic()
        while True:
            now = time.monotonic()
            owed, last = min(owed + rate * (now - last), rate), now
            if chain.passed < RUSH:
                owed = float(len(SHOPS))
            while owed >= 1:
                people = min(int(owed), len(SHOPS))
                chain.pass_by(people)
                owed -= people
            chain.report()
            if chain.passed >= RUSH:
                time.sleep(STEP)


def run(database: str, rate: float, announce: Callable[[str], Any]) -> None:
    """Run a service and its traffic until Ctrl-C; `announce` is called with the address."""
    from posse.service.process.supervisor import background
    from posse.service.settings import Settings

    number("rate", rate, above=0, most=1000)
    with background(Settings(database, open=True, answer_seconds=COMPILING)) as url:
        announce(url)
        send_traffic(url, rate)
