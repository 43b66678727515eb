"""Policies with statistics of their own, in one file outside the package; on_cuda.py has them on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

import posse
import posse.testing
from high_ts import HighSummaryTS, HighTS
from test_learner_state import busy, future, state

each = pytest.mark.parametrize("policy", [HighTS(), HighSummaryTS()], ids=str)


@each
def test_they_keep_the_contract(policy):
    posse.testing.check_policy(policy)


@each
def test_a_learner_goes_on_after_load_and_replay(policy, tmp_path):
    learner, clock = busy(policy)
    assert learner.state.known.statistics[3:].any(axis=(1, 2)).all()
    learner.save(tmp_path / "learner.json")
    others = [
        posse.Learner.load(tmp_path / "learner.json", clock=clock),
        posse.Learner.replay(learner.log(), clock=clock),
    ]
    expected = None
    for other in others:
        assert state(other) == state(learner)
        assert np.array_equal(other.state.known.statistics, learner.state.known.statistics)
        found = future(other)
        assert expected in (None, found)
        expected = found
    assert future(learner) == expected
