"""Packages that only some users need: how to install one that is missing."""

import contextlib
from collections.abc import Iterator


class MissingExtra(ModuleNotFoundError):
    """A package is missing that an extra of posse brings. The message says how to install it."""


@contextlib.contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Imports in this block need an extra of posse. If one fails, the error says so of `what`.

    >>> with extra("arrow", "a log"):
    ...     import nowhere
    Traceback (most recent call last):
    posse.extras.MissingExtra: a log needs nowhere, which is not installed: pip install 'posse-bandits[arrow]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtra):  # an inner block knows better
            raise
        missing = f"{what} needs {error.name or error}, which is not installed"
        raise MissingExtra(f"{missing}: pip install 'posse-bandits[{name}]'", name=error.name) from None
