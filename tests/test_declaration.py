"""What a policy declares: names that its functions may take, statistics, and the small functions made from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import posse
from high_ts import HighSummaryTS, HighTS
from posse.policies import Law, Policy, Refresh, Statistic, several
from posse.policies.bindings import bindings, used_statistics
from posse.policies.refresh import counts_at_once, summary_is_due
from posse.policies.statistics import BASIC
from posse.rewards import GRID


def declared(**members):
    """A policy with these members, on top of an index that takes nothing."""
    members = {"index": staticmethod(lambda: (0.0, 1.0))} | members
    return dataclass(frozen=True)(type("Declared", (Policy,), {"__annotations__": {}} | members))


def taking_pairs(**members):
    """A policy whose index takes one of two numbers that are expected of a pair."""
    given = {"__annotations__": {"strength": float}, "strength": 2.0, "of_pair": ("first", "second")}
    given |= {"refresh": Refresh.SCHEDULE, "summary": staticmethod(lambda n, of_pair: None)}
    return declared(**given, index=staticmethod(lambda n, second: (n, second)), **members)


def test_a_summary_of_its_own_makes_no_promise_of_another():
    assert posse.PosseTS.alike_without_data
    assert type("Heir", (posse.PosseTS,), {}).alike_without_data
    assert not type("Other", (posse.PosseTS,), {"summary": staticmethod(lambda n: None)}).alike_without_data


SUMMED = {"shared": ("mean",), "contribution": staticmethod(lambda n, s: (s,)), "refresh": Refresh.ANY_PULL}


class TestNames:
    @pytest.mark.parametrize(
        ("members", "message"),
        [
            (
                {"index": staticmethod(lambda n, mean: (0.0, 1.0))},
                r"Declared\.index takes 'mean', but it can take only: n, s",
            ),
            (
                {"belief": staticmethod(lambda x: (0.0, 1.0))},
                r"Declared\.belief takes 'x', but it can take only: n, s, q, N",
            ),
            (
                {"contribution": staticmethod(lambda N: (0.0, 0.0))},
                r"Declared\.contribution takes 'N', but .* only: n, s, q$",
            ),
            (
                {"others_weight": staticmethod(lambda s: 1.0)},
                r"Declared\.others_weight takes 's', but .* only: n, N, S$",
            ),
            (
                {"index": staticmethod(lambda *, n: (0.0, 1.0))},
                r"Declared\.index has the parameter n, but expected plain names",
            ),
            ({"index": lambda n: (0.0, 1.0)}, r"Declared needs a static method index"),
            ({"law": Law.IMED}, r"Declared: law = Law\.IMED draws nothing, so it needs randomised = False"),
            (
                {"welcome": staticmethod(lambda player, n: None)},
                r"Declared\.welcome takes 'n', but .* only: of_arm, of_player, of_pair, of_value, columns, weights",
            ),
            ({"of_pair": ("N",)}, "Declared gives the name 'N' to two numbers"),
            ({"of_player": ("N",)}, "Declared gives the name 'N' to two numbers"),
            ({"statistics": (*BASIC, Statistic("M", max))}, "Declared gives the name 'M' to two numbers"),
            ({"statistics": (*BASIC, BASIC[1])}, "Declared gives the name 's' to two numbers"),
            ({"__annotations__": {"log_T": float}, "log_T": 1.0}, "Declared gives the name 'log_T' to two numbers"),
            ({"statistics": BASIC[:2]}, r"Declared\.statistics must begin with those of Policy: n, s and q"),
            ({"statistics": (Statistic("high", max), *BASIC)}, r"Declared\.statistics must begin with those of Policy"),
            (
                {"statistics": (Statistic("n", max), *BASIC[1:])},
                r"Declared\.statistics must begin with those of Policy",
            ),
            ({"shared": ("mean", "spread")}, "Declared shares mean, spread, but has no contribution that makes them"),
            (
                {"refresh": Refresh.SCHEDULE},
                r"a summary goes with refresh = Refresh\.SCHEDULE, but it is Refresh\.SCHEDULE",
            ),
            ({"refresh": "own pull"}, r"Declared\.refresh is 'own pull', but expected a Refresh"),
            ({"law": "beta"}, r"Declared\.law is 'beta', but expected a Law"),
            ({"statistics": [*BASIC]}, r"Declared\.statistics is \[.*\], but expected a tuple"),
            ({"statistics": (*BASIC, ("high", max))}, r"has \('high', .*\), but expected a Statistic"),
            ({"statistics": (*BASIC, Statistic("my high", max))}, "expected a Statistic: a name without spaces"),
            ({"statistics": (*BASIC, Statistic("high", lambda value: value))}, r"and a function of \(value, reward\)"),
            (SUMMED, r"Declared shares mean in place of N and S, so it also needs moved_by_others and others_weight"),
            (
                SUMMED | {"others_weight": staticmethod(lambda: 1.0)},
                r"Declared\.moved_by_others is 'S', but expected one of: mean$",
            ),
            (
                {"index": staticmethod(lambda n, width: (0.0, 1.0)), "width": 2.0},
                r"takes 'width', .*; for a constant, write `width: float = ...` below @dataclass\(frozen=True\)$",
            ),
            (
                {"index": staticmethod(lambda n: (0.5, 1.0) if n > 0 else None)},
                r"Declared\.index returns None where n=0, but expected \(center, scale\)",
            ),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
    )
    def test_a_wrong_declaration_says_what_is_wrong(self, members, message):
        with pytest.raises(TypeError, match=message):
            declared(**members)()

    def test_a_scale_against_the_promise_is_noticed_where_a_summary_is_taken(self):
        given = {"randomised": False, "shares": False, "refresh": Refresh.SCHEDULE, "of_player": several("each", 2)}
        given["summary"] = staticmethod(lambda n, of_player: None)
        right = declared(**given, index=staticmethod(lambda n, each: (n + each[1], 0.0)))
        assert right().label == "Declared"
        with pytest.raises(ValueError, match=r"Declared\.index returns the scale 0\.5, but randomised = False"):
            declared(**given, index=staticmethod(lambda n, each: (n, each[1])))()

    def test_a_right_one_makes_a_policy(self):
        """The negative control: everything that may be taken."""
        taken = declared(
            __annotations__={"strength": float},
            strength=2.0,
            statistics=HighTS.statistics,
            index=staticmethod(lambda n, s, q, high, last, N, S, M, log_T, strength: (0.0, 1.0)),
            contribution=staticmethod(lambda n, s, q, high, strength: (0.0, 0.0)),
            others_weight=staticmethod(lambda n, N, S, strength: 1.0),
        )
        assert taken().constants() == (2.0,)

    def test_stars_take_all_constants(self):
        assert declared(
            __annotations__={"a": float, "b": float}, a=1.0, b=2.0, index=staticmethod(lambda n, *rest: (0.0, 1.0))
        ).named_by("index") == ("n", "a", "b")


class TestRefresh:
    @pytest.mark.parametrize(
        ("pulls", "before", "players", "due"),
        [
            (0, 0, 1, False),  # nothing happened
            (1, 0, 1, True),
            (16, 15, 1, True),  # a sixteenth of all
            (17, 16, 1, False),
            (34, 32, 1, False),
            (35, 32, 1, True),
            (1024, 961, 1, False),  # 64 for each player
            (1024, 960, 1, True),
            (10**9, 10**9 - 64, 1, True),
            (10**9, 10**9 - 64, 2, False),
            (10**9, 10**9 - 128, 2, True),
            (10**9, 10**9 - 1023, 16, False),
            (10**9, 10**9 - 1024, 16, True),
            (7, 7, 0, False),
        ],
    )
    def test_when_a_summary_is_due(self, pulls, before, players, due):
        assert summary_is_due(pulls, before, players) == due

    def test_an_own_pull_counts_at_once_up_to_the_64th(self):
        assert [counts_at_once(pulls) for pulls in (1, 63, 64, 65, 10**6)] == [True, True, True, False, False]


class TestBindings:
    def test_a_run_keeps_only_the_statistics_that_are_named(self):
        def names(cls):
            return "".join(statistic.name[0] for statistic in used_statistics(cls))

        assert names(posse.IndTS) == names(posse.RobustAggTS) == "ns"
        assert names(posse.PosseTS) == names(posse.IndTSV) == "nsq"
        assert names(HighTS) == names(HighSummaryTS) == "nshl"
        assert names(declared()) == "ns"

    def test_a_pairs_numbers_are_in_their_units(self):
        table = np.zeros((5, 2, 3), np.int64)
        table[:, 1, 2] = 4, GRID // 2, GRID // 4, 3, GRID // 8
        assert bindings(HighTS, HighTS.statistics)["own_of"](table, (1, 2)) == (4.0, 0.5, 0.25, 3.0, 0.125)
        assert bindings(HighTS, used_statistics(HighTS))["own_of"](table[[0, 1, 3, 4]], (1, 2)) == (
            4.0,
            0.5,
            3.0,
            0.125,
        )

    def test_a_reward_is_remembered_by_every_statistic_of_its_pair_alone(self):
        table = np.zeros((5, 2, 3), np.int64)
        remember = bindings(HighTS, HighTS.statistics)["remember"]
        for reward in (GRID, GRID // 2, GRID // 2 + 1):
            remember(table, (1, 2), reward)
        square = [GRID, GRID // 4, GRID // 4 + 1]
        assert table[:, 1, 2].tolist() == [3, 2 * GRID + 1, sum(square), 2, GRID // 2 + 1]
        table[:, 1, 2] = 0
        assert not table.any()

    def test_only_what_the_index_takes_is_copied(self):
        """PosseTS' index takes no squares; its summary has them in the table itself."""
        source = np.arange(1, 25, dtype=np.int64).reshape(3, 2, 4)
        target = np.zeros_like(source)
        bindings(posse.PosseTS, BASIC)["copy_own"](target, source, (1, 2))
        assert target[:, 1, 2].tolist() == [*source[:2, 1, 2], 0]
        assert np.count_nonzero(target) == 2

    @pytest.mark.parametrize(
        ("policy", "n", "shared", "risen"),
        [
            (posse.RobustAggTS(0.1), 3.0, (10.0, 5.0), (10.0, 5.0 + 0.5 * 7)),
            (posse.RobustAggTS(0.1), 0.0, (10.0, 5.0), (10.0, 5.0 + 0.5 * 10)),
            (posse.HierTS(0.5, noise=1.0), 4.0, (10.0, 5.0), (10.0, 5.0 + 0.5 * (10 - 4 / (4 * 0.25 + 1)))),
            (HighSummaryTS(), 4.0, (0.25,), (0.75,)),
            (posse.IndTS(), 4.0, (10.0, 5.0), (10.0, 5.0)),  # shares nothing
            (posse.PosseTS(), 4.0, (0.1,) * 16, (0.1,) * 16),  # what is expected of a pair rises instead
        ],
        ids=str,
    )
    def test_shared_numbers_rise_by_what_the_others_earn_more(self, policy, n, shared, risen):
        raised = bindings(type(policy), policy.statistics)["raised"]
        found, _ = raised(n, shared, (0.2, 0.3, 0.4), policy.constants(), 0.5)
        assert found == pytest.approx(risen)

    @pytest.mark.parametrize(
        ("policy", "expected"), [(posse.PosseTS(), (0.7, 0.3, 0.4)), (HighSummaryTS(), (0.0,))], ids=str
    )
    def test_so_does_what_is_expected_of_a_pair(self, policy, expected):
        raised = bindings(type(policy), policy.statistics)["raised"]
        _, found = raised(4.0, (0.1,) * 16, (0.2, 0.3, 0.4), policy.constants(), 0.5)
        assert found == pytest.approx(expected)

    def test_index_and_summary_get_what_they_name(self):
        made = bindings(HighSummaryTS, HighSummaryTS.statistics)
        own, shared, of_player = (4.0, 1.0, 0.5, 3.0, 0.5), (0.5,), (0.7,)
        expected = HighSummaryTS.index(n=4.0, high=3.0, last=0.5, often=0.5, own_often=0.7)
        assert made["index_of"](own, shared, of_player, (), 2, 3, math.log(9), ()) == expected
        tables = np.ones((5, 2, 3), np.int64)
        tables[3] = 0
        state = SimpleNamespace(statistics=tables, of_arm=np.zeros((2, 1)), of_player=np.zeros((4, 1)))
        made["fill_summary"](state, 1.0, (), 0)
        assert state.of_arm[:, 0] == pytest.approx([0.5 / 4] * 2)
        assert state.of_player[:3, 0] == pytest.approx([0.5 / 3] * 3)

    def test_so_does_who_welcomes_a_player(self):
        def welcome(player, of_pair, columns, log_T, strength):
            of_pair[1][0, player] = columns[player, 0] + log_T * strength

        made = bindings(taking_pairs(welcome=staticmethod(welcome)), BASIC)
        assert made["WELCOMES"]
        state = SimpleNamespace(of_pair=np.zeros((2, 1, 3)), columns=np.array([[4], [5], [6]]))
        made["greet"](state, 2, 10.0, (3.0,))
        assert state.of_pair[1, 0].tolist() == [0, 0, 36]
        assert not bindings(taking_pairs(), BASIC)["WELCOMES"]  # then a summary is made

    def test_what_is_expected_of_a_pair_has_its_place(self):
        made = bindings(taking_pairs(), BASIC)
        table = np.arange(12.0).reshape(2, 2, 3)
        assert made["expected_at"](table, (1, 2)) == (5.0, 11.0)
        assert made["index_of"]((9.0, 0, 0), (1.0, 2.0), (0.0,), (5.0, 11.0), 2, 4, 1.0, (3.0,)) == (9.0, 11.0)

    def test_several_numbers_of_a_name_are_one_tuple(self):
        def summary(n, of_arm):
            of_arm[0, 1] = 3.0

        taken = declared(
            refresh=Refresh.SCHEDULE,
            shared=("first", *several("centers", 2), "last"),
            of_player=several("shares", 2),
            moved_by_others="centers",
            summary=staticmethod(summary),
            others_weight=staticmethod(lambda: 1.0),
            index=staticmethod(lambda n, shares, last, centers: (n, shares, last, centers)),
        )
        made = bindings(taken, BASIC)
        assert made["index_of"]((9.0, 0.0, 0.0), (1.0, 2.0, 3.0, 4.0), (5.0, 6.0), (), 2, 4, 1.0, ()) == (
            9.0,
            (5.0, 6.0),
            4.0,
            (2.0, 3.0),
        )
        assert made["raised"](1.0, (1.0, 2.0, 3.0, 4.0), (), (), 0.5)[0] == (1.0, 2.5, 3.5, 4.0)
        taken()  # the declaration is right
        with pytest.raises(TypeError, match="gives the name 'centers' to two numbers"):
            declared(shared=("centers", *several("centers", 2)), refresh=Refresh.SCHEDULE, summary=summary)()

    def test_contributions_are_added_over_players(self):
        made = bindings(posse.HierTS, BASIC)
        assert made["added"](made["NOTHING"], (3.0, 4.0)) == (3.0, 4.0)
        assert made["contribution_of"]((4.0, 2.0, 1.0), posse.HierTS(0.5, noise=1.0).constants()) == (2.0, 1.0)
