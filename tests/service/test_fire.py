"""The service under siege, in a small form; `python tests/service/fire.py` is the large one, with figures.

Bars are wide here, since other tests share the processors; the full form has those of docs/reliability.md.
"""

from __future__ import annotations

import pytest
from fire import SHORT, Siege, p99, run, table
from fleet import FULL, needs_service

pytestmark = needs_service


def test_decisions_go_on_in_a_storm_and_while_others_join():
    found = dict(run(Siege() if FULL else SHORT))
    for kind, figures in found.items():
        print(table(kind, figures))
    storm, joins = found["storm"], found["joins"]
    assert storm.attacks["hold"]["opened"] >= (Siege() if FULL else SHORT).connections * 0.9
    assert storm.attacks["read"] or not FULL
    assert set(joins.attacks["join"]) == {"200"}
    assert storm.health < (1000 if FULL else 3000)
    assert storm.log < 1
    assert storm.failed + joins.failed == 0
    if FULL:
        assert storm.ratio <= 3
        assert joins.p99 <= 100
    else:
        assert storm.p99 < max(1000, 20 * storm.quiet_p99)
        assert joins.p99 < max(1000, 20 * joins.quiet_p99)


def test_decisions_that_fail_count_as_slow_for_ever():
    assert p99({"seconds": [0.01] * 100, "failed": []}) == pytest.approx(10)
    assert p99({"seconds": [0.01] * 97, "failed": [503, 0, 0]}) == float("inf")
    assert p99({"seconds": [0.01] * 98 + [2.0, 2.0], "failed": []}) == pytest.approx(2000)
