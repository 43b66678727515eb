"""The policy contract, run over every registered policy, and over one that a user adds in one file."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import subprocess
import sys
import textwrap
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import posse
import posse.testing
from posse.policies import Policy, Refresh, all_policies
from posse.testing import policies

SHIPPED = [cls for cls in all_policies() if cls.__module__.startswith("posse.policies.")]

SOFTMIX = '''
"""SoftMix: own and pooled means, blended by counts."""
import math
from dataclasses import dataclass

from posse.policies import Policy, Refresh


def blend(n, s, N, S, strength):
    pooled = S / max(N, 1.0)
    return (s + strength * pooled) / (n + strength)


@dataclass(frozen=True)
class SoftMix(Policy):
    """A blend of own and pooled mean, with Gaussian exploration."""

    strength: float
    noise: float = 0.5

    refresh = Refresh.ANY_PULL

    @staticmethod
    def index(n, s, N, S, M, log_T, strength, noise):
        return blend(n, s, N, S, strength), noise / math.sqrt(n + 1.0)
'''


@pytest.mark.parametrize("check", posse.testing.policy_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("cls", SHIPPED, ids=lambda cls: cls.__name__)
def test_shipped_policies_keep_the_contract(cls, check):
    check(posse.testing.example(cls))


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_policy_from_one_file_is_simulated_and_checked(tmp_path):
    path = tmp_path / "softmix.py"
    path.write_text(SOFTMIX)
    SoftMix = load(path).SoftMix
    assert SoftMix in all_policies()
    posse.testing.check_policy(SoftMix(2.0))
    problems = posse.generate.subpar(8, count=2)
    result = posse.simulate(problems, [SoftMix(2.0), posse.IndUCB()], 2000)
    assert result.labels == ("SoftMix(2)", "Ind-UCB")
    assert (result.final_regret[0] < result.final_regret[1]).all()


def test_a_file_dropped_into_the_policies_folder_is_found(tmp_path):
    """In a copy of the package: no other file has to be edited."""
    copytree(Path(posse.__file__).parent, tmp_path / "posse")
    (tmp_path / "posse" / "policies" / "softmix.py").write_text(SOFTMIX)
    script = """
        import posse, posse.testing
        assert posse.__file__.startswith(FOLDER), posse.__file__
        result = posse.simulate(posse.generate.subpar(2)[0], posse.SoftMix(2.0), 50)
        posse.testing.check_policy(posse.SoftMix(2.0))
        print(result.labels)
    """
    code = textwrap.dedent(script).replace("FOLDER", repr(str(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "SoftMix(2)" in done.stdout


@dataclasses.dataclass(frozen=True)
class Broken(Policy):
    """What the contract must catch; each subclass breaks one thing."""

    @staticmethod
    def index(n, s, N, S, M, log_T):
        return s / max(n, 1.0), 1.0


class NotANumber(Broken):
    @staticmethod
    def index(n, s, N, S, M, log_T):
        return s / n, 1.0


class NegativeScale(Broken):
    @staticmethod
    def index(n, s, N, S, M, log_T):
        return 0.5, -1.0


class PromisesNoDraws(Broken):
    randomised = False

    @staticmethod
    def index(n, s, N, S, M, log_T):
        return s / max(n, 1.0), 1.0 if n == 1 else 0.0


@pytest.mark.parametrize("cls", [NotANumber, NegativeScale, PromisesNoDraws], ids=lambda cls: cls.__name__)
def test_the_contract_catches_wrong_indices(cls):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        policies.check_index_values(cls())


def test_a_class_inside_a_function_is_told_where_it_belongs():
    class Inner(Broken):
        pass

    with pytest.raises(AssertionError, match=r"Inner.*; define the class at the top level of a file"):
        policies.check_record(Inner())


def test_a_bonus_that_is_returned_as_a_scale_is_noticed_at_once():
    class BonusAsScale(Broken):
        randomised = False

    with pytest.raises(ValueError, match=r"BonusAsScale.index returns the scale 1, but randomised = False"):
        BonusAsScale()


@dataclasses.dataclass(frozen=True)
class Faulty(Policy):
    """A policy that breaks exactly the check with this number, and none with 0; one class, so one compilation."""

    fault: float = 0.0

    refresh = Refresh.SCHEDULE
    shared = ("leaked", "everybodys", "for_each_other_arm")
    work_tables = 1
    moved_by_others = "everybodys"

    @staticmethod
    def summary(n, of_arm, work):
        arms, players = n.shape
        pulls = 0.0
        for arm in range(arms):
            for player in range(players):
                pulls += n[arm, player]
        for arm in range(arms):
            of_arm[arm, 0] = work[arm, 0]  # scratch, which nothing was written to
            of_arm[arm, 1] = pulls
            of_arm[arm, 2] = pulls / (arms - 1.0)

    @staticmethod
    def others_weight():
        return 0.0

    @staticmethod
    def index(n, s, leaked, everybodys, for_each_other_arm, log_T, fault):
        center, scale = s / max(n, 1.0), 1.0 / math.sqrt(max(n, 1.0))
        if fault == 1.0 and n > 1e9:
            scale = -1.0
        if fault == 2.0:
            center += 1e-30 * (int(n) * int(n))  # past 64 bits once compiled
        if fault == 3.0:
            center += 1e-9 * for_each_other_arm  # 0 / 0 with one arm
        if fault == 4.0 and everybodys < 5.0 and abs(log_T - math.log(30.0)) < 1e-9:
            center += leaked
        if fault == 5.0 and abs(log_T - math.log(2.0)) < 1e-9:
            center += leaked
        if fault == 6.0 and abs(log_T - math.log(200.0)) < 1e-9:
            center = math.sqrt(-1.0 - n)
        if fault == 7.0:
            center, scale = 0.0, 1.0
        return center, scale


class Changeable(Faulty):
    """One that is not frozen."""

    __setattr__ = object.__setattr__


CHECKS = posse.testing.policy_checks()
FAULTS = [Changeable(), *(Faulty(number) for number in range(1, 8))]


def test_every_check_has_a_policy_that_breaks_it():
    assert len(FAULTS) == len(CHECKS)
    posse.testing.check_policy(Faulty())


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=lambda number: CHECKS[number].__name__)
def test_a_policy_that_breaks_one_check_fails_that_one_and_no_other(number):
    failed = []
    for check in CHECKS:
        try:
            check(FAULTS[number])
        except (AssertionError, ValueError):
            failed.append(check.__name__)
    assert failed == [CHECKS[number].__name__]


def test_the_contract_catches_a_wrong_refresh_rule(monkeypatch):
    """A run whose indices follow others' data too early, and one whose indices follow them too late."""
    early, late = posse.RobustAggTSV(0.15), posse.RobustAggTS(0.15)
    for policy, other in ((late, early), (early, late)):
        monkeypatch.setattr(policies, "trace", posse.simulation.trace)
        policies.check_trace_follows_the_contract(policy)
        monkeypatch.setattr(
            policies,
            "trace",
            lambda problem, _, *rest, other=other, **more: posse.simulation.trace(problem, other, *rest, **more),
        )
        with pytest.raises(AssertionError, match=r"index of player \d, arm \d after \d+ rounds"):
            policies.check_trace_follows_the_contract(policy)


