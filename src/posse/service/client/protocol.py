"""The verbs of both clients. Nothing here does input or output (see retry.py)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from posse.decision import Decision
from posse.outcomes import Outcome, declared
from posse.service.client.delivery import BATCH, RewardDelivery
from posse.service.client.retry import Steps, ask, experiment_path

if TYPE_CHECKING:
    from posse.policies.base import Policy


class ClientProtocol(RewardDelivery):
    """The verbs of a client."""

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
        players = [player] if one else _names("player", player)
        combinations = [isinstance(each, Mapping) for each in players]
        if any(combinations) and not all(combinations):
            raise TypeError("players are given by name and by attributes, but expected one way in one request")
        field = "attributes" if any(combinations) else "player" if one else "players"
        body: dict[str, Any] = {field: players[0] if one else players}
        if available is not None:
            body["available"] = _names("available", available)
        answer = yield from self._change("POST", f"{experiment_path(experiment)}/decisions", body, key)
        decisions = [Decision(**each) for each in answer["decisions"]]
        return decisions[0] if one else decisions

    def record(
        self, experiment: str, rewards: Iterable[tuple[str, str, float]], *, key: str | None = None
    ) -> Steps[int]:
        """Record rewards of the past, as (player, arm, reward), that the service did not choose; a call is a round."""
        body = {"rewards": [{"player": player, "arm": arm, "reward": reward} for player, arm, reward in rewards]}
        return (yield from self._change("POST", f"{experiment_path(experiment)}/records", body, key))["taken"]

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
        outcomes: Mapping[str, Outcome | Mapping[str, Any]] | None = None,
        description: str = "",
        key: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Create an experiment with the arguments of `posse.Learner`; return its description.

        The policy is `posse.PosseTS()` unless one is given.
        """
        body: dict[str, Any] = {"name": experiment, "arms": _names("arms", arms), "players": _names("players", players)}
        body |= {"horizon": horizon, "seed": seed, "reward_range": list(reward_range), "floor": floor}
        body |= {"holdout": holdout, "default_reward": default_reward, "patience": patience}
        if policy is not None:
            body["policy"] = {"name": type(policy).__name__, "constants": policy.arguments()}
        body |= {"shares": dict(shares or {}), "control": control, "burn_in": burn_in, "description": description}
        if player_limit is not None:
            body["player_limit"] = player_limit
        if attributes is not None:
            from posse.attributes import Attributes  # here, because it needs NumPy

            body["attributes"] = Attributes(attributes).to_dict()
        if outcomes is not None:
            body["outcomes"] = {name: each.to_dict() for name, each in declared(outcomes).items()}
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
        body: dict[str, Any] = {"status": status, "ship": ship, "description": description}
        for name, limits in (("ship_for", ship_for), ("shares", shares)):
            body[name] = None if limits is None else dict(limits)
        for name, names in (("join", join), ("retire", retire), ("add_arms", add_arms), ("retire_arms", retire_arms)):
            body[name] = _names(name, names)
        body["knows_others"] = knows_others
        return self._change("PATCH", experiment_path(experiment), body, key)

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
        path = f"{experiment_path(experiment)}/erasures"
        return (yield from self._change("POST", path, {"player": player}, key))["player"]

    # ---------------------------------------------------------------- what there is to see

    def experiments(self, archived: bool = False, search: str = "") -> Steps[list[dict[str, Any]]]:
        """The experiments that the token may see: archived ones, or all others; `search` is a part of their names."""
        asked = f"limit={BATCH}&archived={str(archived).lower()}&search={quote(search, safe='')}"
        return self._pages(f"/v1/experiments?{asked}&after=", "experiments", "")

    def experiment(self, experiment: str) -> Steps[dict[str, Any]]:
        """The description of an experiment as it stands."""
        return self._get(experiment_path(experiment))

    def players(self, experiment: str) -> Steps[list[dict[str, Any]]]:
        """The name of everybody who ever joined, and whether each is here."""
        return self._pages(f"{experiment_path(experiment)}/players?after=", "players", 0)

    def state(self, experiment: str) -> Steps[dict[str, Any]]:
        """The numbers behind the decisions. Many players come in several answers, each as things stood then."""
        found: dict[str, Any] = {}
        after: int | None = 0
        while after is not None:
            answer = yield from self._get(f"{experiment_path(experiment)}/state?limit={BATCH}&after={after}")
            after = answer.pop("next")
            found = {field: found.get(field, []) + rows for field, rows in answer.items()} | {"arms": answer["arms"]}
        return found

    def diagnosis(self, experiment: str) -> Steps[dict[str, Any]]:
        """Is ε right? What `posse.insight.diagnose` says."""
        return self._get(f"{experiment_path(experiment)}/diagnosis")

    def watch(self, experiment: str) -> Steps[dict[str, Any]]:
        """Do choices and rewards come as they should, and what does adapting earn? What `posse.watch` says."""
        return self._get(f"{experiment_path(experiment)}/watch")

    def conclusion(self, experiment: str) -> Steps[dict[str, Any]]:
        """Can it end, and which arm should be shipped for whom? What `posse.conclude` says."""
        return self._get(f"{experiment_path(experiment)}/conclusion")

    def summary(self, experiment: str) -> Steps[str]:
        """The whole experiment on one page of HTML that prints well."""
        return ask("GET", f"{experiment_path(experiment)}/summary", patience=self.patience, page=True)

    def log(self, experiment: str, after: int = 0) -> Steps[list[dict[str, Any]]]:
        """The log as rows with the learner's columns, from the rows after number `after` on."""
        return self._pages(f"{experiment_path(experiment)}/log?after=", "rows", after)

    # ---------------------------------------------------------------- for whoever runs the service

    def delete(self, experiment: str, *, key: str | None = None) -> Steps[int]:
        """Delete an archived experiment for good; return how many decisions it had. Its name is free again."""
        return (yield from self._change("DELETE", experiment_path(experiment), None, key))["decisions"]

    def create_token(
        self,
        scopes: Iterable[str],
        experiment: str | None = None,
        *,
        expires: float | None = None,
        label: str | None = None,
        key: str | None = None,
    ) -> Steps[str]:
        """Make a token for one experiment or for all, which expires in so many seconds; return its secret."""
        scopes = [scopes] if isinstance(scopes, str) else list(scopes)
        body = {"scopes": scopes, "experiment": experiment, "expires": expires, "label": label}
        return (yield from self._change("POST", "/v1/tokens", body, key))["token"]

    def tokens(self) -> Steps[list[dict[str, Any]]]:
        """All tokens, without their secrets."""
        return (yield from self._get("/v1/tokens"))["tokens"]

    def revoke_token(self, number: int, *, key: str | None = None) -> Steps[None]:
        """End a token, by its number."""
        yield from self._change("DELETE", f"/v1/tokens/{number}", None, key)

    def audit(self, experiment: str | None = None, after: int = 0) -> Steps[list[dict[str, Any]]]:
        """Who changed what, about one experiment or all, from the entries after number `after` on."""
        only = "" if experiment is None else f"&experiment={quote(experiment, safe='')}"
        return self._pages(f"/v1/audit?limit={BATCH}{only}&after=", "entries", after)

    # ---------------------------------------------------------------- how it is asked

    def _change(self, method: str, path: str, body: Any, key: str | None) -> Steps[Any]:
        """Ask for something that must not happen twice: with a key, so that it may be asked again."""
        return ask(method, path, body, patience=self.patience, key=uuid.uuid4().hex if key is None else key)

    def _get(self, path: str) -> Steps[Any]:
        return ask("GET", path, patience=self.patience)

    def _pages(self, path: str, field: str, after: str | int) -> Steps[list[dict[str, Any]]]:
        """All entries of a list that comes page by page; the path ends where the last known one belongs."""
        found: list[dict[str, Any]] = []
        while True:
            answer = yield from self._get(path + quote(str(after), safe=""))
            found += answer[field]
            if answer["next"] is None:
                return found
            after = answer["next"]


def _names(argument: str, given: Any) -> Any:
    """Several names, or {name: …}, as JSON takes them. A string would be taken for its letters."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{argument}={given!r}, but expected names, such as ['first', 'second']")
    return list(given)
