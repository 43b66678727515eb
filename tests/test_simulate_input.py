"""What simulate and trace refuse, before they do any work."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import posse
from posse import IndTS, IndUCB, Problem, RobustAggTS
from posse.schedule import Fixed, Sequential

PROBLEM = posse.generate.subpar(2, players=4, arms=5, epsilon=0.1, seed=1)[0]
cpu_module = importlib.import_module("posse.simulation.cpu")


class NotReached(Exception):
    """Work has started."""


@pytest.fixture
def no_work(monkeypatch):
    def fail(*args, **options):
        raise NotReached

    monkeypatch.setattr(cpu_module, "PolicyRun", fail)


BAD_INPUT = {
    "horizon 0": ({"horizon": 0}, ValueError, "^horizon=0.*at least 1"),
    "negative horizon": ({"horizon": -5}, ValueError, "^horizon=-5"),
    "horizon as float": ({"horizon": 10.0}, TypeError, r"^horizon=10\.0.*whole number"),
    "horizon as bool": ({"horizon": True}, TypeError, "^horizon=True"),
    "told horizon and anytime": ({"told_horizon": 9, "anytime": True}, ValueError, "^told_horizon=9 with anytime=True"),
    "told horizon 0": ({"told_horizon": 0}, ValueError, "^told_horizon=0.*at least 1"),
    "horizon as string": ({"horizon": "10"}, TypeError, "^horizon='10'"),
    "too many player-rounds": (
        {"horizon": 2**37 + 1},
        ValueError,
        r"^horizon=137438953473 with 4 players.*549755813888",
    ),
    "no problems": ({"problems": []}, ValueError, "^no problems given"),
    "a number as problem": ({"problems": 3}, TypeError, "^problems=3"),
    "means as problem": ({"problems": [[0.5, 0.2]]}, TypeError, r"^problem 0 is \[0\.5, 0\.2\].*posse\.Problem"),
    "mixed shapes": (
        {"problems": [PROBLEM, Problem([[0.5]])]},
        ValueError,
        "^problem 1 has 1 players × 1 arms, but problem 0 has 4 × 5",
    ),
    "no policies": ({"policies": []}, ValueError, "^no policies given"),
    "a class as policy": ({"policies": IndTS}, TypeError, "^policies=IndTS, but that is a class; make a policy of it"),
    "a name alone as policy": (
        {"policies": "IndTS"},
        TypeError,
        r"^policies='IndTS', but expected a policy such as posse\.RobustAggTS\(0\.15\), or a list of them",
    ),
    "a number as policy": ({"policies": 3}, TypeError, "^policies=3, but expected a policy such as"),
    "a name alone as problem": (
        {"problems": "subpar"},
        TypeError,
        r"^problems='subpar', but expected a posse\.Problem, or a list of them",
    ),
    "a class among policies": (
        {"policies": [IndTS(), IndUCB]},
        TypeError,
        "^policy 1 is .*IndUCB.*expected a policy such as",
    ),
    "a name as policy": ({"policies": ["Ind-TS"]}, TypeError, "^policy 0 is 'Ind-TS', but expected a policy such as"),
    "duplicate labels": (
        {"policies": [IndTS(), IndUCB(), IndTS(4, label="Ind-TS")]},
        ValueError,
        "^policies 0 and 2 are both labelled 'Ind-TS'",
    ),
    "negative seed": ({"seed": -1}, ValueError, "^seed=-1"),
    "seed as float": ({"seed": 1.0}, TypeError, r"^seed=1\.0"),
    "no seed": ({"seed": None}, TypeError, "^seed=None"),
    "replications 0": ({"replications": 0}, ValueError, "^replications=0.*at least 1"),
    "replications as float": ({"replications": 2.0}, TypeError, r"^replications=2\.0"),
    "no replications": ({"replications": []}, ValueError, r"^replications=\[\]"),
    "a replication twice": ({"replications": [1, 1]}, ValueError, r"^replications=\[1, 1\].*each once"),
    "a negative replication": ({"replications": [-1]}, ValueError, "^replications=-1"),
    "unknown schedule": ({"schedule": "sequential"}, TypeError, "^schedule='sequential'"),
    "a class as schedule": ({"schedule": Sequential}, TypeError, "^schedule=<class"),
    "a mask that does not fit": ({"schedule": Fixed(np.ones((9, 4)))}, ValueError, "^mask is 9 rounds"),
    "checkpoints 0": ({"checkpoints": 0}, ValueError, "^checkpoints=0.*at least 1"),
    "no checkpoints": ({"checkpoints": []}, ValueError, r"^checkpoints=\[\]"),
    "checkpoints out of order": ({"checkpoints": [5, 3]}, ValueError, r"^checkpoints=\[5, 3\].*increasing order"),
    "a checkpoint twice": ({"checkpoints": [5, 5]}, ValueError, r"^checkpoints=\[5, 5\].*increasing order"),
    "a checkpoint past the horizon": ({"checkpoints": [5, 11]}, ValueError, "^checkpoints=11.*at most 10"),
    "a negative checkpoint": ({"checkpoints": [-1]}, ValueError, "^checkpoints=-1"),
    "a checkpoint between rounds": ({"checkpoints": [2.5]}, TypeError, r"^checkpoints=2\.5"),
    "threads 0": ({"threads": 0}, ValueError, "^threads=0.*at least 1"),
    "threads as float": ({"threads": 1.5}, TypeError, r"^threads=1\.5"),
    "progress as a number": ({"progress": 5}, TypeError, "^progress=5"),
}


GOOD_INPUT = {"problems": PROBLEM, "policies": IndTS(), "horizon": 10}


@pytest.mark.usefixtures("no_work")
class TestBadInput:
    @pytest.mark.parametrize("name", BAD_INPUT)
    def test_it_is_refused_before_any_work_starts(self, name):
        options, error, message = BAD_INPUT[name]
        with pytest.raises(error, match=message):
            posse.simulate(**(GOOD_INPUT | options))

    @pytest.mark.parametrize(
        "options", [{}, {"horizon": 2**37}, {"horizon": np.int64(10)}, {"replications": [3]}, {"checkpoints": [0, 10]}]
    )
    def test_good_input_is_not(self, options):
        with pytest.raises(NotReached):
            posse.simulate(**(GOOD_INPUT | options))


def test_constants_that_are_no_numbers_do_not_even_make_a_policy():
    with pytest.raises(ValueError, match=r"^epsilon=nan"):
        posse.simulate(PROBLEM, RobustAggTS(math.nan), 10)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"problem": [[0.5]]}, TypeError, r"^problem 0 is \[\[0.5\]\], but expected a posse.Problem"),
        ({"policy": IndTS}, TypeError, "^policy 0 is .*, but expected a policy such as"),
        ({"horizon": 0}, ValueError, "^horizon=0"),
        ({"seed": -1}, ValueError, "^seed=-1"),
        ({"replication": -1}, ValueError, "^replication=-1"),
        pytest.param({"schedule": "turn"}, TypeError, "^schedule="),
    ],
    ids=str,
)
def test_trace_refuses_bad_input_too(options, error, message):
    with pytest.raises(error, match=message):
        posse.simulation.trace(**({"problem": PROBLEM, "policy": IndTS(), "horizon": 5} | options))
