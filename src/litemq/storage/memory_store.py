"""A store in memory, for tests. It behaves like the disk store, but nothing is durable."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import OffsetOutOfRangeError, StoreFailedError
from litemq.format.batches.scan import scan
from litemq.format.batches.stamp import queue_entries
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record_decode import decode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import (
    Batch,
    Placed,
    commit_control,
    control_batch,
    creation_control,
    deletion_control,
    placed_batch,
    record_sequences,
    sent_batch,
    stamp,
)
from litemq.storage.batches.half_batches import (
    DecidedHalves,
    check_half_sequence,
    check_upcoming,
    committed_batch,
    decision_controls,
    half_batch,
    read_halves,
    upcoming_halves,
)
from litemq.storage.batches.producer_halves import producers_batch, transactions_batch
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.log.flush import OnFlushed
from litemq.storage.log.log_clock import LogClock
from litemq.storage.retention.topic_expiry import TopicExpiry
from litemq.storage.state import NO_SETTINGS, QueueKey, State, Topic, TopicSettings
from litemq.storage.state.topics import system_topic_queues
from litemq.storage.store import Appended, Decide, Longs, QueueReads, Sent
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import TimerStore
from litemq.types import StoredRecord

__all__ = ["MemoryStore"]


class MemoryStore:
    """A ``Store`` in memory. Every append is confirmed at once."""

    is_replicated = False
    replica_refusal = None
    in_sync = 1
    not_in_sync = ""
    lease_refusal = None

    def __init__(self, clock: Clock, *, limits: RecordLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or RecordLimits()
        self.state = State()
        self.timers = TimerStore(None)
        self.timer_bytes_left = sys.maxsize
        self.confirm_offset = 0
        self.epoch = 1
        self.kept_from = 0  # without retention
        self._time = 0
        self.log_clock = LogClock(clock, lambda: self._time)
        self._closed = False
        self._queues: dict[QueueKey, list[bytes]] = defaultdict(list)
        self._records: dict[int, bytes] = {}
        self._offsets_by_key: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._expiry = TopicExpiry(self.state, clock, nullcontext(), self.read_entries, self.append_control)

    @property
    def flushed_offset(self) -> int:
        return self.confirm_offset

    @property
    def log_end(self) -> int:
        return self.confirm_offset

    @property
    def for_consumers(self) -> QueueReads:
        return self

    def atomically(self) -> AbstractContextManager[object]:
        return nullcontext()

    def append(
        self, batch: bytearray, topic_id: int, queue_ids: Longs | int, *, held_after: int | None = None
    ) -> Appended:
        return self._write(sent_batch(self.state, batch, topic_id, queue_ids, self._limits, held_after))

    def append_sends(
        self,
        batch: bytearray,
        topic_id: int,
        queue_ids: list[int],
        *,
        is_wanted: bool = False,  # noqa: ARG002
    ) -> Sent:
        return self.append(batch, topic_id, np.array(queue_ids)).sent

    def _write(self, batch: Batch) -> Appended:
        if self._closed:
            raise StoreFailedError("the store was closed")
        sizes = batch.columns.sizes
        offsets = np.cumsum(sizes) - sizes + self.confirm_offset
        self._time = self.log_clock.wall_ms()
        stamped = stamp(batch, self.state, offsets, self._time, epoch=1)
        for key, end_offset in zip(stamped.keys, stamped.end_offsets, strict=True):
            self.state.extend_queue(key, end_offset)
        record_sequences(batch, self.state, stamped, self._time)
        topic_ids, queue_ids = (
            np.broadcast_to(np.asarray(ids), offsets.shape).tolist() for ids in (batch.topic_id, batch.queue_ids)
        )
        rows = zip(batch.columns.starts.tolist(), sizes.tolist(), offsets.tolist(), topic_ids, queue_ids, strict=True)
        for at, size, offset, topic_id, queue_id in rows:
            record = bytes(batch.columns.buffer[at : at + size])
            self._queues[QueueKey(topic_id, queue_id)].append(record)
            self._records[offset] = record
            message = decode_record(record, limits=STORED_LIMITS).record
            for name in dict.fromkeys((message.message_id, *message.keys)):
                self._offsets_by_key[message.topic, name].append(offset)
        self.confirm_offset = int(offsets[-1] + sizes[-1])
        if not batch.is_plain:
            for _, event in numbered_events(batch.columns, offsets):
                self.timers.place(event, was_half=self.state.parts.was_half(event))
                self.state.place(event)
        return Appended(offsets, stamped.queue_offsets, self._time, self.confirm_offset)

    def append_placed(self, placed: Sequence[Placed]) -> Appended:
        self.timers.check_fired(placed)
        return self._write(placed_batch(self.state, placed))

    def append_halves(self, batch: bytearray, topic_id: int, queue_id: int, transaction: str, first: int) -> Appended:
        halves = half_batch(self.state, batch, topic_id, queue_id, transaction, self._limits)
        check_half_sequence(self.state, transaction, QueueKey(topic_id, queue_id), first)
        return self._write(halves)

    def commit_sink(self, query: str, batch: int, decide: Decide, plan: bytes = b"") -> Appended:
        controls = decision_controls(self.state, query, batch, decide(self.state), plan)
        return [self.append_control(control) for control in controls][-1]

    def read_decided(self, max_bytes: int) -> DecidedHalves | None:
        upcoming = upcoming_halves(self.state, max_bytes)
        return None if upcoming is None else read_halves(upcoming, self.read_queue)

    def append_committed(self, decided: DecidedHalves, held_after: int) -> Appended:
        check_upcoming(self.state, decided)
        return self._write(committed_batch(decided, held_after))

    def append_producers_halves(self, batch: bytearray, topic_id: int, queue_ids: Longs) -> Appended:
        return self._write(producers_batch(self.state, batch, topic_id, queue_ids, self._limits))

    def commit_transactions(self, transactions: Sequence[str], held_after: int) -> Appended:
        return self._write(
            transactions_batch(self.state, transactions, lambda begin, _: self._records[begin], held_after)
        )

    def system_topic(self, name: str) -> Topic:
        return self.create_topic(name, system_topic_queues(name))

    def append_control(self, control: Control) -> Appended:
        appended = self._write(control_batch(control, self._clock.wall_ms()))
        self.state.apply(control)
        self.timers.apply(control, int(appended.log_offsets[0]))
        return appended

    def append_numbered(self, make: Callable[[int], Control]) -> Appended:
        return self.append_control(make(self.log_end))

    def create_topic(self, name: str, queues: int = 4, settings: TopicSettings = NO_SETTINGS) -> Topic:
        there = self.state.topic(name)
        if there is None:
            control = creation_control(self.state, name, queues, settings, now=self._clock.wall_ms())
            self.append_control(control)
            there = self.state.topics[control.topic_created.topic.topic_id]
        return there

    def delete_topic(self, name: str) -> None:
        self.append_control(deletion_control(self.state, name))

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        return self.append_control(commit_control(self.state, group, offsets))

    async def expire_messages(self) -> int | None:
        return self._expiry.expire().next_at

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:  # noqa: ARG002
        if offset > self.confirm_offset:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self.confirm_offset}")

    async def confirmed(self, offset: int) -> None:
        self.wait_confirmed(offset)

    def when_confirmed(self, offset: int, on_confirmed: OnFlushed) -> None:
        self.wait_confirmed(offset)
        on_confirmed(None)

    when_flushed = when_received = when_replicated = when_confirmed

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        start, end = self.state.start_offsets.get(key, 0), self.state.end_offsets.get(key, 0)
        if not start <= first <= end:
            raise OffsetOutOfRangeError(
                f"offset {first} of queue {key.queue_id} is out of range: it has {start} … {end}"
            )
        base = end - len(self._queues[key])  # a topic that is created again continues its offsets
        taken: list[bytes] = []
        size = 0
        for record in self._queues[key][first - base : first - base + max_messages]:
            size += len(record)
            if taken and size > max_bytes:
                break
            taken.append(record)
        return b"".join(taken)

    def readable_end(self, key: QueueKey) -> int:
        return self.state.end_offsets.get(key, 0)

    def read_entries(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void]:
        data = self.read_queue(key, first, limit, sys.maxsize)
        columns = RecordColumns(data, scan(data, limits=STORED_LIMITS).starts)
        log_offsets, times = (columns.header[name].astype(np.int64) for name in ("commitlog_offset", "store_timestamp"))
        return queue_entries(columns, None, commitlog_offsets=log_offsets, store_timestamps=times)

    def read_entries_if_hot(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void] | None:
        return self.read_entries(key, first, limit)

    def read_chosen(
        self,
        key: QueueKey,
        queue_offsets: Longs,
        entries: npt.NDArray[np.void],  # noqa: ARG002
    ) -> bytes | memoryview:
        return b"".join([self.read_queue(key, offset, 1) for offset in queue_offsets.tolist()])

    def read_raw(self, log_offset: int) -> bytes:
        if log_offset not in self._records:
            raise OffsetOutOfRangeError(f"no record begins at log offset {log_offset}")
        return self._records[log_offset]

    def is_hot(self, log_offset: int) -> bool:  # noqa: ARG002  every record is
        return True

    def read_if_hot(
        self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20
    ) -> bytes | memoryview | None:
        return self.read_queue(key, first, max_messages, max_bytes)

    async def pull(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        return self.read_queue(key, first, max_messages, max_bytes)

    def read_record(self, log_offset: int) -> StoredRecord:
        return decode_record(self.read_raw(log_offset), limits=STORED_LIMITS)

    def find(self, topic: str, key: str, limit: int = 32, *, anywhere: bool = False) -> list[StoredRecord]:
        found = map(self.read_record, reversed(self._offsets_by_key.get((topic, key), []) if key else []))
        kept = (stored for stored in found if anywhere or self._is_in(stored, topic))
        return list(islice(kept, max(0, limit)))

    def _is_in(self, stored: StoredRecord, topic: str) -> bool:
        return stored.stamp is not None and self.state.topics[stored.stamp.topic_id].name == topic

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        records = self._queues[key]
        position = bisect_left(records, store_timestamp, key=lambda record: int.from_bytes(record[32:40], "big"))
        return self.state.end_offsets.get(key, 0) - len(records) + position

    def load_timers(self, until: int) -> None:
        self.timers.load(until)

    def are_timers_pending(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        return self.timers.live_among(delay_times, pendings)

    def timers_after(self, after: tuple[int, int], until: int, limit: int) -> list[Timer]:
        return self.timers.page(after, until, limit)

    def change_timers(self, decide: Callable[[], Sequence[Control]]) -> None:
        for control in decide():
            self.append_control(control)

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        return [self._records[timer.pending] for timer in timers]

    def read_pending_if_cached(self, timers: Sequence[Timer]) -> list[bytes] | None:
        return self.read_pending(timers)

    def close(self) -> None:
        """Refuse further appends."""
        self._closed = True
