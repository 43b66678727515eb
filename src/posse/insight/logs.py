"""Logs of decisions, from a learner or from elsewhere, in the one form that all of insight works on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posse.checks import NARROWEST, WIDEST, number
from posse.insight import columns as tables
from posse.insight.columns import Columns
from posse.learner import Counts
from posse.text import listed, plural

OWN = ("decision", "decided_at", "observed_at", "defaulted")  # columns by which a log that lost its metadata is known
LEAST_PROPENSITY = 1e-100  # what is less likely does not happen, and squares of weights would overflow
SAME = 1e-6  # propensities whose relative difference is smaller count as equal
ROUNDED = 0.05  # how far from 1 the sum of propensities that were rounded may be, such as 0.17 for a sixth
MOST_TRIALS = 50_000_000  # of a log of totals, all rows together: about 2 GB
GIVE_RANGE = "give --range LOW HIGH (reward_range=(low, high)) if they are in another"


@dataclass(frozen=True, eq=False)
class Log:
    """A log: each array has one entry for each row, in the log's order; None where there is no such column."""

    players: tuple[str, ...]  # names; `player` has places in this tuple
    arms: tuple[str, ...]  # names; `arm` has places in this tuple
    player: np.ndarray  # the player of each row, int64
    arm: np.ndarray  # the arm that was chosen, int64
    reward: np.ndarray  # float64; NaN where none came, or where one came early: see `early_rewards`
    propensity: np.ndarray | None  # the probability with which the arm was chosen, NaN where unknown
    shared: np.ndarray | None  # how much of the decision rested on other players' data
    about: dict[str, Any] = field(default_factory=dict)  # what a learner wrote about itself
    holdout: np.ndarray | None = None  # whether the decision was held out, its arm drawn uniformly
    observed: np.ndarray | None = None  # the number of the learner's event that brought the reward, NaN without one
    is_decision: np.ndarray | None = None  # whether the row is a decision, not a past reward that a learner was given
    groups: tuple[str, ...] = ()  # the values of the column to group by; `group` has places in this tuple
    group: np.ndarray | None = None
    probabilities: np.ndarray | None = None  # of all arms, [row, arm], NaN where unknown; a learner writes them
    attributes: dict[str, tuple[str | None, ...]] = field(default_factory=dict)  # each player's values, None if missing
    rounds: np.ndarray | None = None  # the learner's round of each row
    outcomes: dict[str, np.ndarray] = field(default_factory=dict)  # each row's values, NaN where none came
    early: int | None = None  # how many rewards were left out because they came early; None if no default is taken

    @property
    def shape(self) -> tuple[int, int]:
        """How many players and arms there are."""
        return len(self.players), len(self.arms)

    @property
    def missing(self) -> int:
        """How many rows have no reward."""
        return int(np.isnan(self.reward).sum())

    @property
    def given_up(self) -> int:
        """How many decisions have no row because their learner gave them up: too many newer ones were waiting."""
        return int(self.about.get("given_up", 0))

    def kept(self, keep: np.ndarray) -> "Log":
        """The log with only the rows for which `keep` is True."""
        return self if keep.all() else self.taken(keep)

    def taken(self, rows: np.ndarray) -> "Log":
        """The log with these rows; a row may come several times."""
        columns = {name: column[rows] for name, column in vars(self).items() if isinstance(column, np.ndarray)}
        outcomes = {name: column[rows] for name, column in self.outcomes.items()}
        return replace(self, **columns, outcomes=outcomes)

    def with_frequencies(self) -> "Log":
        """The log with the arms' frequencies in each player's rows as propensities."""
        pulls = by_cell(self.player, self.arm, self.shape)
        return replace(self, propensity=pulls[self.player, self.arm] / pulls.sum(axis=1)[self.player])

    def design(self) -> np.ndarray | None:
        """The propensity of each player and arm, NaN where unknown; None if it varies from row to row."""
        if self.propensity is None:
            return None
        found, drawn = np.full(self.shape, np.nan), ~np.isnan(self.propensity)
        cells, propensity = (self.player[drawn], self.arm[drawn]), self.propensity[drawn]
        found[cells] = propensity
        return found if np.allclose(found[cells], propensity, rtol=SAME, atol=0) else None

    def counts(self) -> Counts:
        """Pulls and sums by player and arm, over the rows whose reward is known."""
        known = ~np.isnan(self.reward)
        player, arm = self.player[known], self.arm[known]
        pulls, sums = by_cell(player, arm, self.shape), by_cell(player, arm, self.shape, self.reward[known])
        low, high = map(float, self.about["reward_range"])
        squares = by_cell(player, arm, self.shape, ((self.reward[known] - low) / (high - low)) ** 2)
        also = self.about.get("epsilon"), self.attributes or None
        return Counts(self.players, self.arms, pulls, sums, low, high, *also, squares)

    def left_out(self) -> list[str]:
        """What is not in it because a default reward is taken, in words."""
        return left_out(self.early, self.given_up)


