"""The time of a service: it goes on evenly, whatever somebody does to the machine's clock."""

import logging
import threading
import time
from collections.abc import Callable

LOGGER = logging.getLogger("posse.service")
STEP = 60.0  # seconds; if the machine's clock is off by more, it was set, and may be wrong
SLEW = 0.1  # seconds in a second by which a smaller difference is made up for


def since_boot() -> float:
    """Seconds that have passed since some moment; those in which the machine sleeps count, where they are known."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def offset_now() -> float:
    """What is added to `since_boot` to get the time as the machine's clock has it now."""
    return time.time() - since_boot()


class SteadyClock:
    """Seconds since 1970: the machine's clock as it was at the start, and the seconds that have passed since.

    It follows small differences of the machine's clock without a step, and never goes back. A step of more than a
    minute is not believed, for as long as it lasts.

    Args:
        offset: what `offset_now` said at the start; that of now if None.
        wall: the machine's clock.
        passed: counts seconds, and cannot be set.
    """

    def __init__(
        self,
        offset: float | None = None,
        wall: Callable[[], float] = time.time,
        passed: Callable[[], float] = since_boot,
    ) -> None:
        self._wall, self._passed = wall, passed
        self._last = passed()
        self._offset = wall() - self._last if offset is None else offset
        self._believes = True
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            passed = self._passed()
            ahead = self._wall() - passed - self._offset
            self._tell(ahead)
            if self._believes:
                most = SLEW * (passed - self._last)
                self._offset += min(max(ahead, -most), most)
            self._last = passed
            return passed + self._offset

    def _tell(self, ahead: float) -> None:
        """Say in the log when the machine's clock is no longer believed, and when it is again."""
        believes = abs(ahead) <= STEP
        if believes == self._believes:
            return
        self._believes = believes
        if believes:
            LOGGER.warning("the machine's clock is right again, and is followed")
        else:
            detail = "the service does not follow it, and counts seconds; if the new time is right, restart the service"
            LOGGER.warning("the machine's clock was set by %+.0f s: %s", ahead, detail)
