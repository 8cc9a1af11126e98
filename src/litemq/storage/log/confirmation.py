"""The confirm offset: how far the log may be read, and who waits for it.

A store without replicas confirms what it has flushed. In a replicated group, the in-sync set
decides, and ``advance`` moves the confirm offset.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable
from itertools import count

from litemq.errors import LiteMQError, OffsetOutOfRangeError, StoreFailedError
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.flush import Flusher, OnFlushed

__all__ = ["Confirmation", "GroupConfirmation"]


class Confirmation:
    """The confirm offset of a log without replicas: the flushed offset."""

    def __init__(self, log: CommitLog, flusher: Flusher) -> None:
        self._log = log
        self._flusher = flusher

    @property
    def offset(self) -> int:
        """The offset below which everything is confirmed and may be read."""
        return self._flusher.flushed

    def when_confirmed(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed(None)`` once everything below ``offset`` is confirmed.

        If that will not happen here, call ``on_confirmed(error)``. Only for the event loop.
        """
        self._flusher.when_flushed(offset, on_confirmed)

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` is confirmed; raise if that will not happen."""
        if self.offset >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_confirmed(error: LiteMQError | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        self.when_confirmed(offset, on_confirmed)
        await future

    def wait(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` is confirmed; raise if that will not happen.

        Raise ``TimeoutError`` after ``timeout`` seconds.
        """
        self._flusher.wait(offset, timeout)


class GroupConfirmation(Confirmation):
    """The confirm offset of a replica's log, which begins at ``confirmed``."""

    def __init__(self, log: CommitLog, flusher: Flusher, confirmed: int) -> None:
        super().__init__(log, flusher)
        self._confirmed: int | None = confirmed  # None: what is flushed here is confirmed
        self._refusal: LiteMQError | None = None
        self._advanced = threading.Condition()
        self._order = count()
        self._waiters: list[tuple[int, int, OnFlushed]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_flushed: Callable[[], object] = lambda: None  # bytes that a waiter needs are flushed here
        log.on_end = self._on_end

    @property
    def offset(self) -> int:
        """The offset below which everything is confirmed and may be read."""
        confirmed = self._confirmed
        return self._flusher.flushed if confirmed is None else confirmed

    # The owner of the confirm offset, on the event loop -------------------------------------------

    def advance(self, offset: int) -> None:
        """Confirm everything below ``offset``, which is flushed here.

        An offset below the current one changes nothing.
        """
        if offset > self._flusher.flushed:
            raise OffsetOutOfRangeError(f"offset {offset} is not flushed here: only {self._flusher.flushed} is")
        if self._confirmed is not None and offset > self._confirmed:
            self._set(offset)

    def follow_flusher(self) -> None:
        """Confirm from now on what is flushed here: this store is the whole in-sync set."""
        self._set(None)

    def hold(self) -> None:
        """Confirm from now on only what ``advance`` says: other stores join the in-sync set."""
        if self._confirmed is None:
            self._confirmed = self._flusher.flushed

    def refuse(self, reason: LiteMQError) -> None:
        """Give ``reason`` to all waiters, now and until ``resume``.

        The group may confirm their records later, or not.
        """
        with self._advanced:
            self._refusal = reason
            self._advanced.notify_all()
        self._wake(reason)

    def resume(self) -> None:
        """Let callers wait again."""
        self._refusal = None

    def _set(self, confirmed: int | None) -> None:
        with self._advanced:
            self._confirmed = confirmed
            self._advanced.notify_all()
        self._wake(None)

    # Waiters --------------------------------------------------------------------------------------

    def when_confirmed(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed(None)`` once everything below ``offset`` is confirmed.

        If that will not happen here, call ``on_confirmed(error)``. Only for the event loop.
        """
        if offset <= self.offset:
            on_confirmed(None)
        elif self._refusal is not None:
            on_confirmed(self._refusal)
        else:
            self._loop = asyncio.get_running_loop()
            heapq.heappush(self._waiters, (offset, next(self._order), on_confirmed))
            self._flusher.when_flushed(offset, self._when_flushed)

    def _when_flushed(self, error: LiteMQError | None) -> None:
        if error is None:
            self.on_flushed()
            with self._advanced:
                self._advanced.notify_all()
        self._wake(error)

    def _wake(self, error: LiteMQError | None) -> None:
        """Call the waiters whose bytes are confirmed, or all of them if there is an ``error``."""
        waiters = self._waiters
        try:
            while waiters and (error is not None or waiters[0][0] <= self.offset):
                offset, _, on_confirmed = heapq.heappop(waiters)
                on_confirmed(None if offset <= self.offset else error)
        finally:
            if self._loop is not None and waiters and (error is not None or waiters[0][0] <= self.offset):
                self._loop.call_soon(self._wake, error)  # a waiter raised

    def wait(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` is confirmed; raise if that will not happen.

        Raise ``TimeoutError`` after ``timeout`` seconds.
        """
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self._log.end}")
        if self._confirmed is None:
            self._flusher.wait(offset, timeout)
        with self._advanced:
            self._advanced.wait_for(lambda: self.offset >= offset or self._obstacle() is not None, timeout)
        if self.offset < offset:
            raise self._obstacle() or TimeoutError(f"offset {offset} was not confirmed within {timeout} s")

    def _obstacle(self) -> LiteMQError | None:
        """Return why nothing more is confirmed here."""
        return self._refusal if self._log.failure is None else StoreFailedError(self._log.failure)

    def _on_end(self) -> None:
        """The log has failed or was closed; called by any thread."""
        with self._advanced:
            self._advanced.notify_all()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, StoreFailedError(self._log.failure))
