"""The state of a learner: names, what the policy knows, and counters. It has no clock, no lock and no log.

`Learner` keeps one in memory; the service keeps one for each experiment, and brings it up to date from its database.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posse.attributes import Value
from posse.checks import WrongValue
from posse.decision import Decision, as_number, listed, write_id
from posse.learner import kernel
from posse.learner.core import OF_SUMMARY, Core, roomy
from posse.learner.counts import Counts
from posse.learner.guard import ALARM, Guard, OutcomeValue
from posse.learner.ledger import Row
from posse.learner.roster import PlayerError, Roster
from posse.learner.setup import Name, Setup, check_name, check_names
from posse.learner.shares import NO_LIMITS, Shares, check_least, check_limits, check_shares, limits
from posse.policies.base import Law
from posse.policies.beta_draw import LAWS, is_law
from posse.policies.state import State, fades_at
from posse.policies.statistics import COUNT, SQUARES, SUM
from posse.rewards import GRID
from posse.streams import key as stream_key
from posse.text import listed as named

NOTHING: Mapping[Any, Any] = {}


class LearnerState:
    """All that the next decision rests on. Players and arms are given by their places on the rosters."""

    def __init__(
        self, setup: Setup, arms: list[str], players: list[str], values: Sequence[tuple[Value, ...]] | None = None
    ) -> None:
        if not arms:
            raise ValueError("no arms given; expected at least one")
        if setup.control is not None and setup.control not in arms:
            raise ValueError(f"control={setup.control!r}, but the arms are {named(arms)}")
        check_limits(setup.shares, setup.floor, arms, arms)
        self.setup = setup
        self.core = Core(setup.policy.for_rewards(setup.low, setup.high), setup.attributes)
        self.arm_roster, self.player_roster = Roster("arm", arms), Roster("player", players)
        self.rounds = self.events = self.decisions = 0
        self.values = self._values_of_all(values)  # of attributes, of each player
        self.known = self.core.empty(self.values, len(arms), self._log_T())  # what the policy knows
        self.limit(setup.shares)
        self._wait_for(np.zeros((len(arms), len(players)), np.int64))
        self.guard = Guard(setup.outcomes, len(arms))
        self._combinations: dict[tuple[Value, ...], str] = {}  # names of those that have been seen
        self._key = stream_key(setup.seed)
        self._tags = zlib.crc32(f"{self._key} ".encode())  # what the tags of all decisions begin with

    def _values_of_all(self, values: Sequence[tuple[Value, ...]] | None) -> list[tuple[Value, ...]]:
        """Each player's values of the attributes; nothing is known of anybody if none are given."""
        players = len(self.player_roster.names)
        made = list(values or [self.setup.attributes.values({})] * players)
        if len(made) != players:
            raise ValueError(f"attributes of {len(made)} players, but there are {players}: expected one row for each")
        return made

    def limit(self, shares: Shares) -> None:
        """Take these shares for those of now."""
        setup, self.shares = self.setup, shares
        # What probabilities are made of beside the indices:
        self._mixture = setup.floor, limits(shares, setup.floor, self.arm_roster.names), setup.holdout, setup.burn_in

    # ---------------------------------------------------------------- decisions

    def choose(
        self, players: list[int], offered: np.ndarray, now: float, own: Mapping[int, np.ndarray] = NOTHING
    ) -> list[tuple[Decision, Row]]:
        """One round: a decision for each player, from what was known before it. `wait` is then due for each.

        `own` has what some players are offered instead.
        """
        offers = np.array([own.get(player, offered) for player in players]) if own else offered[None]
        count, arms = len(players), offered.size
        if self.core.any_late:
            self.core.look_up(self.known, players, self._log_T())
        out, drawn = np.empty((count, 4, arms)), np.empty((count, 4))
        scratch = np.empty((kernel.ROWS, arms)), np.empty((arms, self.core.scratch))
        rest = offers, self._mixture, self.decisions, self._key, out, drawn, *scratch
        self.core.kernels.choose(tuple(self.known), np.array(players, np.int64), *self._indexed(), *rest)
        probabilities = out[:, kernel.PROBABILITY]
        restricted = bool(own) or offered is not self.arm_roster.here or self.arm_roster.count < arms
        if restricted:
            np.copyto(probabilities, math.nan, where=~offers)
        names, round_, made = self.arm_roster.names, self.rounds + 1, []
        time, stored, size = repr(now), probabilities.tobytes(), 8 * arms
        found = zip(players, drawn.tolist(), probabilities.tolist(), strict=True)
        for place, (player, (chosen, held_out, weight, check), shares) in enumerate(found):
            if math.isnan(check):
                raise self._no_usable_index(player, out[place])
            serial, arm, propensity, holdout = self.decisions + place, int(chosen), shares[int(chosen)], held_out == 1.0
            # The tag comes from places, not names: otherwise it could confirm a guess of an erased name.
            tag = zlib.crc32(f"{serial} {time} {player} {arm}".encode(), self._tags)
            named = dict(zip(names, shares, strict=False))
            if restricted:
                named = {name: share for name, share in named.items() if share == share}
            shared = 0.0 if holdout or serial < self.setup.burn_in else weight
            id_, whose = write_id(serial, tag), self.player_roster.names[player]
            decision = Decision(id_, whose, names[arm], propensity, named, round_, shared, holdout)
            of_arms = stored[place * size : (place + 1) * size]
            row = Row(serial, tag, round_, player, arm, propensity, holdout, shared, now, of_arms)
            made.append((decision, row))
        self.rounds += 1
        self.decisions += count
        return made

    def _no_usable_index(self, player: int, out: np.ndarray) -> ValueError:
        centers, scales = out[kernel.CENTER], out[kernel.SCALE]
        policy, is_beta = self.core.policy, self.core.policy.law is Law.BETA
        usable = is_law(centers, scales) if is_beta else ~np.isnan(centers) & np.isfinite(scales) & (scales >= 0)
        arm = int(usable.argmin())
        own = zip(policy.statistics, self.known.indexed[:, arm, player].tolist(), strict=True)
        shown = ", ".join(f"{statistic.name}={value * statistic.unit:g}" for statistic, value in own)
        numbers = f"center {centers[arm]:g} and scale {scales[arm]:g}"
        expected = "numbers, and a scale that is finite and not negative"
        if is_beta:
            numbers = f"a={centers[arm]:g}, b={scales[arm]:g} of a Beta law"
            expected = LAWS
        return ValueError(
            f"{policy.label} gives no usable index for player {player}, arm {arm} with {shown}: {numbers}, "
            f"but expected {expected}"
        )

    def _wait_for(self, waiting: np.ndarray) -> None:
        """Take these for the pulls whose rewards have not come, [arm, player]; the array gets room for more players."""
        arms, players = waiting.shape
        self._waiting = np.zeros((arms, roomy(players)), np.int64)
        self._waiting[:, :players] = waiting
        self.waiting, self.all_waiting = self._waiting[:, :players], waiting.sum(axis=1)

    def wait(self, row: Row, by: int = 1) -> None:
        """Count a decision among those that wait for their reward, or with −1 no longer."""
        self.waiting[row.arm, row.player] += by
        self.all_waiting[row.arm] += by

    def offered(self, available: Iterable[Name] | None) -> np.ndarray:
        """Which arms are offered, bool [arm]: those that are here, or the available ones, by name."""
        if available is None:
            return self.arm_roster.here
        places = [self.arm_roster.current(name) for name in check_names("arm", available)]
        if not places:
            raise ValueError("available=[], but expected at least one arm")
        offered = np.zeros(len(self.arm_roster.names), np.bool_)
        offered[places] = True
        return offered

    def evaluate(self, player: int) -> np.ndarray:
        """A player's centers, scales and weights of others' data in the next round, one column an arm.

        A fourth row is for probabilities.
        """
        self.core.look_up(self.known, [player], self._log_T())
        out = np.empty((4, self.all_waiting.size))
        self.core.kernels.evaluate(self.known, player, *self._indexed(), out)
        return out

    def _indexed(self) -> tuple[Any, ...]:
        """What the indices of the next decisions rest on beside what is known, as the kernels take it."""
        M, K = self.player_roster.count, self.arm_roster.count
        return self.waiting, self.all_waiting, M, K, self._log_T(1), self.core.constants

    def _log_T(self, ahead: int = 0) -> float:
        """ln T of this round, or of one ahead: ln max(T, t) with a horizon, ln max(t, 2) without."""
        return math.log(max(self.rounds + ahead, self.setup.horizon or 2))

    def all_known(self) -> State:
        """What the policy knows, with what the last summary says of every player."""
        self.core.look_up_all(self.known, self._log_T())
        return self.known

    def beliefs(self) -> tuple[np.ndarray, np.ndarray]:
        """Centers and scales of what the policy believes, [player, arm]; `policy.reward_of` turns them into rewards."""
        centers, scales = (np.empty(self.waiting.T.shape) for _ in range(2))
        _, _, *rest = self._indexed()
        self.core.kernels.believe(self.all_known(), *rest, centers, scales)
        return centers, scales

    def probabilities(self, evaluated: np.ndarray, offered: np.ndarray, mixed: bool = True) -> np.ndarray:
        """Each arm's probability, from what `evaluate` gave; with limits and holdout, if they are mixed in."""
        mixture = self._mixture if mixed else (0.0, NO_LIMITS, 0.0, 0)
        scratch = np.empty((kernel.ROWS, offered.size)), np.empty((offered.size, self.core.scratch))
        self.core.kernels.weigh(offered, mixture, self.decisions, evaluated, *scratch)
        return evaluated[kernel.PROBABILITY]

    def shared_weights(self) -> np.ndarray:
        """How much the next decision of each player is expected to rest on others' data, from 0 to 1."""
        found = [self.evaluate(player) for player in range(len(self.player_roster.names))]
        here = self.arm_roster.here
        return np.array([each[kernel.WEIGHT] @ self.probabilities(each, here, mixed=False) for each in found])

    # ---------------------------------------------------------------- rewards

    def observe(self, answered: list[tuple[Row, float]]) -> None:
        """One event: the rewards of one round, in the order of their decisions, so that a log replays to the same."""
        self.events += 1
        pulls = np.empty((3, len(answered)), np.int64)
        for place, (row, reward) in enumerate(sorted(answered, key=lambda pair: pair[0].serial)):
            pulls[:, place] = row.player, row.arm, self.steps(reward)
            self.core.has_data[row.player] = True
            if row.serial >= 0:
                self.wait(row, -1)
        if self.core.kernels.observe(tuple(self.known), pulls, self.events, self._log_T(), self.core.constants):
            self.core.share_everything(self.known, self._log_T())
        self._forget()

    def _forget(self) -> None:
        """Forget a step of the policy's half-life if this event is its last."""
        half_life = self.setup.policy.forget
        if half_life is not None and (step := fades_at(self.events, half_life)):
            self.core.kernels.fade(self.all_known(), step, self._log_T(), self.core.constants)

    def steps(self, reward: float) -> int:
        """A reward in steps of the grid on [0, 1]; two rewards are the same if these are."""
        low, high = self.setup.low, self.setup.high
        return round((reward - low) / (high - low) * GRID)

    def check_records(self, rewards: Iterable[tuple[Name, Name, float]]) -> list[tuple[int, int, float]]:
        """Places of player and arm, and the reward, of rewards that were not decided here."""
        checked = []
        for entry in listed("rewards", rewards):
            if not (isinstance(entry, (tuple, list)) and len(entry) == 3):
                raise TypeError(f"{entry!r}, but expected (player, arm, reward)")
            player, arm, reward = entry
            value = self.setup.check_reward(f"reward of {player!r} for {arm!r}", as_number(reward))
            checked.append((self.player_roster.place(player), self.arm_roster.place(arm), value))
        return checked

    def record(self, checked: list[tuple[int, int, float]], now: float) -> list[tuple[Row, float]]:
        """The rows for one round of past rewards, to `observe` if there are any."""
        self.rounds += 1
        return [(Row(-1, 0, self.rounds, player, arm, 0.0, False, 0.0, now), value) for player, arm, value in checked]

    # ---------------------------------------------------------------- players and arms

    def named(self, players: Iterable[Any]) -> tuple[list[str], dict[str, tuple[Value, ...]]]:
        """The names of players, each given by name or as a combination of attributes; and those that have yet to join.

        A combination may come several times, once for each decision; a name may not.
        """
        names, plain = [], []
        new: dict[str, tuple[Value, ...]] = {}
        for player in listed("players", players):
            if not isinstance(player, str) and isinstance(player, (dict, Mapping)):  # `dict` is quicker to tell
                names.append(self._combination(player, new))
            else:
                names.append(check_name("player", player))
                plain.append(names[-1])
        if len(set(plain)) < len(plain):
            check_names("player", plain)  # which says who is there twice
        self.setup.check_players(len(self.player_roster.names) + len(new))
        return names, new

    def _combination(self, given: Mapping[str, Any], new: dict[str, tuple[Value, ...]]) -> str:
        """The name of a combination of attributes, which is added to `new` if it was not seen before."""
        attributes = self.setup.attributes
        if not attributes:
            raise WrongValue(f"{given!r:.60}, but no attributes were declared: expected the name of a player")
        values = attributes.values(given)
        known = self._combinations.get(values)
        if known is not None:
            return known
        name = attributes.name(values)
        if name in self.player_roster:
            self.check_join(name, values)
            self._combinations[values] = name
        else:
            new[name] = values
        return name

    def check_join(self, name: Name, values: tuple[Value, ...] | None) -> None:
        """An error if a player is one too many, or was here with other values of the attributes."""
        roster = self.player_roster
        checked = check_name("player", name)
        if checked not in roster:
            self.setup.check_players(len(roster.names) + 1)
        elif values is not None and values != (own := self.values[roster.place(checked)]):
            attributes = self.setup.attributes
            told = f", {attributes.name(own)}; not {attributes.name(values)}"
            raise PlayerError(f"player {checked!r} has the attributes it came with", told)

    def change(self, kind: str, name: Name, knows_others: bool = True, values: tuple[Value, ...] | None = None) -> None:
        """One event: a player or an arm comes or goes. A player that is new has these values of the attributes.

        With "erase", a player's attributes are forgotten: what follows from them is formed anew without them.
        """
        if kind == "erase":
            self.events += 1
            self._erase(self.player_roster.place(name))
            return self._forget()
        roster = self.player_roster if kind in ("join", "retire") else self.arm_roster
        if kind == "add arm":
            check_least(self.shares, self.setup.floor, [*(here for _, here in roster.listed()), str(name)])
        if kind in ("join", "add arm"):
            roster.add(name)
        else:
            roster.retire(name)
        self.events += 1
        players, arms = len(self.player_roster.names), len(self.arm_roster.names)
        if players > len(self.values):
            self.values.append(self.setup.attributes.values({}) if values is None else values)
            self.known = self.core.joined(self.known, self.values[-1], self._log_T(), knows_others)
            if players < self._waiting.shape[1]:
                self.waiting = self._waiting[:, :players]
            else:
                self._wait_for(np.pad(self.waiting, ((0, 0), (0, 1))))
        elif arms > self.all_waiting.size:
            self.limit(self.shares)
            self.known = self.core.grown(self.known, arms, self._log_T())
            self.guard.grow(arms)
            self._wait_for(np.pad(self.waiting, ((0, 1), (0, 0))))
        self._forget()

    def set_shares(self, shares: Any) -> Shares:
        """One event: these are the arms' limits from now on; return them checked."""
        checked, names = check_shares(shares), self.arm_roster.names
        check_limits(checked, self.setup.floor, [name for _, name in self.arm_roster.listed()], names)
        self.limit(checked)
        self.events += 1
        self._forget()
        return checked

    def guarded(self, values: Collection[OutcomeValue]) -> Iterator[tuple[str, str, str | None]]:
        """Count values, then give the changes that are due: the alarms that they raise, and the arms to retire for it.

        Each is a kind, an arm, and the outcome of an alarm; it has to be made before the next is asked for.
        """
        self.guard.add(values)
        outcomes, roster = list(self.setup.outcomes.items()), self.arm_roster
        for place, arm in self.guard.crossed(values):
            name, outcome = outcomes[place]
            yield "alarm", roster.names[arm], name
            if outcome.action == "retire" and roster.here[arm] and roster.count > 1:
                yield "retire arm", roster.names[arm], None

    def alarm(self, arm: Name, outcome: str | None) -> None:
        """One event: an arm was shown to cross the bound of an outcome."""
        if outcome is None or outcome not in self.setup.outcomes:
            raise ValueError(f"an alarm of the outcome {outcome!r}, but there is none of that name")
        self.guard.tallies[ALARM, list(self.setup.outcomes).index(outcome), self.arm_roster.place(arm)] = 1
        self.events += 1
        self._forget()

    def _erase(self, player: int) -> None:
        self.values[player] = self.setup.attributes.values({})
        self._combinations.clear()
        kept = {name: getattr(self.known, name) for name in self.core.kept if name not in OF_SUMMARY}
        self.core = Core(self.core.policy, self.setup.attributes)
        self.known = self.core.restored(self.values, len(self.arm_roster.names), kept, self._log_T())

    def restore(
        self,
        players: Iterable[tuple[str, bool]],
        arms: Iterable[tuple[str, bool]],
        waiting: Any,
        known: Mapping[str, Any],
        values: Sequence[tuple[Value, ...]] | None = None,
    ) -> None:
        """Restore a saved state: players and arms, waiting decisions, and the arrays of what is known, by name.

        `values` are each player's values of the attributes.
        """
        self.player_roster, self.arm_roster = Roster.of("player", list(players)), Roster.of("arm", list(arms))
        self.limit(self.shares)
        self.values = self._values_of_all(values)
        shape = (len(self.arm_roster.names), len(self.values))
        self._wait_for(np.array(waiting, np.int64).reshape(shape))
        self.core = Core(self.core.policy, self.setup.attributes)
        self.known = self.core.restored(self.values, shape[0], known, self._log_T())

    # ---------------------------------------------------------------- what there is to see

    def counts(self) -> Counts:
        """Observed pulls and reward sums, of all who ever joined and all arms, in the order in which they came.

        Of a policy that forgets, what is left of them.
        """
        low, high, pulls = self.setup.low, self.setup.high, self.known.statistics[COUNT].T.copy()
        sums = low * pulls + (high - low) / GRID * self.known.statistics[SUM].T
        players, arms = tuple(self.player_roster.names), tuple(self.arm_roster.names)
        also = getattr(self.setup.policy, "epsilon", None), self.attributes()
        return Counts(players, arms, pulls, sums, low, high, *also, self.known.statistics[SQUARES].T / GRID)

    def attributes(self) -> dict[str, tuple[str | None, ...]] | None:
        """Each player's values as people read them, by attribute; None if none were declared."""
        return self.setup.attributes.table(self.values)