def takes_default(setup: Mapping[str, Any]) -> bool:
    """Whether a decision without a reward gets one in the end, so that a missing reward is no fault."""
    return setup.get("default_reward") is not None


def fixed_shares(design: np.ndarray | None) -> np.ndarray | None:
    """The probability of each arm for each player, [player, arm], from `Log.design`; None if they are not all known.

    An arm that a player happens not to have had is taken to have the probability that it has for all others. The
    probabilities of a player add up to 1, but for rounding.

    >>> fixed_shares(np.array([[0.5, 0.5], [0.5, np.nan]])).tolist(), fixed_shares(np.array([[1.0, np.nan]]))
    ([[0.5, 0.5], [0.5, 0.5]], None)
    """
    if design is None or np.isnan(design).all(axis=0).any():
        return None
    least, most = np.nanmin(design, axis=0), np.nanmax(design, axis=0)
    each = np.where(np.isnan(design), np.where(most <= (1 + SAME) * least, least, np.nan), design)
    return each if (np.abs(each.sum(axis=1) - 1) <= ROUNDED).all() else None


def early_rewards(reward: np.ndarray, is_decision: np.ndarray) -> np.ndarray:
    """Which rewards came early, where a default reward is taken: decisions count in their order, up to one that waits.

    A reward that is reported counts at once, but a decision that gets the default waits until its patience is over. So
    the newest decisions with rewards are those that somebody reported, such as sales, and their mean is far too high.

    >>> early_rewards(np.array([0.0, 1.0, np.nan, 1.0, 0.5]), np.array([True, True, True, True, False])).tolist()
    [False, False, False, True, False]
    """
    known = ~np.isnan(reward)
    waits = is_decision & ~known
    return np.asarray(is_decision & known & (np.cumsum(waits) > 0))


def left_out(early: int | None, given_up: int = 0) -> list[str]:
    """What a result leaves out because a default reward is taken, in sentences; `early` is None if none is."""
    found = []
    if early:
        found.append(
            f"{plural(early, 'reward')} of decisions made after the oldest one that still waits are left out for now: "
            "a reward that is reported comes at once, the default reward only when a decision's patience is over, so "
            "the newest rewards alone would mislead."
        )
    if early is not None and given_up:
        found.append(
            f"{plural(given_up, 'decision')} were given up by an older posse, though a default reward is set. They are "
            "just those for which nothing was reported, so all means are wrong."
        )
    return found


