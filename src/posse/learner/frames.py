"""Players and past rewards as users give them: names, dictionaries, tuples or tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posse.decision import column_values, columns_of, present
from posse.learner.setup import Setup, check_names


def given_records(rewards: Any) -> Any:
    """Rewards of the past as (player, arm, reward), if they are a data frame or an Arrow table; others as they are."""
    columns = columns_of(rewards)
    if columns is None:
        return rewards
    expected = "'player', 'arm' and 'reward'"
    return list(zip(*column_values(columns, "player", "arm", "reward", expected=expected), strict=True))


def given_players(setup: Setup, players: Any) -> dict[str, list[Any]]:
    """Players as users give them: their names, and the values of their attributes if there are any.

    They are given as names, as {name: {attribute: value}}, or as a data frame or an Arrow table.
    """
    given: list[Mapping[str, Any]] | None = None
    columns = None if isinstance(players, Mapping) else columns_of(players)
    if isinstance(players, Mapping):
        players, given = list(players), list(players.values())
    elif columns is not None:
        names = [name for name in columns if name != "player"]
        players, *values = column_values(columns, "player", *names, expected="'player', and attributes")
        given = [present(names, row) for row in zip(*values, strict=True)]
        given = given or [{}] * len(players)
    checked = check_names("player", players)
    setup.check_players(len(checked))
    if given is None:
        return {"players": checked}
    made = []
    for name, attributes in zip(checked, given, strict=True):
        try:
            made.append(list(setup.attributes.values(attributes)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"player {name!r}: {error}") from None
    return {"players": checked, "attributes": made}
