"""What a broker does by itself, when it is time for it: one at a time, and again where it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from litemq.errors import LiteMQError

__all__ = ["Errand"]

_AGAIN_MS: Final = 1000  # after a failure
_LOG = logging.getLogger(__name__)


class Errand:
    """On the event loop that is running when it begins."""

    def __init__(self, name: str, failure: str, work: Callable[[], Awaitable[object]], then: Callable[[int], None]) -> None:
        """``failure`` says what is not done when ``work`` fails; ``then`` is told behind each end how long to wait at least, in ms: 0, unless
        it failed."""
        self._name = name
        self._failure = failure
        self._work = work
        self._then = then
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
            await self._work()
            self._said = ""
        except LiteMQError as error:
            again_ms = _AGAIN_MS
            self.complain(error)
        finally:
            self.task = None
            if not self.is_closed:
                self._then(again_ms)

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
