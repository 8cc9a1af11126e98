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

from litemq.errors import LiteMQError, NotConfirmedError, OffsetOutOfRangeError, StoreFailedError
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
        self._refusal: LiteMQError | None = None  # for all waiters
        self._replica_refusal: LiteMQError | None = None  # for those of ``when_replicated``
        self._advanced = threading.Condition()
        self.in_sync = 1  # replicas in the in-sync set
        self.not_in_sync = ""  # the names of the group's other replicas
        self._received = 0  # by the whole set
        self.acked_received = 0  # of it, the offset up to which a waiter relies on it
        self._receivers: list[tuple[int, int, OnFlushed]] = []  # of ``when_received``
        self._order = count()
        self._waiters: list[tuple[int, int, OnFlushed, bool]] = []  # the last: of ``when_replicated``
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

    def receive(self, offset: int) -> None:
        """The whole in-sync set has everything below ``offset`` in memory."""
        self._received = max(self._received, offset)
        self._wake_receivers(None)

    def follow_flusher(self) -> None:
        """Confirm from now on what is flushed here: this store is the whole in-sync set."""
        self._set(None)

    def hold(self) -> None:
        """Confirm from now on only what ``advance`` says: other stores join the in-sync set."""
        if self._confirmed is None:
            self._confirmed = self._flusher.flushed

    @property
    def refusal(self) -> LiteMQError | None:
        """Why ``when_replicated`` refuses to wait now, or ``None``."""
        return self._refusal or self._replica_refusal

    def refuse(self, reason: LiteMQError) -> None:
        """Give all waiters a ``NotConfirmedError`` with ``reason``, now and until ``resume``.

        The group may confirm their records later, or not.
        """
        with self._advanced:
            self._refusal = reason
            self._advanced.notify_all()
        self._wake(_not_confirmed(reason))

    def refuse_replicas(self, reason: LiteMQError) -> None:
        """Give the waiters of ``when_replicated`` a ``NotConfirmedError`` with ``reason``, now and
        until ``accept_replicas``.

        All others, such as readers, wait until the group confirms their records.
        """
        self._replica_refusal = reason
        self._wake_replicated(_not_confirmed(reason))

    def accept_replicas(self) -> None:
        """Let callers of ``when_replicated`` wait again."""
        self._replica_refusal = None

    def resume(self) -> None:
        """Let all callers wait again."""
        self._refusal = self._replica_refusal = None
        self._received = self.acked_received = 0

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
        self._call_when_confirmed(offset, on_confirmed, self._refusal, needs_replicas=False)

    def when_replicated(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed`` as ``when_confirmed`` does, or with an error if too few replicas
        are in sync.
        """
        self._call_when_confirmed(offset, on_confirmed, self.refusal, needs_replicas=True)

    def when_received(self, offset: int, on_received: OnFlushed) -> None:
        """Call ``on_received(None)`` once the whole in-sync set has everything below ``offset`` in
        memory, or call it with an error if too few replicas are in sync.

        A store that is the whole set waits for its flush instead.
        """
        if self._confirmed is None:
            self.when_replicated(offset, on_received)
        elif offset > max(self.offset, self._received) and self.refusal is not None:
            on_received(_not_confirmed(self.refusal))
        else:
            self._loop = asyncio.get_running_loop()
            heapq.heappush(self._receivers, (offset, next(self._order), on_received))
            self._wake_receivers(None)
            if self._receivers:
                self._flusher.when_flushed(offset, self._when_flushed)

    def _wake_receivers(self, error: LiteMQError | None) -> None:
        """Call the waiters whose bytes are received, or all of them if there is an ``error``."""
        receivers, reached = self._receivers, max(self.offset, self._received)
        try:
            while receivers and (error is not None or receivers[0][0] <= reached):
                offset, _, on_received = heapq.heappop(receivers)
                if offset <= reached:
                    self.acked_received = max(self.acked_received, offset)
                on_received(None if offset <= reached else error)
        finally:
            if self._loop is not None and receivers and (error is not None or receivers[0][0] <= reached):
                self._loop.call_soon(self._wake_receivers, error)  # a waiter raised

    def _call_when_confirmed(
        self, offset: int, on_confirmed: OnFlushed, refusal: LiteMQError | None, *, needs_replicas: bool
    ) -> None:
        if offset <= self.offset:
            on_confirmed(None)
        elif refusal is not None:
            on_confirmed(_not_confirmed(refusal))
        else:
            self._loop = asyncio.get_running_loop()
            heapq.heappush(self._waiters, (offset, next(self._order), on_confirmed, needs_replicas))
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
                offset, _, on_confirmed, _ = heapq.heappop(waiters)
                on_confirmed(None if offset <= self.offset else error)
        finally:
            if self._loop is not None and waiters and (error is not None or waiters[0][0] <= self.offset):
                self._loop.call_soon(self._wake, error)  # a waiter raised
            self._wake_receivers(error)

    def _wake_replicated(self, error: LiteMQError) -> None:
        """Call all waiters of ``when_replicated`` and ``when_received`` with ``error``."""
        waiters = self._waiters
        refused = sorted(waiter for waiter in waiters if waiter[3])
        waiters[:] = [waiter for waiter in waiters if not waiter[3]]
        heapq.heapify(waiters)
        refused.reverse()
        try:
            while refused:
                refused.pop()[2](error)
        finally:
            if refused and self._loop is not None:  # a waiter raised
                for waiter in refused:
                    heapq.heappush(waiters, waiter)
                self._loop.call_soon(self._wake_replicated, error)
            self._wake_receivers(error)

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
        if self._log.failure is not None:
            return StoreFailedError(self._log.failure)
        return None if self._refusal is None else _not_confirmed(self._refusal)

    def _on_end(self) -> None:
        """The log has failed or was closed; called by any thread."""
        with self._advanced:
            self._advanced.notify_all()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake, StoreFailedError(self._log.failure))


def _not_confirmed(reason: LiteMQError) -> NotConfirmedError:
    """Return the error of a waiter, whose records are in the log."""
    return NotConfirmedError(f"the change was written, but not confirmed: {reason}")
