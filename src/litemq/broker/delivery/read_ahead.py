"""Read-ahead: records of a queue that the broker reads for a group before the group asks for them.

Records in memory are read at once. Others are read by the store's threads, and the reader is called
when they are there. So there are few reads even if each request takes few messages.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from litemq.errors import LiteMQError
from litemq.errors.detached import detached
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.state import QueueKey
from litemq.storage.store import QueueReads

__all__ = ["Chunk", "ChunkReader", "ReadAhead", "ReadKey"]

_AHEAD: Final = 256  # messages
_AHEAD_BYTES: Final = 256 << 10
_KEPT_BYTES: Final = 64 << 20  # of all groups and queues together

ReadKey = tuple[str, QueueKey]  # a group and a queue that it reads


class Chunk:
    """Consecutive records of a queue, with the fields that decide about their delivery."""

    __slots__ = ("_bounds", "columns", "consume_counts", "end", "expire_at", "first", "records")

    def __init__(self, first: int, records: bytes | memoryview, ttl_ms: int) -> None:
        starts = scan(records, limits=STORED_LIMITS).starts
        self.first = first
        self.end = first + starts.size
        self.records = memoryview(records)
        self.columns = RecordColumns(records, starts)
        self._bounds: list[int] = [*starts.tolist(), len(records)]
        header = self.columns.header
        self.consume_counts: list[int] = header["consume_count"].tolist()
        expire_at = header["expire_at"].astype(np.int64)
        if ttl_ms:
            expire_at = np.where(expire_at == 0, header["store_timestamp"].astype(np.int64) + ttl_ms, expire_at)
        self.expire_at: npt.NDArray[np.int64] | None = expire_at if expire_at.any() else None

    def view(self, begin: int, end: int) -> memoryview:
        """Return the bytes of the records ``begin`` … ``end`` − 1."""
        return self.records[self._bounds[begin - self.first] : self._bounds[end - self.first]]

    def fitting(self, begin: int, end: int, max_bytes: int) -> int:
        """Return the end of the records from ``begin`` on that fit into ``max_bytes``; ``begin`` if
        none fits.
        """
        bounds = self._bounds
        return min(end, self.first + bisect_right(bounds, bounds[begin - self.first] + max_bytes) - 1)

    def is_expired(self, begin: int, end: int, now: int) -> npt.NDArray[np.bool_] | None:
        """Return which of the records have expired; ``None`` if none has."""
        if self.expire_at is None:
            return None
        times = self.expire_at[begin - self.first : end - self.first]
        expired = (times != 0) & (times <= now)
        return expired if expired.any() else None


class ChunkReader(Protocol):
    """The reader of chunks.

    ``ReadAhead`` calls it when a chunk that was not in memory has been read.
    """

    def on_read(self, source: ReadKey) -> None:
        """The next chunk of ``source`` has been read."""
        ...


class ReadAhead:
    """The last chunk of each group and queue.

    The oldest are dropped when they exceed ``_KEPT_BYTES``.
    """

    def __init__(self, queues: QueueReads, reader: ChunkReader) -> None:
        self._queues = queues
        self._reader = reader
        self._kept: OrderedDict[ReadKey, Chunk] = OrderedDict()
        self._kept_bytes = 0
        self._failed: dict[ReadKey, LiteMQError] = {}
        self._reading: dict[ReadKey, asyncio.Task[None]] = {}

    def is_reading(self, source: ReadKey) -> bool:
        """Return whether a read is under way."""
        return source in self._reading

    def at(self, source: ReadKey, first: int, limit: int, max_bytes: int, ttl_ms: int) -> Chunk | None:
        """Return a chunk that contains offset ``first``, or ends there if there are no records.

        Return ``None`` while the chunk is read. If a read has failed, raise its error.
        """
        kept = self._kept.get(source)
        if kept is not None and kept.first <= first < kept.end:
            return kept
        if source in self._reading:
            return None
        failure = self._failed.pop(source, None)
        if failure is not None:
            raise failure
        limit, max_bytes = max(limit, _AHEAD), max(max_bytes, _AHEAD_BYTES) if limit < _AHEAD else max_bytes
        records = self._queues.read_if_hot(source[1], first, limit, max_bytes)
        if records is None:
            reading = self._read(source, first, limit, max_bytes, ttl_ms)
            self._reading[source] = asyncio.get_running_loop().create_task(reading)
            return None
        return self._keep(source, Chunk(first, records, ttl_ms))

    async def _read(self, source: ReadKey, first: int, limit: int, max_bytes: int, ttl_ms: int) -> None:
        try:
            records = await self._queues.pull(source[1], first, limit, max_bytes)
            self._keep(source, Chunk(first, records, ttl_ms))
        except LiteMQError as error:
            self._failed[source] = detached(error)
        finally:
            del self._reading[source]
        self._reader.on_read(source)

    def _keep(self, source: ReadKey, chunk: Chunk) -> Chunk:
        self.forget(source)
        if chunk.end > chunk.first:
            self._kept[source] = chunk
            self._kept_bytes += len(chunk.records)
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))
        return chunk

    def forget(self, source: ReadKey) -> None:
        """Drop the chunk of ``source``."""
        kept = self._kept.pop(source, None)
        if kept is not None:
            self._kept_bytes -= len(kept.records)

    def close(self) -> None:
        """Cancel all reads."""
        for task in self._reading.values():
            task.cancel()
