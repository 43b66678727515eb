"""The policy contract, run over every registered policy, and over one that a user adds in one file."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import posse
import posse.testing
from posse.policies import Policy, all_policies

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


class NeverLearns(Broken):
    @staticmethod
    def index(n, s, N, S, M, log_T):
        return 0.0, 1.0


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (NotANumber, "check_index_values"),
        (NegativeScale, "check_index_values"),
        (PromisesNoDraws, "check_index_values"),
        (NeverLearns, "check_learns"),
    ],
    ids=lambda thing: getattr(thing, "__name__", thing),
)
def test_the_contract_catches_broken_policies(cls, check):
    checks = {function.__name__: function for function in posse.testing.policy_checks()}
    with pytest.raises((AssertionError, ZeroDivisionError)):
        checks[check](cls())


def test_the_contract_catches_a_wrong_refresh_rule():
    """Negative control of the trace check: indices that follow others' data too early."""
    run = posse.simulation.trace(posse.generate.uniform(players=4, arms=5, seed=8)[0], posse.RobustAggTS(0.15), 30)
    early = posse.simulation.trace(posse.generate.uniform(players=4, arms=5, seed=8)[0], posse.RobustAggTSV(0.15), 30)
    assert not np.allclose(run.centers, early.centers)
