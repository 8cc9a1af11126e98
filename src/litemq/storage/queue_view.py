"""A view of the queues: reads their records up to a log offset.

Reads of hot records run on the caller's thread. ``pull`` hands cold reads to a few threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.storage.healing import ProjectionRepair
from litemq.storage.queues.queue_reader import DamagedQueueError
from litemq.storage.state import QueueKey
from litemq.storage.store import Longs
from litemq.storage.store_parts import StoreParts

__all__ = ["QueueView"]


class QueueView:
    """The queues of an open store, for any thread.

    If a read finds a damaged projection, it rebuilds the projection and reads again.
    """

    def __init__(
        self, parts: StoreParts, repair: ProjectionRepair, cold: Executor, below: Callable[[QueueKey], int]
    ) -> None:
        """``below`` returns the log offset by which the readable records of a queue end.

        ``cold`` runs the reads that may wait for the disk.
        """
        self._parts = parts
        self._log = parts.log
        self._state = parts.state
        self._queue_reader = parts.queue_reader
        self._repair = repair
        self._cold = cold
        self._below = below

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Read raw records of a queue from offset ``first`` on: at least one if readable.

        It may wait for the disk.
        """
        self._check_range(key, first)
        below = self._below(key)
        try:
            return self._queue_reader.read(key, first, max_messages, max_bytes, below)
        except DamagedQueueError as error:
            self._repair.repair_queues(key, first, max_messages, error)
            return self._queue_reader.read(key, first, max_messages, max_bytes, below)
        except CorruptStoreError as error:
            self._parts.damage.add(error)
            raise

    def _check_range(self, key: QueueKey, first: int) -> None:
        start, end = self._state.start_offsets.get(key, 0), self._state.end_offsets.get(key, 0)
        if not start <= first <= end:
            raise OffsetOutOfRangeError(
                f"offset {first} of queue {key.queue_id} is out of range: it has {start} … {end}"
            )

    def read_if_hot(
        self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20
    ) -> bytes | memoryview | None:
        """Read records as ``read_queue`` does if the first is in memory; else return ``None``."""
        end = self._state.end_offsets.get(key, 0)
        if first == end:
            return b""
        if self._state.start_offsets.get(key, 0) <= first < end:
            recent = self._queue_reader.read_recent(key, first, max_messages, max_bytes, self._below(key))
            if recent is not None:
                return recent
        log_offset = self._parts.queues.log_offset_in_memory(key, first)
        is_hot = log_offset is not None and self._log.is_hot(log_offset)
        return self.read_queue(key, first, max_messages, max_bytes) if is_hot else None

    async def pull(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Read records as ``read_queue`` does. The event loop never waits for the disk."""
        hot = self.read_if_hot(key, first, max_messages, max_bytes)
        if hot is not None:
            return hot
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._cold, self.read_queue, key, first, max_messages, max_bytes)

    def readable_end(self, key: QueueKey) -> int:
        """Return the offset of the queue's first message that may not be read yet.

        Only for the writing thread.
        """
        return self._parts.queues.end_below(key, self._below(key))

    def read_entries(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void]:
        """Read up to ``limit`` entries of a queue from offset ``first`` on, of readable records.

        It may wait for the disk.
        """
        self._check_range(key, first)
        below = self._below(key)
        try:
            return self._queue_reader.entries(key, first, limit, below)
        except DamagedQueueError as error:
            self._repair.repair_queues(key, first, limit, error)
            return self._queue_reader.entries(key, first, limit, below)

    def read_entries_if_hot(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void] | None:
        """Read entries as ``read_entries`` does if the first is in memory; else return ``None``."""
        if (
            first == self._state.end_offsets.get(key, 0)
            or self._parts.queues.log_offset_in_memory(key, first) is not None
        ):
            return self.read_entries(key, first, limit)
        return None

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview:
        """Read the records of ``entries``, which have the rising ``queue_offsets`` in their queue.

        If a record is damaged, return the records before it. It may wait for the disk.
        """
        data = self._queue_reader.read_chosen(key, queue_offsets, entries, self._below(key))
        if data is not None:
            return data
        # An entry does not match its record. Read one record at a time: ``read_queue`` repairs.
        found: list[bytes | memoryview] = []
        for offset in queue_offsets.tolist():
            try:
                found.append(self.read_queue(key, offset, 1))
            except CorruptStoreError:
                if not found:
                    raise
                break
        return b"".join(found)

    def is_hot(self, log_offset: int) -> bool:
        """Whether the record at ``log_offset`` is in memory."""
        return self._log.is_hot(log_offset)
