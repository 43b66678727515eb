"""The command line: parse, call, print. Each module here adds its own commands."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Sequence

from posse.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # ε becomes ? where a terminal has no Greek
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has stopped: so do we, quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        extra = getattr(options, "extra", "experiments")
        print(f"posse: {error}; this command needs more: pip install 'posse[{extra}]'", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"posse: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = "; started again, it goes on from here" if getattr(options, "resumes", False) else ""
        print(f"posse: interrupted{again}", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="posse", description="Multi-task bandits that share data robustly.")
    parser.add_argument("--version", action="version", version=f"posse {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    for module in sorted(modules, key=lambda module: module.PLACE):
        module.add(commands)
    return parser