def by_cell(
    player: np.ndarray, arm: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """How many rows each player and arm has, or the sums of their weights, [player, arm]."""
    return np.bincount(player * shape[1] + arm, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)


def read_log(
    source: Any,
    columns: Columns | str = Columns(),
    also: Iterable[str] = (),
    *,
    by: str | None = None,
    attributes: str | Iterable[str] | None = None,
    in_order: bool = False,
    reward_range: Any = None,
) -> Log:
    """Read a log from a Parquet or CSV file, an Arrow table, a DataFrame, a mapping of columns, or a learner.

    `columns` says which columns are the player, the arm, the reward and the propensity; a text is the reward. Rewards
    may be empty where unknown. `also` names what else to read if it is there: propensity, shared, holdout, and from a
    learner's log observed, decision, round, probabilities and outcomes; `by` is a column to group rows by. `attributes`
    are columns in which each player has one value; those of a learner's log if omitted. Other columns are not read.
    Where a default reward is taken, early rewards are left out: `early_rewards` says why. Repeated ids are refused, and
    rewards outside of `reward_range`: the log's own if omitted, or (0, 1). Of a log of totals, `Columns.trials`, every
    trial becomes a row.

    Players and arms are in their learner's order; in a log from elsewhere they are sorted by name, or `in_order` of
    their first rows.

    >>> log = {"zip": [1, 2, 1], "by": ["web", "web", "shop"], "arm": ["x", "x", "y"], "back": [True, False, None]}
    >>> read_log(log, Columns(player="zip, by", reward="1 - back")).counts().players
    ('1 / shop', '1 / web', '2 / web')
    """
    columns = Columns(reward=columns) if isinstance(columns, str) else columns
    found = tables.Source(source)
    about = found.about
    # In a log from elsewhere, columns of these names mean something else.
    own = () if about else ("observed", "decision", "round", "probabilities")
    wanted = [name for name in also if name in found.names and name not in (*own, "propensity")]
    outcomes = [name for name, _ in about.get("setup", {}).get("outcomes", ())] if "outcomes" in also else []
    propensity = columns.propensity if "propensity" in also else None
    if propensity not in found.names and propensity in (Columns.propensity, tables.EMPIRICAL):
        propensity, empirical = None, propensity == tables.EMPIRICAL
    else:
        empirical = False
    players, identity = found.several(columns.player), found.id_column(columns.id)
    default = Columns.reward in found.inputs(columns.reward)  # not if outcomes are looked at
    default &= takes_default(about.get("setup", {})) if about else set(OWN) <= set(found.names)
    of_default = [name for name in ("decision", "defaulted") if default and name in found.names]
    declared = dict(about.get("setup", {}).get("attributes", ()))  # {name: kind}, or pairs
    own_attributes = [name for name in declared if name in found.names]
    known = own_attributes if attributes is None else found.several(attributes)
    grouping = dict.fromkeys(known, "attributes") | ({} if by is None else {by: "by"})
    for name, option in grouping.items():
        if name in (columns.arm, *found.inputs(columns.reward)):
            raise ValueError(
                f"{option}={name!r}, but rows can be grouped only by what was known before the arm was chosen"
            )
    names = [*players, columns.arm, *grouping]
    numeric = [
        name for each in (columns.reward, propensity, columns.trials) if each is not None for name in found.inputs(each)
    ]
    more = [*wanted, *outcomes, *of_default, *([identity] if identity else [])]
    table = found.read([*names, *numeric, *more], names, identity)
    if identity is not None:
        tables.refuse_repeated_ids(table, identity, sure=bool(about) or columns.id is not None)
    all_players, player = tables.names_of(table, players, "player", about.get("players", []), in_order)
    all_arms, arm = tables.names_of(table, [columns.arm], "arm", about.get("arms", []), in_order)
    groups, group = ((), None) if by is None else tables.names_of(table, [by], by, [], in_order, f"no {by}")
    low, high = _checked(about.get("reward_range", (0.0, 1.0)) if reward_range is None else reward_range)
    is_decision = tables.filled(table, "decision") if "decision" in (*wanted, *of_default) else None
    reward, early = tables.numbers_of(table, columns.reward), None
    if default and is_decision is not None and (about or (tables.numbers_of(table, "defaulted") == 1).any()):
        early = early_rewards(tables.numbers_of(table, Columns.reward), is_decision)
        reward = np.where(early, np.nan, reward)
    log = Log(
        all_players,
        all_arms,
        player,
        arm,
        reward,
        None if propensity is None else tables.numbers_of(table, propensity),
        about={**about, "reward_range": (low, high)},
        holdout=tables.numbers_of(table, "holdout") == 1 if "holdout" in wanted else None,
        is_decision=is_decision,
        groups=groups,
        group=group,
        probabilities=tables.lists_of(table, "probabilities", len(all_arms)) if "probabilities" in wanted else None,
        attributes={
            name: _values(name, *tables.names_of(table, [name], name, [], True, ""), all_players, player)
            for name in known
        },
        rounds=tables.numbers_of(table, "round") if "round" in wanted else None,
        outcomes={name: tables.numbers_of(table, name) for name in outcomes},
        early=None if early is None else int(early.sum()),
        **{name: tables.numbers_of(table, name) if name in wanted else None for name in ("shared", "observed")},
    )
    if columns.trials is not None:
        log = _by_trial(log, tables.numbers_of(table, columns.trials), columns)
    del table
    found.release_memory()
    _refuse(f"{columns.reward}=", log.reward, np.isinf(log.reward), "expected a finite number")
    outside = (log.reward < low) | (log.reward > high)
    _refuse("reward ", log.reward, outside, f"rewards are in [{low:g}, {high:g}]; {GIVE_RANGE}")
    if log.propensity is not None:
        outside = (log.propensity < LEAST_PROPENSITY) | (log.propensity > 1)
        _refuse("propensity=", log.propensity, outside, "the arm was chosen, so it is in (0, 1], and not almost 0")
    return log.with_frequencies() if empirical else log


def _by_trial(log: Log, trials: np.ndarray, columns: Columns) -> Log:
    """A log of totals with a row for each trial, whose reward is 1 or 0."""
    won = np.nan_to_num(log.reward)
    _refuse(f"{columns.trials}=", trials, ~((trials >= 0) & (trials % 1 == 0)), "expected a whole number of trials")
    expected = f"expected a whole number of at most {columns.trials}, because those are the trials"
    _refuse(f"{columns.reward}=", log.reward, ~((won >= 0) & (won <= trials) & (won % 1 == 0)), expected)
    if trials.sum() > MOST_TRIALS:
        raise ValueError(f"{columns.trials} is {trials.sum():,.0f} in all rows, but expected at most {MOST_TRIALS:,}")
    size = trials.astype(np.int64)
    rows = np.repeat(np.arange(size.size), size)
    place = np.arange(rows.size) - np.repeat(np.cumsum(size) - size, size)
    return replace(log.taken(rows), reward=np.where(np.isnan(log.reward[rows]), np.nan, place < won[rows]))


def _values(
    name: str, values: tuple[str, ...], value: np.ndarray, players: tuple[str, ...], player: np.ndarray
) -> tuple[str | None, ...]:
    """Each player's value of an attribute, None if its rows have none; an error if they have two."""
    rows = np.flatnonzero(np.array(values, bool)[value])  # "" is a missing value
    own = np.full(len(players), -1)
    own[player[rows]] = value[rows]
    other = rows[own[player[rows]] != value[rows]]
    if other.size:
        who = player[other[0]]
        raise ValueError(
            f"player {players[who]!r} has {name}={values[value[other[0]]]!r} in row {other[0] + 1:,} and "
            f"{values[own[who]]!r} in another, but a player has one value of an attribute; make the player the "
            f"combination: --player player,{name} (player=['player', {name!r}])"
        )
    return tuple(values[each] if each >= 0 else None for each in own)


def with_attributes(counts: Counts, names: str | Iterable[str] | None) -> Counts:
    """The counts with only these attributes; all if omitted.

    >>> counts = Counts(("a",), ("x",), [[2]], [[1.0]], attributes={"region": ("south",)})
    >>> with_attributes(counts, "device")
    Traceback (most recent call last):
    ValueError: attributes='device', but the attributes there are region
    """
    if names is None:
        return counts
    there = counts.attributes or {}
    chosen = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in there:
            raise ValueError(f"attributes={name!r}, but the attributes there are {listed(there) or 'none'}")
    return replace(counts, attributes={name: there[name] for name in chosen} or None)


def with_range(counts: Counts, reward_range: Any = None) -> Counts:
    """The counts with the given reward range as `low` and `high`, or their own if none is given.

    A ValueError says if the range is not one, or if a reward lies outside.

    >>> counts = Counts(("a",), ("x",), np.array([[2]]), np.array([[70.0]]))
    >>> with_range(counts, (0, 50)).high
    50.0
    >>> with_range(counts)
    Traceback (most recent call last):
    ValueError: player 'a' earned 70 with 2 pulls of arm 'x', but rewards are in [0, 1]; give --range LOW HIGH \
(reward_range=(low, high)) if they are in another
    """
    low, high = _checked((counts.low, counts.high) if reward_range is None else reward_range)
    pulls, sums = counts.pulls, counts.sums
    slack = 1e-9 * pulls * (abs(low) + abs(high))  # sums are rounded
    bad = np.argwhere(~((sums >= low * pulls - slack) & (sums <= high * pulls + slack)))
    if bad.size:
        player, arm = bad[0]
        raise ValueError(
            f"player {counts.players[player]!r} earned {sums[player, arm]:g} with {pulls[player, arm]:,} pulls of arm "
            f"{counts.arms[arm]!r}, but rewards are in [{low:g}, {high:g}]; {GIVE_RANGE}"
        )
    squares = counts.squares
    if squares is not None:  # x on the old scale is (x − a) / b on this one
        a, b = ((end - counts.low) / (counts.high - counts.low) for end in (low, high + counts.low - low))
        on_old = (sums - counts.low * pulls) / (counts.high - counts.low)
        squares = (squares - 2 * a * on_old + a * a * pulls) / (b * b)
    return replace(counts, low=low, high=high, squares=squares)


def _checked(given: Any) -> tuple[float, float]:
    """The range as two numbers whose distance is neither too small nor too large to compute with."""
    try:
        low, high = (number("reward", each) for each in given)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not NARROWEST <= high - low <= WIDEST:
        raise ValueError(
            f"reward_range={given!r}, but expected the least and the greatest reward, two numbers low < high, such as "
            "(0, 100) or --range 0 100"
        )
    return low, high


def _refuse(name: str, column: np.ndarray, bad: np.ndarray, expected: str) -> None:
    """An error for the first row whose value is bad, if there is one."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"row {row + 1} has {name}{column[row]:g}, but {expected}")
