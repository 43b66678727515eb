"""A chain of shops that does not exist, sending traffic to a service that does."""

from __future__ import annotations

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
SHARE_OF_BUYERS = (0.28, 0.42, 0.40, 0.33, 0.25)  # for each window, in the average shop
STATION = (0.06, 0.08, 0.16, 0.05, 0.04)  # in the last shop, where people hurry past, and books do best
APART = 0.04  # by how much other shops differ from the average, at most
EPSILON = 0.1  # what the chain believes of all its shops

SHARING, ALONE = "Shop windows", "Shop windows, each shop alone"
RUSH = 3000  # decisions that come as fast as they can, so that there is something to see
STEP = 0.1  # seconds between two rounds of customers
MEAN_WAIT = 3.0  # seconds until it is known whether a customer bought
FORGOTTEN = 0.02  # of the rewards, which are never reported
PATIENCE = 60.0  # seconds after which silence counts as no sale


@dataclass
class Chain:
    """Customers who come to the shops, see the window that the service chose, and buy or not, after a while."""

    client: Client
    clock: Callable[[], float] = time.monotonic
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    due: list[tuple[float, str, str, float]] = field(default_factory=list)
    """A heap: when a reward is known, of which experiment and decision, and what it is."""
    served: int = 0

    def __post_init__(self) -> None:
        means = np.array(SHARE_OF_BUYERS) + self.random.uniform(-APART, APART, (len(SHOPS), len(WINDOWS)))
        means[-1] = STATION
        self.means = means

    def open(self) -> None:
        """Begin the experiments, where they have not begun: the same shops, sharing and each alone."""
        there = {each["name"] for each in self.client.experiments()}
        policies: dict[str, Policy] = {SHARING: PosseTS(EPSILON), ALONE: IndTSV()}
        for name, policy in policies.items():
            if name not in there:
                self.client.create(
                    name, arms=WINDOWS, players=SHOPS, policy=policy, default_reward=0.0, patience=PATIENCE
                )

    def serve(self, customers: int) -> None:
        """So many customers, each in a shop of its own; both experiments meet the same ones."""
        shops = self.random.choice(len(SHOPS), size=min(customers, len(SHOPS)), replace=False)
        tastes = dict(zip((SHOPS[shop] for shop in shops), self.random.random(len(shops)), strict=True))
        for experiment in (SHARING, ALONE):
            for decision in self._choose(experiment, list(tastes)):
                mean = self.means[SHOPS.index(decision.player), WINDOWS.index(decision.arm)]
                bought = float(tastes[decision.player] < mean)
                if self.random.random() >= FORGOTTEN:
                    known = self.clock() + self.random.exponential(MEAN_WAIT)
                    heapq.heappush(self.due, (known, experiment, decision.id, bought))
        self.served += len(shops)

    def _choose(self, experiment: str, shops: list[str]) -> list[Decision]:
        """Decisions for these shops; none while somebody has paused the experiment."""
        try:
            return self.client.choose(experiment, shops)
        except ServiceError as error:
            if error.kind != "paused":
                raise
            return []

    def report(self) -> None:
        """Report what is known by now."""
        known: dict[str, dict[str, float]] = {SHARING: {}, ALONE: {}}
        while self.due and self.due[0][0] <= self.clock():
            _, experiment, decision, reward = heapq.heappop(self.due)
            known[experiment][decision] = reward
        for experiment, rewards in known.items():
            if rewards:
                self.client.observe(experiment, rewards)


def send_traffic(url: str, rate: float, stop: Callable[[], bool] = lambda: False) -> None:
    """Send customers to a service, so many a second, until `stop` says so or Ctrl-C."""
    rate = number("rate", rate, above=0, most=1000)
    with Client(url) as client:
        chain = Chain(client)
        chain.open()
        owed, last = 0.0, time.monotonic()
        while not stop():
            now = time.monotonic()
            owed, last = min(owed + rate * (now - last), rate), now
            if chain.served < RUSH:
                owed = float(len(SHOPS))
            while owed >= 1:
                customers = min(int(owed), len(SHOPS))
                chain.serve(customers)
                owed -= customers
            chain.report()
            if chain.served >= RUSH:
                time.sleep(STEP)


def run(database: str, rate: float, announce: Callable[[str], Any]) -> None:
    """Run a service and its traffic until Ctrl-C; `announce` is called with its address."""
    from posse.service.serve import background
    from posse.service.settings import Settings

    number("rate", rate, above=0, most=1000)
    with background(Settings(database)) as url:
        announce(url)
        send_traffic(url, rate)
