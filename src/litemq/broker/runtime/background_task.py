"""A background task of the broker: one run at a time, retried one second after a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from litemq.errors import LiteMQError

__all__ = ["BackgroundTask", "BackgroundWork"]

_AGAIN_MS: Final = 1000  # after a failure
_LOG = logging.getLogger(__name__)


class BackgroundWork(Protocol):
    """The work of a background task."""

    async def work(self) -> None:
        """Do all work that is due."""
        ...

    def on_end(self, after_ms: int) -> None:
        """The run has ended.

        If it failed, the next one begins ``after_ms`` later or more; otherwise that is 0.
        """
        ...


class BackgroundTask:
    """Runs the work of its owner on the event loop."""

    def __init__(self, name: str, failure: str, owner: BackgroundWork) -> None:
        """``failure`` describes the consequence of a failed run, for the log."""
        self._name = name
        self._failure = failure
        self._owner = owner
        self._logged = ""  # the last error
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False

    def begin(self) -> bool:
        """Start a run, unless one is under way; return whether it was started."""
        if self.task is not None or self.is_closed:
            return False
        self.task = asyncio.get_running_loop().create_task(self.run(), name=f"litemq {self._name}")
        return True

    async def run(self) -> None:
        """Run the work once."""
        again_ms = 0
        try:
            await self._owner.work()
            self._logged = ""
        except LiteMQError as error:
            again_ms = _AGAIN_MS
            self.log_failure(error)
        finally:
            self.task = None
            if not self.is_closed:
                self._owner.on_end(again_ms)

    def log_failure(self, error: BaseException) -> None:
        """Log ``error``, unless the last run failed with the same."""
        if str(error) != self._logged and not self.is_closed:
            self._logged = str(error)
            _LOG.warning("%s: %s. Retrying in 1 s", self._failure, error)

    def close(self) -> None:
        """Cancel the run that is under way, and start no more."""
        self.is_closed = True
        if self.task is not None:
            self.task.cancel()
