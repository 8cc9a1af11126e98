"""The thread that looks after a store: what is derived from the log follows it, without anyone waiting for that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from litemq.errors import StorageError

__all__ = ["Keeper"]

_LOG = logging.getLogger(__name__)


class Keeper:
    """Calls ``work`` again and again until it is stopped. What goes wrong is logged, and tried again."""

    def __init__(self, work: Callable[[], None], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="litemq-keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        said = ""
        while not self._stopping.wait(self._interval):
            try:
                self._work()
                said = ""
            except (StorageError, OSError) as error:
                if str(error) != said:  # once, not five times a second
                    said = str(error)
                    _LOG.warning("%s; it is tried again", said)

    def stop(self) -> None:
        """Return when the work that is under way is done."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
