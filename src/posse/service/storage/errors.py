"""What the storage says when it cannot do what it is asked."""


class Refused(ValueError):
    """A command cannot be done as it stands. It has changed nothing."""

    def __init__(self, text: str, others: str = "") -> None:
        super().__init__(text)
        self.others = others  # what is said about other players, only to those who may read


class Invalid(Refused):
    """It is wrong in itself, whatever the experiment stands at."""


class UnknownExperiment(Refused):
    """There is no experiment of that name."""


class UnknownToken(Refused):
    """There is no token of that number."""


class ExperimentExists(Refused):
    """There is an experiment of that name already."""


class Paused(Refused):
    """The experiment makes no decisions for now."""


class Finished(Refused):
    """The experiment makes no decisions any more, and ships no arm."""


class Archived(Refused):
    """The experiment can only be read."""


class ConflictingKey(Refused):
    """An idempotency key that came before, with another request."""


class Unavailable(RuntimeError):
    """The storage cannot do it now: full, read-only, locked or away. Nothing has changed, unless the text says that
    this is not known; ask again later."""


class OutcomeUnknown(Unavailable):
    """The database went away in the middle of a commit, so nobody knows whether it happened."""


class Overloaded(Unavailable):
    """More requests wait than the service accepts."""


class Damaged(RuntimeError):
    """What was read from the database cannot be right."""


class OtherVersion(Damaged):
    """What is kept beside a log has another form than this version of the policy gives it; a rebuild makes it anew."""
