"""Changes of timers: delayed messages are cancelled, or get another due time.

The broker looks messages up in a thread, for all waiting requests together, and decides while no
other writer runs. A message that was fired, cancelled, moved or carried on since the look-up is
looked up again. So each change is valid when its record is written, and a cancelled message never
fires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from litemq.broker.runtime.deferred_answers import DeferredAnswers, wait_readable, wait_safe
from litemq.broker.timers.lookup import FoundTimer, TimerLookup, TimerName
from litemq.errors import LiteMQError, OverloadedError, StorageError
from litemq.errors.detached import detached
from litemq.proto.control_pb2 import Control, TimerEnded, TimerMoved, TimersEnded
from litemq.storage.store import Store
from litemq.storage.timers.timer_store import TimerStore, timer_end

__all__ = ["Found", "TimerChanges", "TimerTick"]

_MAX_NAMES: Final = 100_000  # that wait for a look-up
_ENDED_AT_ONCE: Final = 1_000  # in one record
_RETRY_AFTER_MS: Final = 100
_LOG = logging.getLogger(__name__)

Found = Mapping[TimerName, FoundTimer]
# Called while no other writer runs, with the look-up's result: adds its changes to the tick.
Decide = Callable[[Found, "TimerTick"], None]


class TimerTick:
    """The changes of all requests whose messages were looked up together."""

    def __init__(self, timers: TimerStore) -> None:
        self._timers = timers
        self._ended: list[TimerEnded] = []
        self._moved: list[Control] = []
        self.touched: set[int] = set()  # later requests for them need another look-up

    def due_time(self, found: FoundTimer) -> int:
        """Return the due time of a waiting message."""
        return self._timers.due_time(found.pending, found.delay_time)

    def cancel(self, found: FoundTimer) -> None:
        """Cancel a waiting message."""
        self.touched.add(found.pending)
        self._ended.append(timer_end(self._timers, found.pending, found.delay_time, found.size))

    def move(self, found: FoundTimer, due: int) -> None:
        """Move a waiting message to ``due``."""
        self.touched.add(found.pending)
        moved = TimerMoved(
            pending=found.pending,
            delay_time=found.delay_time,
            due_before=self.due_time(found),
            due=due,
            size=found.size,
        )
        self._moved.append(Control(timer_moved=moved))

    def controls(self) -> list[Control]:
        """Return the records of the changes.

        One record has up to ``_ENDED_AT_ONCE`` cancelled messages.
        """
        ended = [self._ended[at : at + _ENDED_AT_ONCE] for at in range(0, len(self._ended), _ENDED_AT_ONCE)]
        return [*(Control(timers_ended=TimersEnded(timers=some, cancelled=True)) for some in ended), *self._moved]


@dataclass(eq=False)
class _ChangeRequest:
    names: Sequence[TimerName]
    decide: Decide
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class TimerChanges:
    """Applies changes on the event loop on which it is created."""

    def __init__(self, store: Store, answers: DeferredAnswers) -> None:
        self._store = store
        self._lookup = TimerLookup(store)
        self._answers = answers
        self._requests: list[_ChangeRequest] = []
        self._names = 0
        self._is_working = False

    async def change(self, names: Sequence[TimerName], decide: Decide) -> None:
        """Look up ``names`` and apply the changes of ``decide``; return when they are durable."""
        if self._names + len(names) > _MAX_NAMES:
            raise OverloadedError(
                f"{self._names} look-ups of delayed messages are waiting: retry in {_RETRY_AFTER_MS} ms",
                _RETRY_AFTER_MS,
            )
        request = _ChangeRequest(names, decide)
        self._requests.append(request)
        self._names += len(names)
        if not self._is_working:
            self._is_working = True
            self._answers.in_background(self._work())
        try:
            await request.done
        finally:
            self._names -= len(names)
            del request  # its future has the error, whose traceback has this frame

    async def _work(self) -> None:
        try:
            while self._requests:
                requests, self._requests = self._requests, []
                try:
                    again = await self._apply(requests)
                except Exception as error:  # noqa: BLE001  every caller waits for an answer
                    if not isinstance(error, LiteMQError):
                        _LOG.exception("changes of delayed messages failed")
                        error = StorageError("the broker failed to handle the request: see the broker's log")
                    for request in requests:
                        _fail(request, error)
                else:
                    self._requests = again + self._requests
        finally:
            self._is_working = False

    async def _apply(self, requests: list[_ChangeRequest]) -> list[_ChangeRequest]:
        """Apply ``requests``; return those that need another look-up."""
        store, timers = self._store, self._store.timers
        loop = asyncio.get_running_loop()
        applied: list[_ChangeRequest] = []
        again: list[_ChangeRequest] = []
        with timers.watch_ended() as has_ended:
            names = [name for request in requests for name in request.names]
            await wait_readable(store)
            found = await loop.run_in_executor(self._answers.lookups, self._lookup.find, names)

            def decide() -> list[Control]:
                tick = TimerTick(timers)
                for request in requests:
                    pendings = [found[name].pending for name in request.names]
                    if store.timers is not timers or any(
                        pending in tick.touched or has_ended(pending) for pending in pendings
                    ):
                        again.append(request)
                        continue
                    try:
                        request.decide(found, tick)
                    except LiteMQError as error:
                        _fail(request, error)
                    else:
                        applied.append(request)
                return tick.controls()

            store.change_timers(decide)
        await wait_safe(store, store.log_end)
        for request in applied:
            if not request.done.done():
                request.done.set_result(None)
        return again


def _fail(request: _ChangeRequest, error: LiteMQError) -> None:
    if not request.done.done():
        request.done.set_exception(detached(error))
