"""What is known about players: kinds, values, names, and the columns that policies see."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_posse
from posse.attributes import LONGEST, MOST, MOST_VALUES, Attributes, Coder

KINDS = {"region": "category", "device": ["phone", "desktop"], "age": [18, 30, 50]}


class TestDeclaration:
    @pytest.mark.parametrize(
        ("kinds", "error", "message"),
        [
            (
                "region",
                TypeError,
                r"attributes='region', but expected \{name: kind\}, such as \{'region': 'category'\}",
            ),
            ({"a b": "category"}, ValueError, r"attribute 'a b', but the name of an attribute has letters, digits"),
            ({"": "category"}, ValueError, "attribute '', but the name of an attribute has"),
            ({"1st": "category"}, ValueError, "attribute '1st', but .* no digit first"),
            ({7: "category"}, ValueError, "attribute 7, but the name"),
            ({"x" * (LONGEST + 1): "category"}, ValueError, f"at most {LONGEST}"),
            (
                {"region": "Category"},
                TypeError,
                r"attribute 'region' is 'Category', but expected 'category', a list of",
            ),
            ({"region": 3}, TypeError, r"attribute 'region' is 3, but expected 'category'"),
            ({"region": None}, TypeError, r"attribute 'region' is None, but expected 'category'"),
            ({"region": []}, ValueError, rf"attribute 'region' has 0 values or cuts, but expected 1 to {MOST_VALUES}"),
            ({"age": range(MOST_VALUES + 1)}, ValueError, rf"attribute 'age' has {MOST_VALUES + 1} values or cuts"),
            ({"region": ["a", "b", "a"]}, ValueError, r"attribute 'region' lists a category twice: \['a', 'b', 'a'\]"),
            ({"region": ["a", " "]}, ValueError, "attribute region=' ', but expected a string of 1 to"),
            ({"region": ["a", "b\n"]}, ValueError, r"attribute region='b\\n', but expected .* printable"),
            ({"age": [30, 18]}, ValueError, r"attribute 'age' is cut at \[30, 18\], but expected rising numbers"),
            ({"age": [30, 30]}, ValueError, "expected rising numbers"),
            ({"age": [1, 1 + 2**-52]}, ValueError, "expected rising numbers that differ in their first 15 digits"),
            ({"age": {18: 1, 30: 2}}, TypeError, r"attribute 'age' is \{18: 1, 30: 2\}, but expected 'category'"),
            ({"age": b"ab"}, TypeError, "attribute 'age' is b'ab', but expected 'category'"),
            ({"age": [30, 10**400]}, ValueError, "a cut of attribute 'age' is too large, but expected a finite"),
            ({"age": [30, math.inf]}, ValueError, "a cut of attribute 'age'"),
            ({"age": [30, math.nan]}, ValueError, "a cut of attribute 'age'"),
            ({"age": [30, "old"]}, TypeError, "a cut of attribute 'age'='old'"),
            ({"age": [True]}, TypeError, "a cut of attribute 'age'=True"),
            (
                {f"x{k}": "category" for k in range(MOST + 1)},
                ValueError,
                f"{MOST + 1} attributes, but .* at most {MOST}",
            ),
        ],
        ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
    )
    def test_a_wrong_one_says_what_is_wrong(self, kinds, error, message):
        with pytest.raises(error, match=message):
            Attributes(kinds)

    def test_a_right_one_says_what_it_was_made_of(self):
        made = Attributes(KINDS)
        assert made.to_dict() == {"region": "category", "device": ["phone", "desktop"], "age": [18.0, 30.0, 50.0]}
        assert Attributes(made.to_dict()) == made
        assert hash(Attributes(made.to_dict())) == hash(made)
        assert Attributes(dict(reversed(KINDS.items()))) != made  # their order is that of values
        assert made != KINDS
        assert (bool(made), bool(Attributes()), bool(Attributes({}))) == (True, False, False)
        assert repr(Attributes({"age": [18]})) == "Attributes({'age': [18.0]})"

    def test_arrays_are_lists(self):
        kinds = {"age": np.array([18, 30.5], np.float32), "device": np.array(["phone", "desktop"])}
        assert Attributes(kinds).to_dict() == {"age": [18.0, 30.5], "device": ["phone", "desktop"]}

    def test_the_largest_are_allowed(self):
        """The negative control of the limits."""
        kinds = {f"x{k}": list(range(MOST_VALUES)) for k in range(MOST)}
        assert len(Attributes(kinds).kinds) == MOST
        assert Attributes({"x" * LONGEST: ["y" * LONGEST]}).values({"x" * LONGEST: "y" * LONGEST}) == ("y" * LONGEST,)


class TestValues:
    @pytest.mark.parametrize(
        ("age", "bin_"),
        [(-1e9, 0), (17.999, 0), (18, 1), (29, 1), (30, 2), (49.9, 2), (50, 3), (10**9, 3), (None, None)],
    )
    def test_a_bin_holds_its_lower_cut_and_not_its_upper_one(self, age, bin_):
        assert Attributes(KINDS).values({"age": age}) == (None, None, bin_)

    @pytest.mark.parametrize(
        ("given", "error", "message"),
        [
            ({"city": "x"}, ValueError, "attribute 'city' was not declared; declared: region, device, age"),
            ([("age", 3)], TypeError, r"attributes=\[\('age', 3\)\], but expected \{name: value\}"),
            ({"device": "tv"}, ValueError, "attribute device='tv', but declared are only phone, desktop"),
            ({"device": 3}, ValueError, "attribute device=3, but expected a string of 1 to 100 printable"),
            ({"region": ""}, ValueError, "attribute region='', but expected a string of 1 to 100 printable characters"),
            ({"region": "x" * 101}, ValueError, "but expected a string of 1 to 100 printable characters"),
            ({"region": "a\0"}, ValueError, "printable"),
            ({"age": "18"}, TypeError, "attribute age='18'"),
            ({"age": "9" * 10**6}, TypeError, "^attribute age='9{199}, but expected a finite number$"),
            ({"age": 10**5000}, ValueError, "attribute age is too large, but expected a finite number"),
            ({"age": math.nan}, ValueError, "attribute age=nan"),
            ({"age": True}, TypeError, "attribute age=True"),
        ],
    )
    def test_a_wrong_one_says_what_is_wrong(self, given, error, message):
        with pytest.raises(error, match=message):
            Attributes(KINDS).values(given)

    def test_without_attributes_none_can_be_given(self):
        assert Attributes().values({}) == ()
        with pytest.raises(ValueError, match="attribute 'age' was not declared; declared: none"):
            Attributes().values({"age": 3})

    def test_what_is_missing_is_none(self):
        assert Attributes(KINDS).values({"device": "phone", "region": None}) == (None, "phone", None)


class TestNames:
    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ({"region": "south", "age": 44}, "region=south, age=30 to 50"),
            ({"age": 3, "device": "tv"}, "device=tv, age=below 18"),
            ({"age": 50}, "age=50 and more"),
            ({}, "no attributes"),
            ({"region": "a, b"}, 'region="a, b"'),
            ({"region": "x=1"}, 'region="x=1"'),
            ({"region": 'the "best"'}, r'region="the \"best\""'),
            ({"region": "Zürich"}, "region=Zürich"),
            ({"region": "a=ü"}, 'region="a=ü"'),
        ],
    )
    def test_a_combination_has_one(self, given, name):
        declared = Attributes({"region": "category", "device": ["tv"], "age": [18, 30, 50]})
        assert declared.name(declared.values(given)) == name

    def test_two_combinations_never_have_the_same(self):
        """Though values look like the text between them."""
        declared = Attributes({"a": "category", "b": "category"})
        texts = ["x", "x, b=y", "y", "b=y", '"x"', '"x, b=y"', "no attributes", "\\", '\\"', None]
        combinations = [declared.values({"a": a, "b": b}) for a, b in itertools.product(texts, repeat=2)]
        names = {declared.name(values) for values in combinations}
        assert len(names) == len(combinations) == 100

    def test_nor_does_one_have_the_cut_name_of_another(self):
        declared = Attributes({"a": "category", "b": "category", "c": "category"})
        cut = declared.name(("x" * 100, "y" * 100, "z"))
        forged = declared.values({"a": "x" * 100, "b": cut.split("b=")[1]})
        assert cut.startswith("a=xxx")
        assert declared.name(forged) != cut

    def test_values_are_shown_as_people_read_them(self):
        declared = Attributes(KINDS)
        assert declared.shown(declared.values({"region": "a, b", "age": 20})) == {"region": "a, b", "age": "18 to 30"}


class TestCodes:
    def test_parts_are_categories_slopes_bins_and_pairs(self):
        coder = Coder(Attributes(KINDS))
        assert naive_posse.part_labels(coder) == [
            *("region", "device", "slope of age", "age"),
            *("region × device", "region × age", "device × age"),
        ]
        assert coder.parts == len(naive_posse.part_labels(coder)) == len(coder.part_of)

    def test_columns_come_in_the_order_of_values(self):
        coder = Coder(Attributes({"region": "category", "age": [18, 30]}))  # the parts: region, slope, age, pair
        rows = [("south", 0), ("north", 1), ("south", None), (None, 2), ("south", 0)]
        columns, weights, part_of = coder.coded(rows)
        assert part_of.tolist() == [0, 1, 2, 3, *(0, 1, 2, 3), *(0, 2, 3), 2]
        assert columns.tolist() == [[4, 5, 6, 7], [8, 5, 9, 10], [4, 1, 2, 3], [0, 5, 11, 3], [4, 5, 6, 7]]
        assert weights.tolist() == [[1, -1, 1, 1], [1, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1], [1, -1, 1, 1]]
        assert (columns.dtype, weights.dtype, part_of.dtype) == (np.int64, np.float64, np.int64)

    def test_without_attributes_there_are_no_columns(self):
        columns, weights, part_of = Coder(Attributes()).coded([()] * 3)
        assert columns.shape == weights.shape == (3, 0)
        assert part_of.size == 0

    def test_nobody_has_columns_only_for_what_is_missing(self):
        columns, _, part_of = Coder(Attributes(KINDS)).coded([])
        assert columns.shape == (0, 7)
        assert part_of.tolist() == list(range(7))

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(data=st.data(), players=st.integers(0, 12))
    def test_they_are_the_oracles_and_grow_one_by_one(self, data, players):
        declared = Attributes({**KINDS, "visits": [1]})
        value = {"region": st.sampled_from("abc"), "device": st.sampled_from(KINDS["device"])}
        value |= {"age": st.integers(0, 70), "visits": st.integers(0, 2)}
        given = st.fixed_dictionaries({name: st.none() | each for name, each in value.items()})
        rows = [declared.values(data.draw(given)) for _ in range(players)]
        columns, weights, part_of = Coder(declared).coded(rows)
        parts = [naive_posse.parts_of(declared.kinds, values) for values in rows]
        for p, part in itertools.product(range(players), range(len(part_of[: columns.shape[1]]))):
            value, weight = parts[p][part]
            assert weights[p, part] == weight
            assert part_of[columns[p, part]] == part
            assert (columns[p, part] == part) == (value is None)
            for other in range(players):
                assert (columns[p, part] == columns[other, part]) == (value == parts[other][part][0])
        grown = Coder(declared)
        for p, values in enumerate(rows):
            assert grown.code(values) == (columns[p].tolist(), weights[p].tolist())
        assert grown.part_of == part_of.tolist()
