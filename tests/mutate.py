"""Mutation testing: break the code in small ways, one at a time, and see whether the tests notice.

A mutant is a copy of `src` in which one file differs by one step: a comparison, an operator, a constant, a negated
condition, a dropped statement or a function that returns None. `python tests/mutate.py` makes mutants of the files in
`TESTS`, chosen by a seed, runs the tests named there on each, and prints the mutants that pass them: the survivors.
docs/testing.md has the numbers, and says of each survivor that is left why no test can or should notice it.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import importlib
import multiprocessing
import os
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
FORMULAS = "tests/test_policies.py tests/test_agreement.py"
HIERARCHY = "HierTS and not centers and not propensities and not decisions or Record or Constants"
MODEL = "tests/test_likeness.py tests/test_effects.py -k 'says_the_same or before_any_data'"
EVALUATE = "tests/test_evaluate.py tests/test_evaluate_intervals.py tests/test_evaluate_coverage.py"
STORE = [f"tests/service/test_store_{name}.py" for name in ("requests", "writer", "faults")]
TESTS = {
    "policies/robustagg.py": f"{FORMULAS} -k 'RobustAgg or Record or Constants'",
    "policies/robustagg_ts.py": f"{FORMULAS} -k 'RobustAggTS or Record or Constants'",
    "policies/ind_ts.py": f"{FORMULAS} -k 'IndTS or Record or Constants'",
    "policies/ind_ucb.py": f"{FORMULAS} -k 'IndUCB or Record or Constants'",
    "policies/hier_ts.py": f"{FORMULAS} tests/test_learner_agreement.py -k '{HIERARCHY}'",
    "policies/fourth_root.py": "tests/test_posse_ts.py -k 'TestPosterior or TestDispersion'",
    "policies/likeness/estimate.py": MODEL,
    "policies/likeness/groups.py": MODEL,
    "policies/likeness/tables.py": MODEL,
    "policies/likeness/effects.py": "tests/test_effects.py -k 'says_the_same or counts or players_without'",
    "attributes.py": "tests/test_attributes.py",
    "policies/guarantee.py": "tests/test_guarantee.py -k 'Bounds or Rule'",
    "policies/posse_ts.py": "tests/test_likeness.py -k 'indices or DependsOn'",
    "policies/refresh.py": "tests/test_declaration.py -k Refresh",
    "policies/statistics.py": "tests/test_declaration.py tests/test_summary.py -k 'Bindings or squares or statistics'",
    "policies/bernoulli_kl.py": "tests/test_alone.py -k 'Divergence or ln_ln'",
    "policies/imed.py": "tests/test_alone.py -k 'least_evidence or declared'",
    "policies/bayes_ucb.py": "tests/test_alone.py -k 'quantiles or ln_ln or declared'",
    "policies/beta_propensity.py": "tests/test_beta_ts.py -k Propensities",
    "policies/propensity.py": "tests/test_propensity.py",
    "service/auth.py": "tests/service/test_access.py",
    "service/commands.py": " ".join(STORE),
    "service/storage/transaction.py": " ".join(STORE),
    "insight/evaluation/model.py": f"{EVALUATE} -k 'Hand or Which or never_met or Overlap or Names or Hostile'",
    "insight/evaluation/estimators.py": f"{EVALUATE} -k 'Hand or Models or Betting'",
}
COMPARISONS = "Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is, In NotIn, NotIn In"
ARITHMETIC = "Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv Mult, Mod Mult, Pow Mult, BitOr BitAnd, BitAnd BitOr"
OTHERS = {
    getattr(ast, first): [getattr(ast, name)() for name in rest]
    for first, *rest in (entry.split() for entry in f"{COMPARISONS}, {ARITHMETIC}".split(", "))
}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in OTHERS[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops[place] = other
                yield changed
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        for other in OTHERS.get(type(node.op), []):
            changed = copy.copy(node)
            changed.op = other
            yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(ast.Constant(None))
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise)) and not is_text:
        yield ast.Pass()


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Each mutant of a module: what was changed where, and its text."""
    tree = ast.parse(source)
    looks = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node).startswith("look =")]
    skipped = {id(node) for look in looks for node in ast.walk(look)}  # colors and line styles
    for parent in ast.walk(tree):
        if id(parent) in skipped:
            continue
        for name, field in ast.iter_fields(parent):
            nodes, place_in = (field, field) if isinstance(field, list) else ([field], vars(parent))
            if name in ("annotation", "returns", "decorator_list") or not isinstance(next(iter(nodes), None), ast.AST):
                continue
            for place, node in enumerate(list(nodes)):
                for changed in changes(node):
                    key = place if place_in is field else name
                    place_in[key] = changed
                    text = ast.unparse(ast.fix_missing_locations(tree))
                    place_in[key] = node
                    was, now = (ast.unparse(part).split("\n")[0] for part in (node, changed))
                    yield f"line {getattr(node, 'lineno', 0)}: {was}  →  {now}", text


def survives(file: str, text: str, seconds: int) -> bool:
    """Whether the tests of a file pass with this text in its place; a run without end counts as noticed."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", f"{folder}/src")
        Path(folder, "src/posse", file).write_text(text)
        tests = multiprocessing.get_context("fork").Process(target=run_tests, args=(file, folder, seconds))
        tests.start()
        tests.join()
        return tests.exitcode == 0


def run_tests(file: str, folder: str, seconds: int) -> None:
    """In a process of its own, forked from one that has imported all but posse, which saves most of the time."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(20 * seconds)  # for one that sleeps without end
    found_is_enough = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # no smaller example of a failure
    hypothesis.settings.register_profile("mutants", phases=found_is_enough, database=None)
    hypothesis.settings.load_profile("mutants")
    os.environ["PYTHONPATH"] = f"{folder}/src"
    sys.path[:0] = [f"{folder}/src", f"{ROOT}/tests"]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(ROOT)
    options = [
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"--rootdir={ROOT}",
        f"--basetemp={folder}/tmp",
    ]
    os._exit(pytest.main([*options, *shlex.split(TESTS[file]), f"{folder}/src/posse/{file}"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "files", nargs="*", default=list(TESTS), help="files of src/posse; default: all that have tests here"
    )
    parser.add_argument("--most", type=int, default=30, help="mutants for each file (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants (default 0)")
    parser.add_argument("--seconds", type=int, default=100, help="of processor time for a mutant (default 100)")
    given = parser.parse_args()
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "POSSE_SMALL": "1"}
    sys.dont_write_bytecode = False
    compileall.compile_dir(ROOT / "src", quiet=1)  # here, not in every mutant
    for module in ("httpx", "numba", "pyarrow.parquet", "scipy.optimize", "scipy.stats", "sqlalchemy"):
        importlib.import_module(module)
    for file in given.files:
        source = (ROOT / "src/posse" / file).read_text()
        if not survives(file, source, given.seconds):
            sys.exit(f"{file}: the tests fail without a mutant: {TESTS[file]}")
        every = list(mutants(source))
        chosen = random.Random(given.seed).sample(every, min(given.most, len(every)))
        killed = 0
        for what, text in chosen:
            alive = survives(file, text, given.seconds)
            killed += not alive
            print("SURVIVES" if alive else "killed  ", file, what, flush=True)
        print(f"{file}: {len(chosen)} of {len(every)} mutants, {killed} killed", flush=True)


if __name__ == "__main__":
    main()
