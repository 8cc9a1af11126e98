"""The maintenance thread of a store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from litemq.errors import StorageError

__all__ = ["MaintenanceThread"]

_LOG_AGAIN_S: Final = 60.0  # the same error
_LOG = logging.getLogger(__name__)


class MaintenanceThread:
    """A thread that calls ``work`` every ``interval`` seconds until it is stopped.

    ``work`` returns the seconds for which the thread rests, or until ``wake``. A storage error is
    logged, and the thread tries again at the next interval.
    """

    def __init__(self, work: Callable[[], float], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="litemq-maintenance", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        logged, logged_at = "", 0.0
        while not self._stopping.wait(self._interval):
            try:
                rest = self._work()
                if rest:
                    self._woken.wait(rest)
                    self._woken.clear()
            except (StorageError, OSError) as error:
                # Not at every interval, and not again because another part of the work succeeds.
                if str(error) != logged or monotonic() > logged_at + _LOG_AGAIN_S:
                    logged, logged_at = str(error), monotonic()
                    _LOG.warning("maintenance failed: %s; retrying", logged)

    def wake(self) -> None:
        """End the rest, or the next one if there is none."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread after the work in progress. It may be called from the thread itself."""
        self._stopping.set()
        self._woken.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
