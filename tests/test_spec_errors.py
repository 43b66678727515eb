"""Specs that are wrong: the error names the line, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_spec import ATTRIBUTES, GROUPS, SMALL, small

from posse.experiments import SpecError, load, parse
from posse.experiments.spec.fields import line_of

FAMILY = 'family = "subpar"\nn_subpar = 2'
TWICE = 'label = "RobustAgg-TS(0.15)"'
BROKEN = [
    # (what to replace, by what, the line's text in the broken spec, what the message holds)
    ("horizon = 40", "horizons = 40", "horizons = 40", "did you mean horizon"),
    ("horizon = 40", "horizon = 0", "horizon = 0", "at least 1"),
    ("horizon = 40", 'horizon = "long"', 'horizon = "long"', "whole number"),
    ("horizon = 40", "horizon = true", "horizon = true", "whole number"),
    ("horizon = 40", "horizon = []", "horizon = []", "at least one value"),
    ("horizon = 40", "horizon = [5, 5]", "horizon = [5, 5]", "once"),
    ("horizon = 40", "horizon = 400000000000", "horizon = 400000000000", "player-rounds"),
    ("horizon = 40", "", "[[study]]", "horizon is missing"),
    ("horizon = 40", "horizon = 40\nturns = 3", "horizon = 40", "exactly one"),
    ("horizon = 40", "turns = 40\nschedule = { random = 0 }", "turns = 40", "more than"),
    ("horizon = 40", "horizon = 40\nreplications = [1, 2]", "replications = [1, 2]", "no grid"),
    ("horizon = 40", 'horizon = 40\nschedule = "sometimes"', 'schedule = "sometimes"', "sequential-random"),
    ("horizon = 40", "horizon = 40\nschedule = { random = 1.5 }", "schedule = { random = 1.5 }", "[0, 1]"),
    ("horizon = 40", "horizon = 40\nschedule = { random = [[0.1]] }", "schedule = { random = [[0.1]] }", "4 players"),
    ("horizon = 40", "horizon = 40\nschedule = { late = 2 }", "schedule = { late = 2 }", "[0, 1]"),
    ("horizon = 40", 'horizon = 40\ntags = "A"', 'tags = "A"', "list of texts"),
    ("horizon = 40", "horizon = 40\ntags = [1]", "tags = [1]", "text in quotes"),
    ("horizon = 40", "horizon = 40\ntold = 0", "told = 0", "above 0"),
    ("horizon = 40", "horizon = 40\nanytime = [false, true]\ntold = 0.5", "told = 0.5", "with anytime=true"),
    ("horizon = 40", "horizon = 40\ntold = [0.1, 10]", "told = [0.1, 10]", "no grid"),
    ("horizon = 40", "horizon = 40\nknows_groups = 1", "knows_groups = 1", "true or false"),
    ("horizon = 40", "horizon = 40\nknows_groups = true", "knows_groups = true", "only one group"),
    ("horizon = 40", "horizon = 40\ndelay = 50", "delay = 50", "(did you mean feedback = { delay = 50 }?)"),
    ("horizon = 40", "horizon = 40\nlate = 0.5", "late = 0.5", "(did you mean schedule = { late = 0.5 }?)"),
    ("horizon = 40", "horizon = 40\nfeedback = { delay = [0, 39] }", "feedback = { delay = [0, 39] }", "no reward arr"),
    ("horizon = 40", "horizon = 40\nfeedback = { batch = 40 }", "feedback = { batch = 40 }", "no reward arrives bef"),
    ("seed = 3", 'seed = 3\ndefaults = { name = "x" }', 'defaults = { name = "x" }', "no name"),
    ("seed = 3", "seed = 3\ndefaults = { horizons = 3 }", "defaults = { horizons = 3 }", "did you mean horizon"),
    ("n_subpar = 2", "n_subpar = 3", "n_subpar = 3", "at most 2"),
    ("n_subpar = 2", "n_subpar = [1, 7]", "n_subpar = [1, 7]", "at most 2"),
    ("count = 3", "count = 3\nepsilon = 0.19", "epsilon = 0.19", "at most 0.16"),
    ("count = 3", 'count = 3\nrewards = "normal"', 'rewards = "normal"', "bernoulli"),
    ("count = 3", "count = 3\nrewards = { beta = -1 }", "rewards = { beta = -1 }", "above 0"),
    ("players = 4", "players = 1000000", "players = 1000000", "at most 1000000"),
    ("count = 3", "count = 1000001", "count = 1000001", "at most 1000000"),
    ('family = "subpar"', 'family = "gaussian"', 'family = "gaussian"', "'subpar' or 'uniform'"),
    ('family = "subpar"', 'family = "uniform"', "n_subpar = 2", "not a field here"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\nodd = 5', "odd = 5", "at most 4"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\noddity = "strange"', 'oddity = "strange"', "swapped"),
    ('family = "subpar"\nn_subpar = 2', 'family = "structured"\nepsilon = 0.1', "epsilon = 0.1", "not a field here"),
    (FAMILY, 'family = "structured"\ncenters = 0.3', "centers = 0.3", "list of numbers"),
    (FAMILY, 'family = "structured"\ncenters = [0.3]', "centers = [0.3]", "each of 3 arms"),
    (FAMILY, 'family = "structured"\ncenters = [0.3, 2, 1]', "centers = [0.3, 2, 1]", "[0, 1]"),
    (FAMILY, 'family = "structured"\nlevel = 2', "level = 2", "[0, 1]"),
    (FAMILY, 'family = "structured"\nscale = "x"', 'scale = "x"', "'logit', 'log'"),
    (FAMILY, 'family = "structured"\nmajority = 0.5', "majority = 0.5", "no group may be empty"),
    (FAMILY, 'family = "structured"\nexplained = 0.5', "explained = 0.5", "there are no attributes"),
    (FAMILY, 'family = "structured"\nattributes = 3', "attributes = 3", "a table, such as { region = 4 }"),
    (FAMILY, 'family = "structured"\nattributes = [3]', "attributes = [3]", "no grid"),
    (FAMILY, 'family = "structured"\nattributes = { a = 1 }', "attributes = { a = 1 }", "at least 2"),
    (FAMILY, 'family = "structured"\nattributes = { a = [2, 1] }', "attributes = { a = [2, 1] }", "rising"),
    (FAMILY, f"{ATTRIBUTES}\nexplained = 1.5", "explained = 1.5", "[0, 1]"),
    (FAMILY, f"{ATTRIBUTES}\nexplained = {{ b = 0.5 }}", "explained = { b = 0.5 }", "the attributes are region, age"),
    (FAMILY, f"{ATTRIBUTES}\nexplained = [0.5, 0.5]", "explained = [0.5, 0.5]", "must be there once"),
    (FAMILY, f"{ATTRIBUTES}\nexplained = 0.5\nmissing = 2", "missing = 2", "[0, 1]"),
    ("horizon = 40", "horizon = 40\nblind = true", "blind = true", "no attributes"),
    ("horizon = 40", "horizon = 40\nblind = 1", "blind = 1", "true or false"),
    ("horizon = 40", "horizon = 40\nextra_policies = 3", "extra_policies = 3", "expected at least one table"),
    ("horizon = 40", 'horizon = 40\nextra_policies = [{ name = "X" }]', None, "extra policy 1: name='X', but expected"),
    ("horizon = 40", 'horizon = 40\nextra_policies = [{ name = "IndTS" }]', None, "label of two policies"),
    ("horizon = 40", "horizon = 40\nschedule = { zipf = -1 }", "schedule = { zipf = -1 }", "[0, 10]"),
    ('family = "subpar"', "", "[study.problems]", "family, means and file"),
    ('name = "IndTS"', 'name = "IndTSS"', 'name = "IndTSS"', "(did you mean IndTS?), but expected one of "),
    ('name = "IndTS"', 'name = "posse-ts"', 'name = "posse-ts"', "did you mean PosseTS?"),
    ("horizon = 40", 'horizon = 40\nschedule = "sequentially"', None, "did you mean sequential?"),
    ("horizon = 40", "horizon = 40\nschedule = { randon = 0.5 }", None, "did you mean random?"),
    ("count = 3", 'count = 3\nrewards = "Bernouli"', None, "did you mean bernoulli?"),
    (FAMILY, 'family = "structurd"', None, "did you mean structured?"),
    (FAMILY, 'family = "structured"\noddity = "swaped"', None, "did you mean swapped?"),
    ('epsilon = "problem"', 'epsilon = "problems"', 'epsilon = "problems"', "did you mean problem?"),
    ('name = "IndTS"', 'name = "IndTS"\nepsilon = 0.1', "epsilon = 0.1", "not a field here"),
    ('name = "IndTS"', 'name = "IndTS"\nc2 = 0', "c2 = 0", "above 0"),
    ('name = "IndTS"', 'name = "RobustAgg"', None, 'epsilon is missing; add epsilon = 0.1, or epsilon = "problem"'),
    ('name = "IndTS"', f'name = "IndTS"\n{TWICE}', TWICE, "label of two policies"),
    ('name = "IndTS"', 'name = ["IndTS", "IndUCB"]\nlabel = "x"', 'label = "x"', "label of two policies"),
    ('name = "IndTS"', 'name = "IndTS"\nlabel = 3', "label = 3", "text in quotes"),
    ('epsilon = "problem"', 'epsilon = "own"', 'epsilon = "own"', '"problem"'),
    ('epsilon = "problem"', "epsilon = 1.5", "epsilon = 1.5", "at most 1"),
    ('epsilon = "problem"', "epsilon = [0.1, 7]", "epsilon = [0.1, 7]", "at most 1"),
    ('epsilon = "problem"', "epsilon = -0.1", "epsilon = -0.1", "at least 0"),
    ('epsilon = "problem"', "epsilon = nan", "epsilon = nan", "finite number"),
    ('epsilon = "problem"', "epsilon = 0.1\nc1 = -1", "c1 = -1", "above 0"),
    ("seed = 3", "seed = -3", "seed = -3", "at least 0"),
    ("seed = 3", "seed = 3.5", "seed = 3.5", "whole number"),
    ('title = "Small"', "title = 3", "title = 3", "text in quotes"),
    ("arms = 3", "arms = 3 4", "arms = 3 4", "TOML"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), BROKEN)
def test_an_error_names_the_line_and_what_is_allowed(old, new, line, words):
    text = small(old, new)
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert words in str(caught.value)
    if line is not None:
        assert text.split("\n")[caught.value.line - 1] == line
        assert f"line {caught.value.line}" in str(caught.value)


def test_names_of_policies_alone_are_shown_as_tables():
    text = SMALL[: SMALL.index("[study.problems]")] + 'policies = ["PosseTS", "IndTS"]\n'
    with pytest.raises(SpecError, match=r'expected at least one table, .*, such as \{ name = "PosseTS" \}'):
        parse(text + 'problems = { family = "subpar", n_subpar = 2 }')


def test_a_reward_that_arrives_for_the_last_round_is_late_enough():
    for feedback in ("delay = 38", "batch = 39"):
        assert parse(small("horizon = 40", f"horizon = 40\nfeedback = {{ {feedback} }}")).units()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('schedule = "sequential"', "every player must act"),
        ('policies = [{ name = "PosseTS", label = "PosseTS, groups known" }]', "label of two policies"),
    ],
)
def test_what_does_not_go_with_known_groups(more, words):
    problems = f"problems = {{ {', '.join(GROUPS.split(chr(10)))}, players = 4 }}"
    text = f'[[study]]\nname = "g"\nhorizon = 9\nknows_groups = true\n{problems}\n{more}\n'
    if "policies" not in more:
        text += 'policies = [{ name = "PosseTS" }]'
    with pytest.raises(SpecError, match=words):
        parse(text)


def test_a_file_is_named_with_the_line(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(small('epsilon = "problem"', "epsilon = 1.5"), encoding="utf-8")
    with pytest.raises(SpecError, match=rf"^{path}, line 18: study 'one', policy 1: epsilon=1.5, .*at most 1"):
        load(path)
    path.write_text("horizon = = 3", encoding="utf-8")
    with pytest.raises(SpecError, match=rf"^{path}, line 1: not a TOML file"):
        load(path)


def test_a_mistake_in_the_defaults_is_named_where_it_is():
    shared = '[defaults]\n[[defaults.policies]]\nname = "RobustAgg"\nepsilon = 3\n\n[[study]]'
    text = SMALL[: SMALL.index("[[study.policies]]")].replace("[[study]]", shared)
    with pytest.raises(SpecError, match="epsilon=3, but expected at most 1") as caught:
        parse(text)
    assert text.split("\n")[caught.value.line - 1] == "epsilon = 3"


def test_something_else_than_text_is_refused():
    with pytest.raises(TypeError, match="expected the text of a spec; `load` reads a file"):
        parse(Path("spec.toml"))


def test_the_right_one_of_several_tables_is_named():
    second = SMALL[SMALL.index("[[study]]") :].replace('"one"', '"two"').replace("count = 3", "count = -3")
    text = SMALL + second
    with pytest.raises(SpecError, match="study 'two', problems: count=-3") as caught:
        parse(text)
    assert text.split("\n")[caught.value.line - 1] == "count = -3"
    assert caught.value.field == "study.problems.count"


def test_two_studies_of_one_name():
    with pytest.raises(SpecError, match="another study has that name"):
        parse(SMALL + SMALL[SMALL.index("[[study]]") :])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.csv", None, "none.csv"),
        ("words.csv", b"a,b\n0.1,0.2\n0.1,x\n", "line 3, column b: 'x' is not a number; expected one row"),
        ("names.csv", b"a,b\n", "row"),
        ("quoted.csv", b'"0,62","0,55"\n', "column 1: '0,62' is not a number; expected one row a player"),
        ("commas.csv", b"0,62,0,55\n", "0,62,0,55 seems to have commas in numbers"),
        ("long.csv", b"clinic,arm,mean\n0,0,0.5\n0,1,0.6\n", "(clinic, arm, mean), but expected one row a player"),
        ("percent.csv", b"60%,55%\n50%,40%\n", "line 1, column 1: '60%', but a mean is a number in [0, 1]; divide"),
        ("hundred.csv", b"A,B\n60,55\n", "means[0, A]=60.0, but a mean is a number in [0, 1]; divide percentages by"),
        ("missing.csv", b"shop,A,B\n1,0.1,0.2\n2,0.1,\n", "line 3, column B: '', but every mean must be given"),
        ("na.csv", b"0.1,0.2\nNA,0.2\n", "line 2, column 1: 'NA', but every mean must be given"),
        ("ragged.csv", b"0.1,0.2\n0.1\n", "player 1 has 1 arms"),
        ("high.csv", b"0.1,0.2\n0.1,2\n", "in [0, 1]"),
        ("named.csv", b"clinic,A,B\nnorth,0.1,0.2\nsouth,0.1\n", "south has 1 arms, but north has 2"),
        ("above.csv", b"clinic,A,B\nnorth,0.1,0.2\nsouth,0.1,2\n", "means[south, B]=2.0, but"),
        ("empty.csv", b"", "row"),
        ("latin.csv", b"\xff\xfe0.1", "latin.csv"),
        ("damaged.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", "damaged.npy"),
        ("means.txt", b"0.1", ".csv or .npy"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    text = small(SMALL[SMALL.index("family") : SMALL.index("[[study.policies")], f'file = "{name}"\n')
    with pytest.raises(SpecError) as caught:
        parse(text, tmp_path)
    assert name in str(caught.value)
    assert words in str(caught.value)


def test_an_epsilon_that_is_too_small_names_who_differs(tmp_path):
    (tmp_path / "means.csv").write_text("clinic,A,B\nnorth,0.1,0.2\neast,0.1,0.3\nsouth,0.1,0.6\n")
    np.save(tmp_path / "means.npy", [[0.1, 0.2], [0.1, 0.3], [0.1, 0.6]])
    for name, words in (("csv", "arm B differs by 0.4 between north and south"), ("npy", "arm 1 .* players 0 and 2")):
        source = f'file = "means.{name}"\nepsilon = 0.1\n'
        text = small(SMALL[SMALL.index("family") : SMALL.index("[[study.policies")], source)
        with pytest.raises(SpecError, match=rf"epsilon=0\.1, but {words}"):
            parse(text, tmp_path)


def test_not_text(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"spec\.toml is not UTF-8"):
        load(tmp_path / "spec.toml")


@pytest.mark.parametrize(
    "text", ["", "x" * 10, "[" * 5000, "seed = " + "9" * 5000, "seed = 0x" + "f" * 5000, "study = 1"]
)
def test_strange_texts(text):
    with pytest.raises(SpecError):
        parse(text)


def test_brackets_in_texts_and_comments_do_not_hide_a_line():
    strings = 'a = """\n[x]\nb = 1 # "\n"""\r\nb = \'\'\'\n]]]\n\'\'\'\n'
    text = strings + '# [ " \nc = [ # ]\n 1,\n 2]\n[t]\nz = "\\"[" # {\nd = 1\n'
    places = {("a",): 1, ("b",): 5, ("c",): 9, ("c", 1): 9, ("t",): 12, ("t", "z"): 13, ("t", "d"): 14, ("d",): None}
    assert {keys: line_of(text, keys) for keys in places} == places
    assert line_of('a = """x""""\nb = 1\nc = "y"\n', ("b",)) == 2, "three quotes may follow a fourth"
