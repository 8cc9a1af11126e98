"""What a broker does by itself, when it is time for it: one at a time, and again where it fails."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from litemq.errors import LiteMQError

__all__ = ["BackgroundWork", "Errand"]

_AGAIN_MS: Final = 1000  # after a failure
_LOG = logging.getLogger(__name__)


class BackgroundWork(Protocol):
    """The work of a background task."""

    async def work(self) -> None:
        """Do all that is to be done now."""
        ...

    def on_end(self, after_ms: int) -> None:
        """The work has ended. If it failed, it should begin again no sooner than ``after_ms`` from now; otherwise that is 0."""
        ...


class Errand:
    """On the event loop that is running when it begins."""

    def __init__(self, name: str, failure: str, owner: BackgroundWork) -> None:
        """``failure`` says what is not done while the work of ``owner`` fails."""
        self._name = name
        self._failure = failure
        self._owner = owner
        self._said = ""
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False

    def begin(self) -> bool:
        """Do it now, unless that is under way; returns whether it begins."""
        if self.task is not None or self.is_closed:
            return False
        self.task = asyncio.get_running_loop().create_task(self.run(), name=f"litemq {self._name}")
        return True

    async def run(self) -> None:
        """Do it once."""
        again_ms = 0
        try:
            await self._owner.work()
            self._said = ""
        except LiteMQError as error:
            again_ms = _AGAIN_MS
            self.complain(error)
        finally:
            self.task = None
            if not self.is_closed:
                self._owner.on_end(again_ms)

    def complain(self, error: BaseException) -> None:
        """Say what went wrong: once, not every second."""
        if str(error) != self._said and not self.is_closed:
            self._said = str(error)
            _LOG.warning("%s: %s; it is tried again", self._failure, error)

    def close(self) -> None:
        """It does not begin any more, and what is under way ends."""
        self.is_closed = True
        if self.task is not None:
            self.task.cancel()
