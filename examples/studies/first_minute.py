"""What a new user waits for: the first line of output and the longest silence of every command of the README.

Each command runs on a terminal of its own, with a kernel cache of its own: first an empty one, then the same again.
"silent" is the longest time without a sign of life, from the start of the command to its end. Processor time is that of
all processes together, for machines that are busy with something else.

python examples/studies/first_minute.py            # all commands of `posse`, some minutes
python examples/studies/first_minute.py --clone    # only what begins with `git clone`: installs from the network
python examples/studies/first_minute.py --quick    # seconds: only commands that simulate nothing
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

import posse

ROOT = Path(__file__).parents[2]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a new user's Python keeps bytecode
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

CLONE = {
    "git clone": f"git clone --quiet {ROOT} clone",
    "make paper": "make -C clone paper",
    "make venv": "make -C clone venv",
    "make test": "make -C clone test",
    "make docs": "make -C clone docs",
    "pip install .": "clone/.venv/bin/python -m pip install --no-deps ./clone",
}
"""From `git clone` on, in this order."""
COMMANDS = {
    "For researchers": "python -c {0}",
    "For your program": "python -c {1}",
    "posse init": "posse init",
    "posse run": "posse run experiment.toml",
    "posse report": "posse report results/experiment",
    "posse compare": "posse compare results/experiment results/experiment",
    "posse paper": "posse paper --quick",
    "posse battery": "posse battery --quick --family paper-5",
    "posse plan": "posse plan --players 12 --arms 3 --decisions 2000",
    "posse diagnose": "posse diagnose log.parquet",
    "posse evaluate": "posse evaluate log.parquet",
    "posse watch": "posse watch log.parquet",
    "posse conclude": "posse conclude log.parquet",
    "posse serve": "posse serve --port 0",
    "posse demo": "posse demo --no-browser",
    "posse db": "posse db init --database sqlite:///other.db",
    "posse token": "posse token list",
    "posse experiment": "posse experiment list",
    "posse audit": "posse audit",
    "posse cache": "posse cache",
    "posse warm-up": "posse warm-up",
    "posse bench": "posse bench --quick --policy PosseTS",
}
"""What the README names, and what is run for it: small where the README's own would take an hour."""
QUICK = ("posse init", "posse db", "posse cache")
MOST_SECONDS = 1200.0  # after which a command is stopped, as by Ctrl-C
BEGINNINGS = {"make test": 120.0, "make docs": 120.0, "posse bench": 60.0}  # of these, so many seconds are enough
STOPPED = "Ctrl-C stops"  # a service has answered, and is stopped two seconds later


class Moment(NamedTuple):
    """Seconds since a command was started: on the clock, and of processor time."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:8.1f}{self.processor:6.1f}"


class Wait(NamedTuple):
    """What somebody who typed a command waited for."""

    first: Moment
    silent: Moment
    whole: Moment
    said: str


def watch(name: str, command: str, folder: Path, environment: Mapping[str, str]) -> Wait:
    """Run a command on a terminal, and see when it says something."""
    stop = BEGINNINGS.get(name, MOST_SECONDS)
    terminal, inner = pty.openpty()
    start, ends = time.monotonic(), {"stdin": inner, "stdout": inner, "stderr": inner}
    process = psutil.Popen(shlex.split(command), cwd=folder, env=environment, start_new_session=True, **ends)
    os.close(inner)
    moments, said, now = [Moment(0.0, 0.0)], b"", Moment(0.0, 0.0)
    while now.wall < stop:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        now = Moment(time.monotonic() - start, max(moments[-1].processor, used_by(process)))
        try:
            read = os.read(terminal, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if read:
            moments.append(now)
            said += read
            if STOPPED.encode() in read:
                stop = min(stop, now.wall + 2.0)
    else:  # how long it takes to stop does not count
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(10.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    os.close(terminal)
    process.wait()
    moments.append(now)
    silent = (max(later[i] - earlier[i] for earlier, later in itertools.pairwise(moments)) for i in (0, 1))
    return Wait(moments[1], Moment(*silent), now, said.decode(errors="replace"))


def used_by(process: psutil.Process) -> float:
    """The processor time of a process and of all that it has started."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(each.cpu_times()[:4])
    return total


def make_log(path: Path) -> None:
    """The log of a learner that has made 6,000 decisions for twelve players."""
    import pyarrow.parquet

    rng = np.random.default_rng(1)
    players, arms = [f"shop {place}" for place in range(12)], ["nothing", "coupon", "free shipping"]
    learner = posse.Learner(posse.IndTS(), arms, players, seed=1, holdout=0.1)
    for _ in range(500):
        made = learner.choose(players)
        learner.observe([(each.id, float(rng.random() < 0.1 + 0.1 * arms.index(each.arm))) for each in made])
    pyarrow.parquet.write_table(learner.log(), path)


def measured(names: list[str], folder: Path) -> Iterator[tuple[str, str, Wait]]:
    """Each command with an empty kernel cache, and again with what it left there."""
    bin_ = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("POSSE_")}
    for turn in ("empty", "full"):
        (folder / turn).mkdir()
        if "posse watch" in names:
            make_log(folder / turn / "log.parquet")
        if "posse token" in names:
            command = [sys.executable, "-m", "posse", "db", "init"]
            subprocess.run(command, cwd=folder / turn, check=True, stdout=subprocess.DEVNULL)
    for name in names:
        line = COMMANDS[name].format(*(shlex.quote(f"import posse\n{block}") for block in BLOCKS))
        line = re.sub(r"^posse ", "python -m posse ", line)
        for turn in ("empty", "full"):
            cache = {"NUMBA_CACHE_DIR": str(folder / f"cache of {name}"), "PATH": bin_}
            yield name, turn, watch(name, line, folder / turn, quiet | cache)


def main(names: list[str], clone: bool) -> None:
    """Print one line for each command."""
    print(f"{'seconds, and of processor time':<34}{'first line':>14}{'silent':>14}{'whole':>14}")
    with tempfile.TemporaryDirectory() as made:
        folder, start = Path(made), time.monotonic()
        if clone:
            new = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
            found = ((name, "", watch(name, line, folder, new)) for name, line in CLONE.items())
        else:
            found = measured(names, folder)
        for name, turn, wait in found:
            print(f"{name:<20}{turn and f'{turn} cache':<14}{wait.first}{wait.silent}{wait.whole}", flush=True)
            if name == "make paper" and "regret" in wait.said:
                print(f"the first regret table is there {time.monotonic() - start:.0f} s after the start of git clone")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="*", help="only these, such as 'posse plan'")
    parser.add_argument("--quick", action="store_true", help="only commands that simulate nothing")
    parser.add_argument("--clone", action="store_true", help="only what begins with git clone")
    options = parser.parse_args()
    main(options.command or list(QUICK if options.quick else COMMANDS), options.clone)
