"""What an install without extras says: every command and every public name either works or names the extra to install.

Run it in an environment that has NumPy and numba alone, or with --hide, which hides all other packages.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CORE = {"numpy", "numba", "llvmlite", "posse"}
WORKS = ""  # in place of an extra
COMMANDS = {
    **dict.fromkeys(("paper", "run x.toml", "report x", "compare x x", "battery"), "experiments"),
    **dict.fromkeys(("diagnose x.csv", "evaluate x.csv", "watch x.csv", "conclude x.csv"), "arrow"),
    **dict.fromkeys(("diagnose x.csv --report x.html", "conclude x.csv --html x.html"), "experiments"),
    "plan --players 2 --arms 2 --decisions 10 --problems 2": WORKS,
    "plan --players 1000 --arms 100 --decisions 10000000 --figure x.png": "experiments",  # said before it simulates
    **dict.fromkeys(("serve", "demo", "db init", "db upgrade", "db verify", "db rebuild", "db export x x"), "service"),
    **dict.fromkeys(("db import x x", "db erase x x", "db backup x"), "service"),
    **dict.fromkeys(("token create --scope read", "token list", "token revoke 1", "audit"), "service"),
    **dict.fromkeys(
        (f"experiment {step} x" for step in ("pause", "resume", "finish", "archive", "restore")), "service"
    ),
    **dict.fromkeys(("experiment list", "experiment describe x x", "experiment delete x"), "service"),
    "bench --service": "service",
    "init": WORKS,
    "cache": WORKS,
    "warm-up": WORKS,
}


class CoreFinder:
    """A finder of modules that finds nothing but the standard library and the CORE."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        there = top in CORE or top in sys.stdlib_module_names or top.startswith("_")
        return self.finder.find_spec(name, path, target) if there else None


def calls() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """What can be called from Python: its name, the extra that it needs, and the call."""
    import importlib

    import posse
    import posse.bench
    import posse.testing
    from posse import insight

    learner = posse.Learner(posse.IndTS(), arms=["a", "b"], players=["p", "q"], seed=1)
    for player in ("p", "q") * 2:
        learner.observe(learner.choose(player).id, 1.0)
    problem = posse.Problem([[0.9, 0.1]])
    result = posse.simulate(problem, posse.IndUCB(), 10)
    plan, diagnosis = insight.plan(players=2, arms=2, decisions=10, problems=2), insight.diagnose(learner)
    yield "Learner.log", "arrow", learner.log
    yield "Result.to_arrow", "arrow", result.to_arrow
    for judge in (insight.evaluate, insight.watch, insight.conclude):
        yield judge.__name__, "arrow", lambda judge=judge: judge(learner)
    yield "a table for other libraries", "arrow", result.__arrow_c_stream__
    for draw in (result.plot, plan.figure, diagnosis.figure, diagnosis.effects_figure, diagnosis.report):
        yield draw.__qualname__, "experiments", draw
    for record in (problem, result, learner, learner.choose("p"), learner.counts(), plan, diagnosis):
        yield f"a {type(record).__name__} in a notebook", WORKS, record._repr_html_
    for name in ("AsyncClient", "Client"):
        yield name, "client", lambda name=name: getattr(posse, name)
    yield "from posse import *", WORKS, lambda: exec("from posse import *", {})
    for module in ("experiments", "figures", "experiments.report.run_report"):
        yield module, "experiments", lambda module=module: importlib.import_module(f"posse.{module}")
    for module in ("service.process", "service.process.supervisor"):
        yield module, "service", lambda module=module: importlib.import_module(f"posse.{module}")
    yield "backend='cuda'", "cuda", lambda: posse.simulate(problem, posse.IndUCB(), 10, backend="cuda")


def command_lines() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """The command line: each command, the extra that it needs, and a function that runs it."""
    from posse.cli import main

    def run(line: str) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = main(line.split())
        if status:
            raise RuntimeError(said.getvalue())

    for line, extra in COMMANDS.items():
        yield f"posse {line}", extra, lambda line=line: run(line)


def leaves(parser: argparse.ArgumentParser, words: str = "") -> list[str]:
    """Every command of the command line, such as "db init"."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        return [words]
    return [leaf for name, one in inner[0].choices.items() for leaf in leaves(one, f"{words} {name}".strip())]


def wrong(name: str, extra: str, call: Callable[[], Any]) -> str:
    """What is wrong with what a call says, or nothing."""
    try:
        call()
    except Exception as error:
        if extra and f"pip install 'posse-bandits[{extra}]'" in str(error):
            return ""
        return f"{name}: expected {f'the extra {extra!r}' if extra else 'success'}, but {type(error).__name__}: {error}"
    return f"{name}: it needs no extra {extra!r}" if extra else ""


def main() -> None:
    """Try everything; the exit status is 1 if something is wrong."""
    if "--hide" in sys.argv:
        sys.meta_path[:] = map(CoreFinder, sys.meta_path)
    from posse.cli import _parser

    tried = tuple(f"{line} " for line in COMMANDS)
    found = [
        f"posse {leaf} is not in COMMANDS"
        for leaf in leaves(_parser())
        if not any(line.startswith(f"{leaf} ") for line in tried)
    ]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(Path(folder)):
        found += [said for entries in (calls(), command_lines()) for each in entries if (said := wrong(*each))]
    print("\n".join(found) or "every missing extra is named")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