def test_the_contract_catches_a_pull_of_another_arm(monkeypatch):
    """The last round's, after which no index is compared but those of the arm itself."""

    def other_arm(*given, **more):
        run = posse.simulation.trace(*given, **more)
        player = int(np.flatnonzero(run.active[0])[0])
        run.scales[0, player] = 0.0  # as if nothing were drawn in the first round
        run.centers[0, player] = -np.arange(run.centers.shape[2], dtype=float) * (1 if run.arms[0, player] else -1)
        return run

    monkeypatch.setattr(policies, "_check_indices", lambda *given: None)
    policies.check_trace_follows_the_contract(posse.IndTS())
    monkeypatch.setattr(policies, "trace", other_arm)
    with pytest.raises(AssertionError, match=r"player \d in round 1 of .*: arm \d was best"):
        policies.check_trace_follows_the_contract(posse.IndTS())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda more: more | {"seed": 7 + more.get("threads", 0)}, "threads change the result"),
        (lambda more: more | {"seed": 7}, "the seed does not change the result"),
    ],
)
def test_the_contract_catches_a_run_that_depends_on_what_it_must_not(changed, message, monkeypatch):
    monkeypatch.setattr(policies, "simulate", lambda *given, **more: posse.simulate(*given, **changed(more)))
    with pytest.raises(AssertionError, match=message):
        policies.check_same_seed_same_run(posse.IndTS())
