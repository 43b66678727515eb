"""plan: what sharing would save, and what a wrong ε would cost, before an experiment is run."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.checks import number, whole
from posse.insight.columns import Columns
from posse.insight.conclusion.needed import decisions_needed
from posse.insight.hierarchy.data import PlayerData
from posse.insight.planning.equal_shares import EQUAL, TESTED, EqualSharesTest, best_test
from posse.insight.planning.planned_run import PlannedRun, PlanRequest, from_guess, from_history
from posse.insight.planning.policies import LEARNED, PolicyRoles, check_policies, plan_policies
from posse.insight.planning.text import LATE, SIDES, conclusions, policy_table, table_title, to_text
from posse.notebook import PRINT, Summarized, Summary
from posse.policies.base import Policy
from posse.rewards import Beta
from posse.simulation import Difference, Result, simulate
from posse.simulation.progress import Progress
from posse.simulation.statistics import paired_difference, ratio_terms
from posse.streams import check_seed
from posse.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKPOINTS = 25
EXAMPLE = 0.05  # a floor, if neither floor nor holdout is given


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Summarized, PlannedRun, PolicyRoles):
    """What to expect of policies in a planned run. Rewards are in the user's units; `print(plan)` shows it in words.

    The first axis of an array is the policy (as in `labels`), the second the problem, unless its docstring says else.
    """

    days: int | None
    """How many days the run takes; None if not given."""
    floor: float
    """The least probability of every arm in each decision."""
    holdout: float
    """The part of the decisions whose arm is drawn with equal shares."""
    result: Result = field(repr=False)
    """The simulation, with rewards on the scale [0, 1]; in each round the busiest player makes one decision."""
    untold: Result | None = field(repr=False)
    """The same for PosseTS if it is not told the players' attributes; None if they have none."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies' labels."""
        return self.result.labels

    @property
    def alone(self) -> int:
        """Ind-TS, which learns alone."""
        return self.compared[0]

    @property
    def right(self) -> int:
        """RobustAgg-TS with the right ε."""
        return self.sweep[int(np.argmin(np.abs(self.sweep_epsilons - self.epsilon)))]

    @property
    def unit(self) -> float:
        """The length of the reward range."""
        return self.high - self.low

    @property
    def lost(self) -> np.ndarray:
        """Rewards lost over the whole run, compared with each player's best arm throughout, [policy, problem]."""
        return self._with_forced(self.result.final_regret[:, :, 0], self.lost_by_random)

    @property
    def lost_over_time(self) -> np.ndarray:
        """Rewards lost up to each checkpoint, [policy, problem, checkpoint]; see `traffic`."""
        return self.over_time(self.result)

    def over_time(self, result: Result) -> np.ndarray:
        """The same for `result` or `untold`."""
        return self._with_forced(
            result.regret[:, :, 0], self.lost_by_random[:, None] * (result.checkpoints / result.horizon)
        )

    @property
    def lost_by_player(self) -> np.ndarray:
        """Rewards lost by each player, [policy, problem, player]."""
        means = self._means
        random = self.unit * self._made * (means.max(axis=2) - means.mean(axis=2))
        return self._with_forced(self.result.player_regret[:, :, 0], random)

    @property
    def forced(self) -> float:
        """The part of the decisions that floor and holdout draw with equal shares, whatever was learned."""
        return self.holdout + (1 - self.holdout) * len(self.arms) * self.floor

    def _with_forced(self, regret: np.ndarray, random: np.ndarray) -> np.ndarray:
        """What is lost if the `forced` part is drawn with equal shares, and the rest loses as much as without it."""
        return (1 - self.forced) * self.unit * regret + self.forced * random

    @property
    def traffic(self) -> np.ndarray:
        """Decisions a player, averaged over players, up to each checkpoint, [checkpoint]."""
        return self.result.checkpoints / self.result.horizon * float(self.decisions.mean())

    @property
    def attainable(self) -> np.ndarray:
        """What always choosing each player's best arm would earn, [problem]."""
        return self._earned(self._means.max(axis=2))

    @property
    def lost_by_random(self) -> np.ndarray:
        """What equal shares of all arms throughout would lose, [problem]."""
        return self.attainable - self._earned(self._means.mean(axis=2))

    @functools.cached_property
    def test(self) -> EqualSharesTest:
        """Equal shares for some time, then the best arm for everybody: for how long is best, and what that loses."""
        parts = self.result.checkpoints / self.result.horizon
        found = best_test(self._means, self._dispersion, self._made, parts)
        return found._replace(lost=self.unit * found.lost)

    @property
    def least_shares(self) -> tuple[float, ...]:
        """Shares of the arms other than the best: equal ones, and what floor and holdout leave them, or 0.05."""
        arms = len(self.arms)
        return tuple(dict.fromkeys((1 / arms, self.forced / arms or min(EXAMPLE, 1 / arms))))

    def decisions_to_ship(self, least: float | None = None, part: float = 0.5) -> float:
        """After how many decisions of all players this part of experiments can end, in the middle of the problems.

        It can end when `posse.insight.conclude` says which arm to ship for everybody. Arms other than the best have the
        share `least`, or what floor and holdout leave them. Infinite if it never can.
        """
        least = self.forced / len(self.arms) if least is None else number("least", least, above=0, most=1)
        weights = self.decisions / self.decisions.sum()
        if least == 0:
            return math.inf
        needed = [decisions_needed(each, self._dispersion, weights, least, part) for each in self._means]
        return float(np.median(needed))

    @property
    def lost_by_one_arm(self) -> np.ndarray:
        """What the best single arm for all players would lose if it were known from the start, [problem]."""
        return self.attainable - np.max([self._earned(each) for each in np.moveaxis(self._means, 2, 0)], axis=0)

    def _earned(self, means: np.ndarray) -> np.ndarray:
        """What the run earns if each decision of a player has this mean, [problem], from means [problem, player]."""
        return np.asarray((self._made * (self.low + self.unit * means)).sum(axis=1))

    @property
    def _means(self) -> np.ndarray:
        return np.array([problem.means for problem in self.result.problems])

    @property
    def _made(self) -> np.ndarray:
        """Decisions of each player, [problem, player]; the same players are active under every policy."""
        return self.result.pulls[0, :, 0].sum(axis=-1)

    @property
    def _dispersion(self) -> float:
        """The rewards' variance, as a share of that of rewards of 0 and 1 with the same mean."""
        rewards = self.result.problems[0].rewards
        return 1 / (rewards.concentration + 1) if isinstance(rewards, Beta) else 1.0

    def lost_by(self, policy: int | str) -> np.ndarray:
        """What a policy loses, [problem]: by its place or label, or "equal shares", or "equal shares, then best"."""
        if not isinstance(policy, str):
            return np.asarray(self.lost[policy])
        if policy in (EQUAL, TESTED):
            return self.lost_by_random if policy == EQUAL else self.test.lost
        if policy not in self.labels:
            raise ValueError(f"{policy!r} is not in this plan; there are {', '.join((*self.labels, EQUAL, TESTED))}")
        return np.asarray(self.lost[self.labels.index(policy)])

    def mean_lost(self, policy: int | str) -> Difference:
        """What a policy loses, the mean over problems with its 95 % interval; `lost_by` says how to name one."""
        return paired_difference(self.lost_by(policy))

    def difference(self, policy: int | str, other: int | str) -> Difference:
        """How much more a policy loses than another on the same problems and noise, with its 95 % interval."""
        return paired_difference(self.lost_by(policy) - self.lost_by(other))

    def saving(self, policy: int | str, other: int | str | None = None) -> Difference:
        """Which share of another policy's loss a policy saves; the other policy is learning alone if omitted.

        It is a ratio of means, 1 − L'/L, over problems; its interval is that of `ratio_terms`.

        >>> found = plan(players=4, arms=2, decisions=300, epsilon=0.05, effect=0.2, problems=10)
        >>> found.saving("PosseTS", "equal shares").low > 0
        True
        """
        return _saved(self.lost_by(policy), self.lost_by(self.alone if other is None else other))

    @property
    def lost_untold(self) -> np.ndarray | None:
        """What PosseTS loses if it is not told the players' attributes, [problem]; None if they have none."""
        if self.untold is None:
            return None
        return self._with_forced(self.untold.final_regret[0, :, 0], self.lost_by_random)

    @property
    def saving_untold(self) -> Difference | None:
        """Which share of what learning alone loses it then saves; None if players have no attributes."""
        return None if self.lost_untold is None else _saved(self.lost_untold, self.lost[self.alone])

    @property
    def worth(self) -> Difference | None:
        """Which share of that PosseTS saves if it is told; None if players have no attributes."""
        return None if self.lost_untold is None else _saved(self.lost[self.learned], self.lost_untold)

    def conclusions(self) -> list[str]:
        """What the numbers say, in sentences."""
        return conclusions(self)

    def figure(self) -> "Figure":
        """Rewards lost as decisions go by, and what a wrong ε costs: a matplotlib figure."""
        from posse.insight.planning.figure import draw

        return draw(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as numbers, lists and words, ready for JSON."""
        said = ("players", "arms", "decisions", "days", "epsilon", "given_epsilon", "floor", "holdout")
        means = ("attainable", "lost_by_random", "lost_by_one_arm")
        sweep = zip(self.sweep_epsilons, self.sweep, strict=True)
        found = {
            **{name: getattr(self, name) for name in said},
            "reward_range": [self.low, self.high],
            "assumed": self.assumed,
            "spread": None if self.model is None else self.model.spread()._asdict(),
            "problems": len(self.result.problems),
            "seed": self.result.seed,
            **{name: getattr(self, name).mean() for name in means},
            "traffic": self.traffic,
            "policies": [self._policy_as_dict(policy) for policy in self.compared],
            "equal_shares": _interval(self.mean_lost(EQUAL)),
            "equal_shares_then_best": {"part": self.test.part, "lost": _interval(self.mean_lost(TESTED))},
            "decisions_to_ship": [
                {
                    "least_share": least,
                    "half": self.decisions_to_ship(least),
                    "most": self.decisions_to_ship(least, LATE),
                }
                for least in self.least_shares
            ],
            "wrong_epsilon": [{"epsilon": e, "lost": _interval(self.mean_lost(policy))} for e, policy in sweep],
            "attributes": None,
            "conclusions": self.conclusions(),
        }
        if self.lost_untold is not None and self.worth is not None:
            lost = _interval(paired_difference(self.lost_untold))
            found["attributes"] = {"lost_untold": lost, "worth": _interval(self.worth)}
        return dict(plain(found))

    def _policy_as_dict(self, policy: int) -> dict[str, Any]:
        return {
            "policy": self.labels[policy],
            "lost": _interval(self.mean_lost(policy)),
            "against_alone": _interval(self.difference(policy, self.alone)),
            "saving": _interval(self.saving(policy)),
            "lost_by_player": self.lost_by_player[policy].mean(axis=0),
            "lost_over_time": self.lost_over_time[policy].mean(axis=0),
        }

    def __str__(self) -> str:
        return to_text(self)

    def _summary(self) -> Summary:
        return Summary(f"Plan: {table_title(self)}", policy_table(self), SIDES, PRINT)


def plan(
    history: Any = None,
    *,
    players: int | None = None,
    arms: int | None = None,
    decisions: float | Sequence[float] | None = None,
    days: int | None = None,
    epsilon: float | None = None,
    effect: float | None = None,
    base: float | None = None,
    levels: float | None = None,
    explained: float | None = None,
    values: int | None = None,
    floor: float = 0.0,
    holdout: float = 0.0,
    attributes: str | Iterable[str] | None = None,
    player: str | Iterable[str] = "player",
    arm: str = "arm",
    reward: str = "reward",
    id: str | None = None,
    trials: str | None = None,
    reward_range: tuple[float, float] | None = None,
    policies: Policy | Iterable[Policy] | None = None,
    problems: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> Plan:
    """Simulate a planned run on many problems that are consistent with the guess or the data.

    Args:
        history: data to draw the problems from: a learner, its counts, a log, or `diagnosis.data`. The problems then
            have its players and arms; without it they are drawn from the guess below.
        players: how many players; 12 if omitted.
        arms: how many arms; 3 if omitted.
        decisions: how many decisions each player makes, or one number for each player. Omitted: 2,000, or with a
            history as many as each player has there.
        days: how many days the run takes; `decisions` are then per day.
        epsilon: the most by which players' means for an arm differ, in units of reward; 0.05 if omitted. With a
            history the data says how far they differ, and a given ε is compared with that.
        effect: how far the best arm is ahead of the others, on average over players; 0.03 if omitted.
        base: the mean reward of the other arms; 0.2 if omitted.
        levels: how far players differ in level, such as 0.02 if one earns between 0.02 and 0.04 with the other arms and
            base is 0.03; all means of a player move together. ε is then what they differ by beyond that. 0 if omitted.
        explained: the share of the variance between players that an attribute explains, such as their region. It is
            told to PosseTS, and the plan says what that is worth. 0.5 if only `values` is given.
        values: how many values the attribute has; 4 if only `explained` is given.
        floor: the least probability of every arm in each decision, as of a learner. What floor and holdout cost is
            added to what a policy loses without them.
        holdout: the part of the decisions whose arm is drawn with equal shares, as of a learner.
        attributes: the attributes of a history, see `posse.insight.diagnose`; its own if omitted. The plan then says
            what telling them is worth.
        player, arm, reward, id, trials: which columns of a log hold what, see `posse.insight.Columns`.
        reward_range: the least and the greatest possible reward, for a log from elsewhere whose rewards are not
            in [0, 1].
        policies: the policies to compare with learning alone and PosseTS, with ε in units of reward; a small set if
            omitted.
        problems: how many problems to draw. Omitted: up to 100, as many as take about ten seconds.
        seed: a non-negative integer.
        threads: how many threads to use; all cores if omitted.
        progress: True for a bar on standard error, or a function that is called with the fraction that is done.

    >>> found = plan(players=4, arms=2, decisions=300, epsilon=0.05, effect=0.2, problems=10)
    >>> found.lost.shape == (len(found.labels), 10)
    True
    >>> found.saving(found.right).low > 0
    True
    """
    seed = check_seed(seed)
    days = None if days is None else whole("days", days, least=1)
    count = None if problems is None else whole("problems", problems, least=2)
    guess: dict[str, Any] = {"players": players, "arms": arms, "effect": effect, "base": base, "levels": levels}
    guess |= {"explained": explained, "values": values}
    asked = PlanRequest(decisions, days, epsilon, count, seed)
    if history is None:
        if reward_range is not None:
            raise ValueError(f"reward_range={reward_range!r}, but a guess is about rewards of 0 and 1; leave it out")
        if attributes is not None:
            raise ValueError(f"attributes={attributes!r}, but those are of a history; a guess has explained and values")
        run = from_guess(asked, guess)
    else:
        for name, value in guess.items():
            if value is not None:
                raise ValueError(f"{name}={value!r}, but with a history this comes from the data; leave it out")
        data = PlayerData.read(history, Columns(player, arm, reward, id=id, trials=trials), reward_range, attributes)
        run = from_history(asked, data)
    holdout = number("holdout", holdout, least=0, most=1)
    floor = number("floor", floor, least=0, most=1 / len(run.arms))
    chosen = None if policies is None else check_policies(policies, run.low, run.high)
    simulated, roles = plan_policies(run.epsilon, run.high - run.low, chosen, run.given_epsilon)
    options: dict[str, Any] = {"seed": seed, "schedule": run.schedule, "checkpoints": CHECKPOINTS, "threads": threads}
    rounds = int(run.decisions.max())
    result, untold = simulate(run.problems, simulated, rounds, progress=progress, **options), None
    if run.problems[0].attributes:
        untold = simulate([each.without_attributes() for each in run.problems], LEARNED, rounds, **options)
    return Plan(**vars(run), **vars(roles), days=days, floor=floor, holdout=holdout, result=result, untold=untold)


def _saved(first: np.ndarray, second: np.ndarray) -> Difference:
    """Which share of the second policy's loss the first one saves, from what both lose, [problem]."""
    if second.mean() == 0:
        return Difference(0.0, 0.0, 0.0, 0.95, len(first))
    return paired_difference(ratio_terms(second - first, second))


def _interval(difference: Difference) -> dict[str, float]:
    return {"mean": difference.mean, "low": difference.low, "high": difference.high}
