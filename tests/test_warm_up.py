"""posse warm-up: what is compiled ahead is all that the first uses need."""

from __future__ import annotations

import numba
import pytest

import posse
from posse.cli import main
from posse.learner import core
from posse.policies.bindings import class_of
from posse.simulation import engine

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def test_it_compiles_what_a_simulation_and_a_learner_use_and_says_how_far_it_is(capsys):
    core.kernels.cache_clear()
    engine.kernels.cache_clear()
    assert main(["warm-up", "--policy", "Ind-UCB"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "1 of 2: IndUCB for simulations"
    assert second == "2 of 2: IndUCB for the learner and the service"
    assert last.startswith("compiled in ")
    policy = class_of(posse.IndUCB())
    found = vars(core.kernels(policy)) | engine.kernels(policy, False)._asdict()
    compiled = {name: len(kernel.signatures) for name, kernel in found.items()}
    assert compiled["advance"] == compiled["choose"] == compiled["observe"] == 1

    posse.simulate(posse.generate.subpar(2, count=2, seed=1), posse.IndUCB(), 20, replications=2)
    learner = posse.Learner(posse.IndUCB(), arms=["a", "b", "c"], players=["p", "q"])
    for decision in learner.choose(["p", "q"]):
        learner.observe(decision.id, 0.5)
    learner.join("r")
    learner.probabilities("r")
    assert {name: len(kernel.signatures) for name, kernel in found.items()} == compiled


def test_a_policy_that_is_not_there_is_refused(capsys):
    assert main(["warm-up", "--policy", "Nope"]) == 2
    error = capsys.readouterr().err
    assert "--policy 'Nope', but expected one of " in error
