"""posse cache: the compiled kernels that are kept between runs."""

from __future__ import annotations

import argparse

from posse.text import plural

PLACE = 95


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    cache = commands.add_parser(
        "cache",
        help="show or clear the compiled kernels on disk",
        description="Show where compiled kernels are kept, how many there are and how large they are.",
    )
    cache.add_argument("--clear", action="store_true", help="remove them all; they are compiled anew when needed")
    cache.set_defaults(run=_cache)


def _cache(options: argparse.Namespace) -> None:
    from posse.compile.cache import cache_use, clear_cache

    use = clear_cache() if options.clear else cache_use()
    kernels = f"{plural(use.kernels, 'kernel')}, {use.bytes / 1e6:,.1f} MB"
    print(f"Removed {kernels}, from {use.folder}" if options.clear else f"{kernels}, in {use.folder}")
