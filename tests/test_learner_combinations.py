"""Players with attributes in the learner: a combination of attributes is a player that joins when it is first seen."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import posse
from posse.attributes import LONGEST_NAME, Attributes
from posse.learner import Counts
from posse.learner.setup import Setup

DECLARED = {"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]}
ARMS = ["tea", "coffee", "cocoa"]
COMBINATIONS = [
    {"region": region, "device": device, "age": age}
    for region in ("south", "north", None)
    for device in ("phone", "desktop")
    for age in (12, 44)
]
POLICIES = [posse.PosseTS(), posse.PosseTS(forget=40), posse.RobustAggTS(0.1), posse.HierTS(0.1), posse.RobustAgg(0.1)]
POLICIES += [posse.RobustPosseTS(0.1, 400), posse.TreeTS(), posse.MixedTS(0.1, 0.2)]
BEST = {"south": "tea", "north": "coffee", None: "cocoa"}
by_label = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)


def named(given):
    declared = Attributes(DECLARED)
    return declared.name(declared.values(given))


def learner_of(policy=posse.PosseTS(), **options):
    options = {"arms": ARMS, "attributes": DECLARED, "seed": 3, "clock": lambda: 7.0} | options
    return posse.Learner(policy, **options)


def traffic(rounds=150, seed=0):
    """Combinations with rewards that depend on region and arm."""
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        given = COMBINATIONS[random.integers(len(COMBINATIONS))]
        yield given, {arm: float(random.random() < 0.2 + 0.5 * (arm == BEST[given["region"]])) for arm in ARMS}


def busy(policy=posse.PosseTS(), rounds=150, **options):
    learner = learner_of(policy, **options)
    for given, rewards in traffic(rounds):
        decision = learner.choose(given)
        learner.observe(decision, rewards[decision.arm])
    return learner


def through_parquet(table):
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    return pyarrow.parquet.read_table(file)


def assert_same(first, second):
    """Both are in the same state and decide the same, for players of before and for a new one."""
    assert first.state.values == second.state.values
    assert first.events == second.events
    for given in COMBINATIONS:
        assert first.indices(given) == second.indices(given)
    for given in [*COMBINATIONS, {"region": "new"}, {"region": "new", "device": "phone"}]:
        assert first.choose(given) == second.choose(given)


class TestChoose:
    def test_a_combination_joins_when_it_is_first_seen(self):
        learner = learner_of()
        decision = learner.choose({"age": 44.0, "region": "south"})
        assert decision.player == "region=south, age=30 to 50"
        assert learner.players == (decision.player,)
        assert learner.state.values == [("south", None, 2)]
        assert learner.changes == [
            {
                "event": 1,
                "kind": "join",
                "name": decision.player,
                "knows_others": True,
                "attributes": ["south", None, 2],
            }
        ]
        assert learner.choose({"region": "south", "age": 31}).player == decision.player  # in the same bin
        assert learner.choose(decision.player).player == decision.player
        assert (learner.events, len(learner.players)) == (1, 1)

    @by_label
    def test_it_is_a_player_like_one_that_joined_with_these_attributes(self, policy):
        learner, twin = learner_of(policy), learner_of(policy)
        for given, rewards in traffic():
            name = named(given)
            if name not in twin.players:
                twin.join(name, given)
            decision = learner.choose(given)
            assert decision == twin.choose(name)
            for each in (learner, twin):
                each.observe(decision, rewards[decision.arm])

    def test_a_policy_that_uses_attributes_knows_a_combination_before_it_was_seen(self):
        told, untold = learner_of(), learner_of()
        for given, rewards in traffic(1000):
            name = named(given)
            if name not in untold.players:
                untold.join(name)
            for learner, player in ((told, given), (untold, name)):
                decision = learner.choose(player)
                learner.observe(decision, rewards[decision.arm])
        untold.join("new")
        known, unknown = told.choose({"region": "north"}).probabilities, untold.choose("new").probabilities
        assert known["coffee"] > 0.5 > 0.1 > known["tea"]
        assert min(unknown.values()) > 0.25

    def test_several_in_one_round_choose_from_what_was_known_before_it(self):
        learner = busy(rounds=20)
        rounds, new = learner.rounds, {"region": "new"}
        made = learner.choose([new, COMBINATIONS[0], new, learner.players[1]])
        assert [each.round for each in made] == [rounds + 1] * 4
        assert made[0].player == made[2].player == "region=new"
        assert made[0].probabilities == made[2].probabilities
        assert learner.players.count("region=new") == 1

    def test_names_may_still_not_come_twice(self):
        learner = busy(rounds=9)
        with pytest.raises(ValueError, match="is named twice"):
            learner.choose([learner.players[0], learner.players[0]])

    def test_available_arms(self):
        decision = learner_of().choose({"region": "south"}, available=["tea"])
        assert decision.probabilities == {"tea": 1.0}

    def test_one_that_retired_has_retired(self):
        learner = learner_of()
        name = learner.choose({"region": "south"}).player
        learner.retire(name)
        with pytest.raises(ValueError, match="'region=south' has retired"):
            learner.choose({"region": "south"})
        learner.join(name)
        assert learner.choose({"region": "south"}).player == name
        assert len(learner.state.values) == 1

    def test_what_does_not_join_it_says_that_it_is_not_there(self):
        learner = busy(rounds=9)
        for ask in (learner.probabilities, learner.indices):
            with pytest.raises(ValueError, match="no player 'region=nowhere'"):
                ask({"region": "nowhere"})
        seen = learner.choose(COMBINATIONS[0])
        assert learner.probabilities(COMBINATIONS[0]) == learner.probabilities(seen.player)
        assert learner.indices(COMBINATIONS[0]) == learner.indices(seen.player)

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"regio": "south"}, "attribute 'regio' was not declared; declared: region, device, age"),
            ({"device": "tablet"}, "device='tablet', but declared are only phone, desktop"),
            ({"age": "old"}, "age='old', but expected a finite number"),
            ({"age": float("nan")}, "age=nan"),
            ({"region": ""}, "region='', but expected a string of 1 to 100"),
            ({"region": 7}, "region=7"),
            ([{"region": "new"}, {"age": True}], "age=True"),
            ([{"region": "new"}, "nobody"], "no player 'nobody'"),
            ([{"region": "new"}, 7.5], "player=7.5"),
        ],
    )
    def test_a_wrong_one_changes_nothing(self, given, error):
        learner = busy(rounds=9)
        before = learner.events, learner.rounds, learner.players
        with pytest.raises((ValueError, TypeError), match=error):
            learner.choose(given)
        with pytest.raises(ValueError, match="no arm 'milk'"):
            learner.choose({"region": "new"}, available=["milk"])
        assert (learner.events, learner.rounds, learner.players) == before

    def test_without_attributes_a_dictionary_is_refused(self):
        with pytest.raises(ValueError, match="no attributes were declared"):
            posse.Learner(arms=ARMS, players=["north"]).choose({"region": "south"})

    def test_the_limit_of_players(self):
        learner = learner_of(player_limit=3, players=["first"])
        learner.choose([{"age": 1}, {"age": 20}])
        for refused in (
            lambda: learner.choose({"age": 40}),
            lambda: learner.choose([{"age": 1}, {"age": 40}]),
            lambda: learner.join("second"),
        ):
            with pytest.raises(ValueError, match=r"4 players, but player_limit=3"):
                refused()
        assert (learner.events, learner.rounds, len(learner.players)) == (2, 1, 3)
        learner.retire("first")
        learner.join("first")  # it counts already
        learner.choose([{"age": 1}, {"age": 20}])
        with pytest.raises(ValueError, match="2 players, but player_limit=1"):
            learner_of(player_limit=1, players=["first", "second"])

    def test_a_player_with_the_name_of_another_combination_is_not_taken_for_it(self):
        learner = learner_of()
        learner.join("region=south")
        with pytest.raises(ValueError, match="'region=south' has the attributes it came with, no attributes; not reg"):
            learner.choose({"region": "south"})
        assert learner.events == 1


def test_a_log_with_attributes_of_too_few_or_too_many_players_is_refused():
    learner = learner_of(players={"shop": {"age": 3}, "other": {}})
    for values in (learner.first["attributes"][:1], learner.first["attributes"] * 2):
        learner.first["attributes"] = values
        with pytest.raises(ValueError, match=rf"attributes of {len(values)} players, but there are 2"):
            posse.Learner.replay(learner.log())


class TestNames:
    def test_a_long_name_is_cut_and_stays_unique(self):
        kinds = {f"attribute_{number}": "category" for number in range(3)}
        learner = learner_of(attributes=kinds)
        values = [dict.fromkeys(kinds, "x" * 99) | {"attribute_2": end * 100} for end in "ab"]
        names = [learner.choose(given).player for given in values]
        assert [len(name) for name in names] == [LONGEST_NAME] * 2
        assert names[0][:180] == names[1][:180]
        assert names[0] != names[1]
        assert [learner.choose(given).player for given in values] == names

    def test_names_tell_combinations_apart(self):
        """Values that could be taken for others, and cuts that are close to each other."""
        declared = Attributes({"a": "category", "b": "category", "c": [1000000.1, 1000000.2, 1000000.3]})
        texts = [None, "x", "x, b=y", 'x"', "x=", "y", "no attributes"]
        rows = list(itertools.product(texts, texts, [None, 0, 1, 2, 3]))
        assert len({declared.name(row) for row in rows}) == len(rows)


class TestPlayers:
    def test_given_with_their_attributes(self):
        mapping = {"shop 1": {"region": "south", "age": 44}, "shop 2": {"device": "phone"}, 3: {}}
        values = [("south", None, 2), (None, "phone", None), (None, None, None)]
        frame = {"player": ["shop 1", "shop 2", "3"], "region": ["south", None, None]}
        frame |= {"age": [44, None, None], "device": [None, "phone", None]}
        pandas = pytest.importorskip("pandas")
        nullable = pandas.DataFrame(frame).astype({"region": "string", "age": "Int64", "device": "category"})
        for players in (mapping, pa.table(frame), pandas.DataFrame(frame), nullable):
            learner = learner_of(players=players)
            assert learner.players == ("shop 1", "shop 2", "3")
            assert learner.state.values == values
            assert learner.counts().attributes == {
                "region": ("south", None, None),
                "device": (None, "phone", None),
                "age": ("30 to 50", None, None),
            }
        assert learner_of(players=["shop 1"]).counts().attributes["age"] == (None,)
        assert posse.Learner(arms=ARMS, players=["shop 1"]).counts().attributes is None
        assert learner_of(players=pa.table({"player": ["shop 1"]})).players == ("shop 1",)

    @pytest.mark.parametrize(
        ("players", "error"),
        [
            ({"shop": {"age": "old"}}, "player 'shop': attribute age='old'"),
            ({"shop": {"size": 3}}, "player 'shop': attribute 'size' was not declared"),
            ({"shop": 3}, "player 'shop': attributes=3, but expected {name: value}"),
            (pa.table({"player": ["shop"], "size": [3]}), "player 'shop': attribute 'size' was not declared"),
            (pa.table({"shop": ["shop"], "age": [3]}), "the columns are shop, age, but expected 'player'"),
            (pa.table({"player": ["a", "a"], "age": [3, 4]}), "player 'a' is named twice"),
            (pa.table([["a"], [3], [4]], ["player", "age", "age"]), "the column 'age' is there twice, but expected"),
        ],
    )
    def test_wrong_ones(self, players, error):
        with pytest.raises((ValueError, TypeError), match=error):
            learner_of(players=players)

    def test_one_that_comes_back_keeps_its_attributes(self):
        learner = learner_of()
        learner.join("shop", {"region": "south"})
        learner.retire("shop")
        with pytest.raises(ValueError, match=r"came with, region=south; not region=north"):
            learner.join("shop", {"region": "north"})
        learner.join("shop", {"region": "south"})
        learner.retire("shop")
        learner.join("shop")
        assert learner.state.values == [("south", None, None)]
        assert learner.events == 5

    @pytest.mark.parametrize("name", ["arm", "reward", "probabilities", "decided_at"])
    def test_an_attribute_is_not_named_like_a_column(self, name):
        with pytest.raises(ValueError, match=f"attribute '{name}' has the name of a column of the log"):
            learner_of(attributes={name: "category"})

    def test_counts_check_attributes(self):
        given = ("north",), ("tea",), [[1]], [[1.0]]
        with pytest.raises(ValueError, match="attribute 'age' has 2 values, but expected one for each of the 1"):
            Counts(*given, attributes={"age": ("old", "young")})
        with pytest.raises(ValueError, match="player 'north' has age=3, but expected a text"):
            Counts(*given, attributes={"age": (3,)})


class TestFiles:
    def test_the_log_has_a_column_for_each_attribute(self):
        learner = busy(rounds=30, players={"shop": {"device": "phone"}})
        learner.record([("shop", "tea", 1.0)])
        table = learner.log()
        assert table.column_names[-3:] == list(DECLARED)
        for entry in table.to_pylist():
            shown = {name: entry[name] for name in DECLARED if entry[name] is not None}
            if entry["player"] == "shop":
                assert shown == {"device": "phone"}
            else:
                assert entry["player"] == (", ".join(f"{name}={text}" for name, text in shown.items()))

    @by_label
    @pytest.mark.parametrize("way", ["replay", "Parquet", "file"])
    def test_it_comes_back_as_it_was(self, policy, way, tmp_path):
        learner = busy(policy, players={"shop": {"device": "phone"}})
        learner.join("late", {"region": "east"}, knows_others=False)
        if way == "file":
            learner.save(tmp_path / "learner.json")
            other = posse.Learner.load(tmp_path / "learner.json", clock=lambda: 7.0)
        else:
            table = learner.log()
            other = posse.Learner.replay(through_parquet(table) if way == "Parquet" else table, clock=lambda: 7.0)
        assert (other.first, other.changes, other.setup) == (learner.first, learner.changes, learner.setup)
        assert_same(learner, other)
        assert other.log().equals(learner.log(), check_metadata=True)

    def test_a_set_up_keeps_the_order_of_attributes(self):
        setup = learner_of(attributes={"z": "category", "a": [1, 2]}, player_limit=7).setup
        assert list(Setup.from_dict(setup.to_dict()).attributes.kinds) == ["z", "a"]
        assert Setup.from_dict(setup.to_dict()) == setup

    def test_files_from_before_have_no_limit_of_players(self):
        plain = posse.Learner(arms=ARMS).setup.to_dict()
        del plain["player_limit"]
        Setup.from_dict(plain).check_players(10**9)

    @pytest.mark.parametrize("values", [["south"], ["south", None, 4], ["south", None, -1], ["south", "tablet", 0], 7])
    def test_a_damaged_log_is_refused(self, values):
        learner = learner_of()
        learner.choose({"region": "south"})
        learner.changes[0]["attributes"] = values
        with pytest.raises((ValueError, TypeError), match=r"attribute|the bin of"):
            posse.Learner.replay(learner.log())


@by_label
def test_after_an_erasure_nothing_depends_on_what_was_erased(policy):
    """A learner that never knew the attributes goes on in the same way, once both have forgotten them."""
    told, untold = learner_of(policy), learner_of(policy)
    told.join("shop", {"region": "south", "age": 12})
    untold.join("shop")
    for given, rewards in traffic(120):
        for each in (told, untold):
            if named(given) not in each.players:
                each.join(named(given), given)
            arm = ARMS[each.rounds % 3]
            each.record([(named(given), arm, rewards[arm]), ("shop", arm, rewards[arm])])
    if policy.of_value:
        assert told.indices("shop") != untold.indices("shop")
    for each in (told, untold):
        each._change("erase", "shop")
    assert told.counts().attributes["region"][0] is None
    assert_same(told, untold)
