"""A request that repeats an idempotency key: the same decisions again, or a refusal if the request differs."""

from __future__ import annotations

import numpy as np

from posse.learner.ledger import write_id
from posse.learner.state import Decision
from posse.service.storage.errors import ConflictingKey, Damaged
from posse.service.storage.live_experiment import LiveExperiment
from posse.service.storage.log_chain import Values


def repeated(
    live: LiveExperiment, made: list[Values], names: list[str], available: list[str] | None, key: str
) -> list[Decision]:
    """Decisions that were made before, if the request is the one that they were made for."""
    players, arms = live.state.player_roster, live.state.arm_roster
    same = [players.names[row["player"]] for row in made] == names
    if made[0]["offered"] is None:
        raise Damaged("a decision with an idempotency key does not say which arms were offered")
    offered = np.unpackbits(np.frombuffer(made[0]["offered"], np.uint8)).tolist()
    if same and available is not None:
        same = {arm for arm, open_ in zip(arms.names, offered, strict=False) if open_} == set(available)
    if not same or bool(made[0]["restricted"]) != (available is not None):
        raise ConflictingKey(
            f"the idempotency key {key!r} came before with another request; use a new key for a new one"
        )
    decisions = []
    for row in made:
        id_, player, arm = write_id(row["serial"], row["tag"]), players.names[row["player"]], arms.names[row["arm"]]
        values = np.frombuffer(row["probabilities"], "<f8").tolist()
        probabilities = {arms.names[place]: p for place, p in enumerate(values) if offered[place]}
        rest = row["round"], row["shared"], bool(row["holdout"])
        decisions.append(Decision(id_, player, arm, row["propensity"], probabilities, *rest))
    return decisions
