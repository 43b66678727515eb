"""The life of an experiment: its status, what people say about it, and the arms that it gives once it is finished.

All of it follows from the log, where details name players and arms by their places.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from posse.learner.roster import Roster
from posse.service.storage.errors import Refused

Status = Literal["running", "paused", "finished", "archived"]
MOVES = {  # the kind of the row that the log gets, by the status before and after
    ("running", "paused"): "pause",
    ("running", "finished"): "finish",
    ("paused", "running"): "resume",
    ("paused", "finished"): "finish",
    ("finished", "running"): "resume",
    ("finished", "archived"): "archive",
    ("archived", "finished"): "restore",
}
REACHED = {kind: after for (_, after), kind in MOVES.items()}
KINDS = (*REACHED, "describe")
LONGEST_DESCRIPTION = 2000


class Shipment(NamedTuple):
    """The arms that a finished experiment gives, by place: some players have their own, everybody else the first."""

    arm: int
    players: dict[int, int]

    @classmethod
    def parse(cls, detail: str | None) -> Self | None:
        """From the detail of the log's row; None if nothing was shipped."""
        if detail is None:
            return None
        said = json.loads(detail)
        return cls(said["ship"], dict(said["ship_for"]))

    def written(self) -> str:
        """As the detail of the log's row."""
        return json.dumps({"ship": self.arm, "ship_for": sorted(self.players.items())})

    def offers(self, players: Iterable[int], offered: np.ndarray) -> dict[int, np.ndarray]:
        """What players are offered, bool [arm]: the shipped arm alone. Nobody is here whose arm is not available."""
        arms = {player: self.players.get(player, self.arm) for player in players}
        return {player: np.arange(offered.size) == arm for player, arm in arms.items() if offered[arm]}

    def named(self, players: Mapping[int, str] | Sequence[str], arms: Sequence[str]) -> dict[str, Any]:
        """In names, as the API has it, if there are names of players."""
        own = {players[player]: arms[arm] for player, arm in self.players.items()} if players else {}
        return {"ship": arms[self.arm], "ship_for": own}


@dataclass
class Life:
    """Where an experiment is in its life."""

    status: str = "running"
    description: str = ""
    shipment: Shipment | None = None

    def columns(self) -> dict[str, str | None]:
        """As the experiment's row has it."""
        shipped = self.shipment and self.shipment.written()
        return {"status": self.status, "description": self.description, "shipped": shipped}

    def follow(self, kind: str, detail: str | None) -> None:
        """Take in a row of the log."""
        if kind == "describe":
            self.description = json.loads(detail or "")
            return
        self.status = REACHED[kind]
        if kind in ("finish", "resume"):
            self.shipment = Shipment.parse(detail)

    def moves(
        self, status: str | None, shipment: Shipment | None, description: str | None
    ) -> list[tuple[str, str | None]]:
        """The rows that the log gets, each a kind and its detail, so that all this holds; Refused if it cannot."""
        found: list[tuple[str, str | None]] = []
        if description is not None and check_description(description) != self.description:
            found.append(("describe", json.dumps(description)))
        if shipment is not None and status != "finished":
            raise ValueError(f"status={status!r}, but expected 'finished' together with ship")
        written = None if shipment is None else shipment.written()
        if status is not None and status != self.status:
            if (self.status, status) not in MOVES:
                ways = " or ".join(after for before, after in MOVES if before == self.status)
                raise Refused(f"the experiment is {self.status}, so it can become {ways}, but not {status}")
            kind = MOVES[self.status, status]
            found.append((kind, written if kind == "finish" else None))
        if shipment not in (None, self.shipment) and found[-1:] != [("finish", written)]:
            found.append(("finish", written))
        return found


def parse_shipment(
    ship: str | None, ship_for: Mapping[str, str] | None, players: Roster, arms: Roster
) -> Shipment | None:
    """Which arms are to be given, from names: `ship` to everybody for whom `ship_for` names no other."""
    if ship is None:
        if ship_for:
            raise ValueError("ship_for has arms for some players, but expected ship too, the arm for everybody else")
        return None
    own = {players.place(player): arms.current(arm) for player, arm in (ship_for or {}).items()}
    return Shipment(arms.current(ship), own)


def check_description(text: str) -> str:
    """What people say about an experiment: some lines of text."""
    if len(text) > LONGEST_DESCRIPTION or not text.replace("\n", " ").isprintable():
        expected = f"expected at most {LONGEST_DESCRIPTION:,} printable characters, in lines"
        raise ValueError(f"description={text[:60]!r}, but {expected}")
    return text
