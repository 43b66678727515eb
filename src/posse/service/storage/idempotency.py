"""Requests that come again with the key they came with before: the same answer, or a refusal if they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from posse.learner.ledger import write_id
from posse.learner.setup import LONGEST_NAME
from posse.learner.state import Decision
from posse.service.storage.errors import ConflictingKey, Damaged
from posse.service.storage.live_experiment import Book
from posse.service.storage.log_chain import Values


def repeated(book: Book, made: list[Values], names: list[str], available: list[str] | None, key: str) -> list[Decision]:
    """Decisions that were made before, if the request is the one that they were made for."""
    players, arms = book.state.player_roster, book.state.arm_roster
    same = [players.names[row["player"]] for row in made] == names
    offered = _bits(made[0]["offered"])
    if same and available is not None:
        same = {arm for arm, open_ in zip(arms.names, offered, strict=False) if open_} == set(available)
    if not same or bool(made[0]["restricted"]) != (available is not None):
        raise ConflictingKey(
            f"the idempotency key {key!r} came before with another request; use a new key for a new one"
        )
    decisions = []
    for row in made:
        values = np.frombuffer(row["probabilities"], "<f8").tolist()
        probabilities = {arms.names[arm]: p for arm, p in enumerate(values) if offered[arm]}
        decisions.append(
            Decision(
                write_id(row["serial"], row["tag"]),
                players.names[row["player"]],
                arms.names[row["arm"]],
                row["propensity"],
                probabilities,
                row["round"],
                row["shared"],
                bool(row["holdout"]),
            )
        )
    return decisions


def _bits(offered: bytes | None) -> list[int]:
    if offered is None:
        raise Damaged("a decision with an idempotency key does not say which arms were offered")
    return np.unpackbits(np.frombuffer(offered, np.uint8)).tolist()


def check_key(key: Any) -> str:
    """An idempotency key."""
    if not isinstance(key, str) or not (0 < len(key) <= LONGEST_NAME and key.isprintable()):
        raise ValueError(f"idempotency key {str(key)[:30]!r}, but expected 1 to {LONGEST_NAME} printable characters")
    return key
