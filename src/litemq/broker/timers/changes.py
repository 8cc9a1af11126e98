"""Changes of delayed messages that wait: they are cancelled, or due at another time.

What became of a message is looked up in a thread, for all who asked meanwhile together, and decided while nobody else writes: whatever was
fired, cancelled, moved or carried on since it was looked up is looked up again. So each change is true when its record is written, and what is
cancelled never fires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from litemq.broker.runtime.deferred_answers import DeferredAnswers
from litemq.broker.timers.lookup import FoundTimer, TimerLookup, TimerName
from litemq.errors import LiteMQError, OverloadedError, StorageError
from litemq.proto.control_pb2 import Control, TimerEnded, TimerMoved, TimersEnded
from litemq.storage.store import Store
from litemq.storage.timers.timer_store import HeldTimers, ending_of

__all__ = ["Found", "TimerChanges", "TimerTurn"]

_MOST_NAMES: Final = 100_000  # that wait to be looked up
_ENDED_AT_ONCE: Final = 1_000  # in one record
_RETRY_AFTER_MS: Final = 100
_LOG = logging.getLogger(__name__)

Found = Mapping[TimerName, FoundTimer]
# Called while nobody else writes, with what was found: says what is to change.
Decide = Callable[[Found, "TimerTurn"], None]


class TimerTurn:
    """What is to change, for everybody whose messages were looked up together."""

    def __init__(self, timers: HeldTimers) -> None:
        self._timers = timers
        self._ended: list[TimerEnded] = []
        self._moved: list[Control] = []
        self.touched: set[int] = set()  # whoever asks for them after that must look again

    def due_of(self, found: FoundTimer) -> int:
        """When a message that waits is due."""
        return self._timers.due_of(found.pending, found.delay_time)

    def cancel(self, found: FoundTimer) -> None:
        """A message that waits is not delivered."""
        self.touched.add(found.pending)
        self._ended.append(ending_of(self._timers, found.pending, found.delay_time, found.size))

    def move(self, found: FoundTimer, due: int) -> None:
        """A message that waits is due at another time."""
        self.touched.add(found.pending)
        moved = TimerMoved(pending=found.pending, delay_time=found.delay_time, due_before=self.due_of(found), due=due, size=found.size)
        self._moved.append(Control(timer_moved=moved))

    def controls(self) -> list[Control]:
        """The records that say so: all that are cancelled are one, as far as it holds them."""
        ended = [self._ended[at : at + _ENDED_AT_ONCE] for at in range(0, len(self._ended), _ENDED_AT_ONCE)]
        return [*(Control(timers_ended=TimersEnded(timers=some, cancelled=True)) for some in ended), *self._moved]


@dataclass(eq=False)
class _Wish:
    names: Sequence[TimerName]
    decide: Decide
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class TimerChanges:
    """On the event loop on which it is made."""

    def __init__(self, store: Store, answers: DeferredAnswers) -> None:
        self._store = store
        self._lookup = TimerLookup(store)
        self._answers = answers
        self._wishes: list[_Wish] = []
        self._names = 0
        self._is_working = False

    async def change(self, names: Sequence[TimerName], decide: Decide) -> None:
        """Look messages up, and change what is decided then; returns when that is safe."""
        if self._names + len(names) > _MOST_NAMES:
            raise OverloadedError(f"{self._names} delayed messages are being looked up: ask again in {_RETRY_AFTER_MS} ms", _RETRY_AFTER_MS)
        wish = _Wish(names, decide)
        self._wishes.append(wish)
        self._names += len(names)
        if not self._is_working:
            self._is_working = True
            self._answers.in_background(self._work())
        try:
            await wish.done
        finally:
            self._names -= len(names)

    async def _work(self) -> None:
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, []
                try:
                    again = await self._grant(wishes)
                except Exception as error:  # noqa: BLE001  whoever asked waits for an answer
                    if not isinstance(error, LiteMQError):
                        _LOG.exception("delayed messages could not be changed")
                        error = StorageError("the broker could not do this; its log says why")
                    for wish in wishes:
                        _fail(wish, error)
                else:
                    self._wishes = again + self._wishes
        finally:
            self._is_working = False

    async def _grant(self, wishes: list[_Wish]) -> list[_Wish]:
        """Do what is wished for; returns those who have to look again."""
        store, timers = self._store, self._store.timers
        loop = asyncio.get_running_loop()
        granted: list[_Wish] = []
        again: list[_Wish] = []
        with timers.watching() as has_ended:
            names = [name for wish in wishes for name in wish.names]
            found = await loop.run_in_executor(self._answers.lookups, self._lookup.find, names)

            def decide() -> list[Control]:
                turn = TimerTurn(timers)
                for wish in wishes:
                    pendings = [found[name].pending for name in wish.names]
                    if store.timers is not timers or any(pending in turn.touched or has_ended(pending) for pending in pendings):
                        again.append(wish)
                        continue
                    try:
                        wish.decide(found, turn)
                    except LiteMQError as error:
                        _fail(wish, error)
                    else:
                        granted.append(wish)
                return turn.controls()

            store.change_timers(decide)
        await store.confirmed(store.log_end)
        for wish in granted:
            if not wish.done.done():
                wish.done.set_result(None)
        return again


def _fail(wish: _Wish, error: LiteMQError) -> None:
    if not wish.done.done():
        wish.done.set_exception(error)
