"""Records of a queue that were read for a group, a little ahead of what it asks for: few reads, however few messages are asked for at a time.

What is in memory is read at once; what is not is read by the store's own threads, and whoever asked is told when it is there.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from litemq.errors import LiteMQError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.state import QueueKey
from litemq.storage.store import Store

__all__ = ["Chunk", "ChunkReader", "Chunks"]

_AHEAD: Final = 256  # messages
_AHEAD_BYTES: Final = 256 << 10
_KEPT_BYTES: Final = 64 << 20  # of all groups and queues together

Place = tuple[str, QueueKey]


class Chunk:
    """Consecutive records of a queue, and what decides about them."""

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
        """The bytes of some records."""
        return self.records[self._bounds[begin - self.first] : self._bounds[end - self.first]]

    def fitting(self, begin: int, end: int, max_bytes: int) -> int:
        """How far one can go from ``begin`` on within so many bytes; ``begin`` itself, if not even one fits."""
        bounds = self._bounds
        return min(end, self.first + bisect_right(bounds, bounds[begin - self.first] + max_bytes) - 1)

    def is_expired(self, begin: int, end: int, now: int) -> npt.NDArray[np.bool_] | None:
        """Which of some records are too old to be given to anybody; nothing, if none is."""
        if self.expire_at is None:
            return None
        times = self.expire_at[begin - self.first : end - self.first]
        expired = (times != 0) & (times <= now)
        return expired if expired.any() else None


class ChunkReader(Protocol):
    """The reader of chunks. ``Chunks`` calls it when a chunk that was not in memory has been read."""

    def on_read(self, place: Place) -> None:
        """The chunk at ``place`` can be had now."""
        ...


class Chunks:
    """One for each group and queue that is read, while there is room."""

    def __init__(self, store: Store, reader: ChunkReader) -> None:
        self._store = store
        self._reader = reader
        self._kept: OrderedDict[Place, Chunk] = OrderedDict()
        self._kept_bytes = 0
        self._failed: dict[Place, LiteMQError] = {}
        self._reading: dict[Place, asyncio.Task[None]] = {}

    def is_reading(self, place: Place) -> bool:
        """Whether something is on its way."""
        return place in self._reading

    def at(self, place: Place, first: int, most: int, max_bytes: int, ttl_ms: int) -> Chunk | None:
        """A chunk that has offset ``first``, and some of those behind it, or ends there; ``None``: not yet. Raises what reading raised."""
        kept = self._kept.get(place)
        if kept is not None and kept.first <= first < kept.end:
            return kept
        if place in self._reading:
            return None
        failure = self._failed.pop(place, None)
        if failure is not None:
            raise failure
        most, max_bytes = max(most, _AHEAD), max(max_bytes, _AHEAD_BYTES) if most < _AHEAD else max_bytes
        records = self._store.read_if_hot(place[1], first, most, max_bytes)
        if records is None:
            reading = self._read(place, first, most, max_bytes, ttl_ms)
            self._reading[place] = asyncio.get_running_loop().create_task(reading)
            return None
        return self._keep(place, Chunk(first, records, ttl_ms))

    async def _read(self, place: Place, first: int, most: int, max_bytes: int, ttl_ms: int) -> None:
        try:
            records = await self._store.pull(place[1], first, most, max_bytes)
            self._keep(place, Chunk(first, records, ttl_ms))
        except LiteMQError as error:
            self._failed[place] = error
        finally:
            del self._reading[place]
        self._reader.on_read(place)

    def _keep(self, place: Place, chunk: Chunk) -> Chunk:
        self.forget(place)
        if chunk.end > chunk.first:
            self._kept[place] = chunk
            self._kept_bytes += len(chunk.records)
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))
        return chunk

    def forget(self, place: Place) -> None:
        """It is not needed any more."""
        kept = self._kept.pop(place, None)
        if kept is not None:
            self._kept_bytes -= len(kept.records)

    def close(self) -> None:
        """Nobody waits any more."""
        for task in self._reading.values():
            task.cancel()
