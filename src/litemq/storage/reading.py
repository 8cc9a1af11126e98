"""The read path of a store: by queue, log offset, key and time; and the reading of timers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.storage.healing import ProjectionRepair
from litemq.storage.log.records import read_checked
from litemq.storage.queue_view import QueueView
from litemq.storage.state import QueueKey
from litemq.storage.store import Longs
from litemq.storage.store_parts import StoreParts
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import TimerStore
from litemq.types import StoredRecord

__all__ = ["StoreReader"]

T = TypeVar("T")

_STORE_TIMESTAMP: Final = slice(32, 40)
# More threads would wait for each other and for the interpreter, and delay the event loop.
_COLD_READERS: Final = 2
_COLD_NICENESS: Final = 10


class StoreReader(QueueView):
    """The reader of an open store, for any thread.

    It reads confirmed records. ``for_consumers`` also reads received records of the topics whose
    consumers see them.
    """

    def __init__(self, parts: StoreParts) -> None:
        cold = ThreadPoolExecutor(_COLD_READERS, thread_name_prefix="litemq-cold-read", initializer=_lower_priority)
        self.repair = repair = ProjectionRepair(parts)
        super().__init__(parts, repair, cold, lambda _key: parts.confirmation.offset)

        def consumers_end(key: QueueKey) -> int:
            return parts.log.end if parts.state.shows_received(key) else parts.confirmation.offset

        self.for_consumers = QueueView(parts, repair, cold, consumers_end)

    def in_thread(self, read: Callable[[], T]) -> asyncio.Future[T]:
        """Call ``read`` in a thread for cold reads. Only for the event loop."""
        return asyncio.get_running_loop().run_in_executor(self._cold, read)

    def close(self) -> None:
        """End the cold-read threads after the reads in progress."""
        self._cold.shutdown()

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        """Return the offset of the first message stored at or after ``store_timestamp`` (ms).

        If there is none yet, return the queue's next offset.
        """
        low, high = self._state.start_offsets.get(key, 0), self._state.end_offsets.get(key, 0)
        while low < high:
            middle = (low + high) // 2
            data = self.read_queue(key, middle, 1)
            if data and int.from_bytes(data[_STORE_TIMESTAMP], "big") < store_timestamp:
                low = middle + 1
            else:
                high = middle
        return low

    # Records -------------------------------------------------------------------------------------

    def read_checked(self, log_offset: int) -> tuple[bytes, StoredRecord]:
        """Read the record at ``log_offset``, as bytes and decoded. It may wait for the disk."""
        return read_checked(self._log, log_offset, self._parts.confirmation.offset)

    def find(self, topic: str, key: str, limit: int, *, anywhere: bool) -> list[StoredRecord]:
        """Find up to ``limit`` messages of ``topic`` with ``key`` as key or id, the latest first.

        It may wait for the disk.
        """
        parts = self._parts
        return parts.finder.find(
            topic, key, max(0, limit), parts.confirmation.offset, parts.damage.add, anywhere=anywhere
        )

    # Timers --------------------------------------------------------------------------------------

    @property
    def timer_bytes_left(self) -> int:
        """The bytes of timers that may still be added: timers may use half of the log's budget."""
        parts = self._parts
        budget = parts.config.max_log_bytes
        if budget is None:
            budget = int(parts.disk.total_bytes(parts.directory) * parts.config.disk_refuse_percent / 100)
        return max(0, budget // 2 - self._state.parts.timers.bytes)

    def load_timers(self, until: int) -> None:
        """Load the timers due before ``until`` (ms) into memory. It may wait for the disk."""
        with self._parts.maintaining:
            if self._parts.is_closed:
                return
            self._from_timers(lambda timers: timers.load(until))

    def are_timers_pending(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Return a mask of the timers at log offsets ``pendings`` that have not ended.

        ``delay_times`` are the delay times of their records. It may wait for the disk.
        """
        with self._parts.maintaining:
            return self._from_timers(lambda timers: timers.live_among(delay_times, pendings))

    def timers_after(self, after: tuple[int, int], until: int, limit: int) -> list[Timer]:
        """List up to ``limit`` pending timers after ``after`` (due time, log offset), in order.

        All are due before ``until`` (ms). It may wait for the disk.
        """
        with self._parts.maintaining:
            return self._from_timers(lambda timers: timers.page(after, until, limit))

    def _from_timers(self, read: Callable[[TimerStore], T]) -> T:
        try:
            return read(self._parts.timers)
        except CorruptStoreError as error:
            self._repair.rebuild_timers(error)
            return read(self._parts.timers)

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        """Read the records of ``timers``, not verified: the append of a record verifies it.

        It may wait for the disk.
        """
        return [bytes(self._log.read(timer.pending, timer.pending + timer.size)) for timer in timers]

    def read_pending_if_cached(self, timers: Sequence[Timer]) -> list[bytes] | None:
        """Read records as ``read_pending`` does if all are in memory; else return ``None``."""
        records: list[bytes] = []
        for timer in timers:
            record = self._log.read_if_cached(timer.pending, timer.pending + timer.size)
            if record is None:
                return None
            records.append(bytes(record))
        return records


def _lower_priority() -> None:
    """Give this thread a lower priority than the event loop. Only on Linux."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _COLD_NICENESS)
