"""What the store says when it cannot do what it is asked."""

from __future__ import annotations


class UnknownExperiment(ValueError):
    """There is no experiment of that name."""


class ExperimentExists(ValueError):
    """There is an experiment of that name already."""


class Paused(ValueError):
    """The experiment makes no decisions for now."""


class ConflictingKey(ValueError):
    """An idempotency key that came before, with another request."""


class Unavailable(RuntimeError):
    """The storage cannot do it now: full, read-only, locked or away. Nothing has changed, unless the text says that
    this is not known; ask again later."""


class Overloaded(Unavailable):
    """More requests wait than the service takes on."""


class Damaged(RuntimeError):
    """What was read from the database cannot be right."""
