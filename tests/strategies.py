"""Random problems, policies and schedules for Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import posse
from posse import schedule

unit = st.floats(0, 1, allow_subnormal=False)


@st.composite
def problems(draw, max_players=5, max_arms=9):
    players = draw(st.integers(1, max_players))
    arms = draw(st.integers(1, max_arms))
    means = draw(st.lists(st.lists(unit, min_size=arms, max_size=arms), min_size=players, max_size=players))
    families = [
        posse.rewards.Bernoulli(),
        posse.rewards.Deterministic(),
        posse.rewards.Uniform(0.4),
        posse.rewards.Beta(2.0),
        posse.rewards.OneNoisy(2.0),
        posse.rewards.Jackpot(0.1),
    ]
    return posse.Problem(means, rewards=draw(st.sampled_from(families)))


KINDS = {"region": "category", "device": ["phone", "desktop"], "age": [20, 40]}


@st.composite
def with_attributes(draw, of):
    """A problem whose players have attributes, some of them missing, whatever they may have to do with the means."""
    problem = draw(of)
    names = draw(st.sampled_from([["region"], ["age"], ["region", "age"], ["device", "age", "region"]]))
    value = {"region": st.sampled_from("abc"), "device": st.sampled_from(KINDS["device"]), "age": st.integers(0, 60)}
    known = st.fixed_dictionaries({name: st.none() | value[name] for name in names})
    values = draw(st.lists(known, min_size=problem.players, max_size=problem.players))
    kinds = {name: KINDS[name] for name in names}
    return posse.Problem(problem.means, rewards=problem.rewards, attributes=kinds, values=values)


def schedules(players, horizon):
    masks = st.lists(
        st.lists(st.booleans(), min_size=players, max_size=players), min_size=horizon, max_size=horizon
    ).map(np.array)
    return st.one_of(
        st.just(schedule.Concurrent()),
        st.sampled_from(["turn", "random"]).map(schedule.Sequential),
        unit.map(schedule.Random),
        st.lists(unit, min_size=players, max_size=players).map(schedule.Random),
        masks.map(schedule.Fixed),
        st.builds(schedule.Late, unit, st.integers(1, 4)),
        st.booleans().map(schedule.Arrivals),
    )


epsilons = st.sampled_from([0.0, 0.05, 0.15, 0.5, 1.0])
POLICIES = {
    "RobustAggTS": st.builds(posse.RobustAggTS, epsilons, st.sampled_from([0.01, 0.5, 40]), st.sampled_from([1, 4])),
    "RobustAggTSV": st.builds(posse.RobustAggTSV, epsilons, st.sampled_from([0.01, 0.5, 40]), st.sampled_from([1, 4])),
    "RobustAgg": st.builds(posse.RobustAgg, epsilons, st.sampled_from([0.1, 2.0, 832.0])),
    "NaiveAgg": st.builds(posse.NaiveAgg, st.sampled_from([0.1, 2.0])),
    "IndTS": st.builds(posse.IndTS, st.sampled_from([0.1, 1.0, 4.0])),
    "IndUCB": st.builds(posse.IndUCB, st.sampled_from([0.1, 2.0])),
    "BetaTS": st.just(posse.BetaTS()),
    "HierTS": st.builds(posse.HierTS, st.sampled_from([0.0, 0.04, 0.3]), st.sampled_from([0.2, 0.5, 1.0])),
    "PosseTS": st.builds(posse.PosseTS, st.none() | epsilons),
    "RobustPosseTS": st.builds(posse.RobustPosseTS, epsilons, st.sampled_from([3, 40, 10_000])),
    "IndTSV": st.builds(posse.IndTSV),
    "KLUCB": st.builds(posse.KLUCB, st.sampled_from([0.0, 3.0])),
    "KLUCBPlusPlus": st.builds(posse.KLUCBPlusPlus),
    "IMED": st.builds(posse.IMED),
    "LinTS": st.builds(posse.LinTS, st.sampled_from([0, 1]), st.sampled_from([0.2, 0.5])),
    "MixedTS": st.builds(posse.MixedTS, st.sampled_from([0.0, 0.05, 0.5]), st.sampled_from([0.0, 0.1])),
    "TreeTS": st.builds(posse.TreeTS, st.sampled_from([0.0, 2.0])),
    "BayesUCB": st.builds(posse.BayesUCB, st.sampled_from([0.0, 5.0])),
}
