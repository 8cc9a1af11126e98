"""The store on disk: the implementation of ``Store`` over a data directory.

Every change goes to the log first. The queues, the key index, the timers and ``state.db`` are
projections of the log, which the maintenance thread writes. ``DiskStore`` appends, and delegates
reading, copying of halves and maintenance to classes that share the ``StoreParts``.
See README.md in this package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, LiteMQError
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import (
    Placed,
    commit_control,
    creation_control,
    deletion_control,
    placed_batch,
    sent_batch,
)
from litemq.storage.batches.half_batches import DecidedHalves, check_half_sequence, decision_controls, half_batch
from litemq.storage.batches.producer_halves import producers_batch, transactions_batch
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.half_copier import HalfCopier
from litemq.storage.log.flush import OnFlushed
from litemq.storage.maintenance import Maintenance
from litemq.storage.opening import open_parts
from litemq.storage.reading import StoreReader
from litemq.storage.state import NO_SETTINGS, QueueKey, Topic, TopicSettings
from litemq.storage.state.topics import system_topic_queues
from litemq.storage.store import Appended, Decide, Longs, QueueReads, Sent
from litemq.storage.store_parts import WRITE_BEHIND_S, StoreParts
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import TimerStore
from litemq.storage.writing import StoreWriter
from litemq.types import StoredRecord

__all__ = ["Appended", "DiskStore"]


class DiskStore:
    """A data directory, open for writing by this process alone.

    Any thread may call; appends take turns.
    """

    def __init__(
        self,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        *,
        disk: Disk = DISK,
        host: str | None = None,
        broker_name: str = "",
        on_replayed: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Open a data directory.

        Report progress with ``on_replayed(done, total)``, in bytes of the log. ``broker_name`` is
        stored in ``topics.json``, for programs that read the directory without a broker.
        """
        self._clock = clock
        self._sent_limits = config.sent_limits
        self._open(
            partial(
                open_parts,
                directory,
                config,
                clock,
                disk=disk,
                host=host,
                broker_name=broker_name,
                on_replayed=on_replayed,
            )
        )

    def _open(self, open_directory: Callable[..., StoreParts]) -> None:
        self._parts = open_directory()
        self.state = self._parts.state
        self._log = self._parts.log
        self._flusher = self._parts.flusher
        self._confirmation = self._parts.confirmation
        self._writing = self._parts.writing
        self._writer = StoreWriter(self._parts)
        self._write = self._writer.write
        self._reader = StoreReader(self._parts)
        self.for_consumers: QueueReads = self._reader.for_consumers
        self._halves = HalfCopier(self._parts, self._writer, self._reader)
        self._maintenance = Maintenance(self._parts, self._writer, self._reader, self._halves)
        self._maintenance.start()

    def abandon(self) -> None:
        """Release the directory as a crash would: the next opening recovers."""
        self._stop_threads()
        self._parts.state_writer.close()
        self._parts.files.abandon()

    def close(self) -> None:
        """Stop cleanly: the next opening has nothing to recover."""
        self._stop_threads()
        try:
            if self._log.failure is None:
                self._write_last_snapshot()
                self.checkpoint(max_seconds=10 * WRITE_BEHIND_S)
        finally:
            self._parts.state_writer.close()
            self._parts.files.close()

    def _write_last_snapshot(self) -> None:
        self.snapshot()

    def _stop_threads(self) -> None:
        self._log.on_failure = lambda _reason: None
        with self._parts.maintaining:  # wait for a load of timers in progress; no other begins
            self._parts.is_closed = True
        self._maintenance.stop()
        self._reader.close()

    def on_failure(self, call: Callable[[str], object]) -> None:
        """Call ``call(reason)``, from any thread, if writing stops for good before ``close``."""
        self._log.on_failure = call
        if self._log.failure is not None:
            call(self._log.failure)

    # Facts ---------------------------------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        """The offset below which everything is durable. Reads never go beyond it."""
        return self._confirmation.offset

    @property
    def flushed_offset(self) -> int:
        """The offset below which everything is on this disk."""
        return self._flusher.flushed

    @property
    def log_clock(self) -> Clock:
        """The time of records. It continues from the last record."""
        return self._parts.log_clock

    @property
    def is_replicated(self) -> bool:
        """Whether a replicated group decides what is confirmed."""
        return False

    @property
    def replica_refusal(self) -> LiteMQError | None:
        """Why records of durability ``replicas`` are refused now; ``None``: they are not."""
        return None

    @property
    def in_sync(self) -> int:
        """How many replicas have on their disks what is confirmed now; without replicas, 1."""
        return 1

    @property
    def not_in_sync(self) -> str:
        """The names of the group's other replicas, for messages."""
        return ""

    @property
    def lease_refusal(self) -> LiteMQError | None:
        """Why this master may not acknowledge records that it has; ``None``: it may."""
        return None

    @property
    def write_failure(self) -> str | None:
        """Why writing has stopped for good, or ``None``."""
        return self._log.failure

    @property
    def log_end(self) -> int:
        """The log offset of the next record."""
        return self._log.end

    @property
    def epoch(self) -> int:
        """A number that rises whenever the log is opened."""
        return self._parts.files.epoch.number

    @property
    def kept_from(self) -> int:
        """The log offset that retention cuts the log at: records before it go, or are gone."""
        return self._parts.kept_from

    def atomically(self) -> AbstractContextManager[object]:
        """Let no other thread append meanwhile, so that a decision and its record are one step."""
        return self._writing

    @property
    def log_bytes(self) -> int:
        """The size of the retained log in bytes."""
        return self._log.end - self._log.start

    @property
    def damage(self) -> list[CorruptStoreError]:
        """Damaged records found since the store was opened."""
        return self._parts.damage.errors()

    @property
    def damaged_offsets(self) -> int:
        """The number of queue offsets whose record is damaged. 0 until the queues are rebuilt."""
        return len(self._parts.queues.holes)

    # Messages ------------------------------------------------------------------------------------

    def append(
        self,
        batch: bytearray,
        topic_id: int,
        queue_ids: Longs | int,
        *,
        held_after: int | None = None,
    ) -> Appended:
        """Validate, stamp and append the records that producers sent, in place.

        If it raises, no record is written. A message due later than ``held_after`` (ms) becomes a
        timer, and its queue offset in the answer is -1.
        """
        self._parts.check_accepts()
        sent = sent_batch(self.state, batch, topic_id, queue_ids, self._sent_limits, held_after)
        with self._writing:
            return self._write(sent, from_reserve=False)

    def append_sends(self, batch: bytearray, topic_id: int, queue_ids: list[int], *, is_wanted: bool = False) -> Sent:
        """Append up to ``MAX_SENDS`` records as ``append`` does; each has its queue.

        If the caller waits for their confirmation (``is_wanted``), the sync begins at once.
        """
        self._parts.check_accepts()
        with self._writing:
            sent = self._writer.write_sends(
                batch, topic_id, queue_ids, self._sent_limits.max_record_bytes, is_wanted=is_wanted
            )
        if sent is not None:
            return sent
        return self.append(batch, topic_id, np.array(queue_ids)).sent  # it explains what is wrong

    def append_placed(self, placed: Sequence[Placed]) -> Appended:
        """Append the broker's own records to any queues, in one write.

        A nearly full disk does not refuse them.
        """
        with self._writing:
            self.timers.check_fired(placed)
            return self._write(placed_batch(self.state, placed), from_reserve=True)

    # Transactions --------------------------------------------------------------------------------

    def append_halves(self, batch: bytearray, topic_id: int, queue_id: int, transaction: str, first: int) -> Appended:
        """Append halves of ``transaction`` for a queue.

        Consumers see none of them until the transaction is decided.
        """
        self._parts.check_accepts()
        halves = half_batch(self.state, batch, topic_id, queue_id, transaction, self._sent_limits)
        with self._writing:
            check_half_sequence(self.state, transaction, QueueKey(topic_id, queue_id), first)
            return self._write(halves, from_reserve=False)

    def commit_sink(self, query: str, batch: int, decide: Decide, plan: bytes = b"") -> Appended:
        """Decide ``batch`` of ``query`` and all batches before it.

        The decision record keeps ``plan``.
        """
        with self._writing:
            *others, decision = decision_controls(self.state, query, batch, decide(self.state), plan)
            for control in others:
                self.append_control(control)
            return self.append_control(decision)

    def read_decided(self, max_bytes: int) -> DecidedHalves | None:
        """Read about ``max_bytes`` of the next halves that are decided and confirmed.

        It may wait for the disk.
        """
        return self._halves.read_decided(max_bytes)

    def append_committed(self, decided: DecidedHalves, held_after: int) -> Appended:
        """Append decided halves to their queues.

        A message due later than ``held_after`` (ms) becomes a timer.
        """
        return self._halves.append(decided, held_after, from_reserve=False)

    def append_producers_halves(self, batch: bytearray, topic_id: int, queue_ids: Longs) -> Appended:
        """Append halves of producers' transactions.

        Consumers see none of them until their transaction is committed.
        """
        self._parts.check_accepts()
        halves = producers_batch(self.state, batch, topic_id, queue_ids, self._sent_limits)
        with self._writing:
            return self._write(halves, from_reserve=False)

    def commit_transactions(self, transactions: Sequence[str], held_after: int) -> Appended:
        """Append the messages of producers' ``transactions`` in one write.

        A message due later than ``held_after`` (ms) becomes a timer.
        """
        with self._writing:  # retention moves halves only under this lock
            committed = transactions_batch(self.state, transactions, self._log.read, held_after)
            return self._write(committed, from_reserve=False)

    # Changes -------------------------------------------------------------------------------------

    def append_control(self, control: Control) -> Appended:
        """Write a change to the log, then apply it."""
        return self._writer.append_control(control)

    def append_numbered(self, make: Callable[[int], Control]) -> Appended:
        """Append the change ``make(log_end)``. No other record is written in between."""
        with self._writing:
            return self.append_control(make(self._log.end))

    def change_timers(self, decide: Callable[[], Sequence[Control]]) -> None:
        """Append the changes of timers that ``decide()`` returns. No other record is in between."""
        with self._writing:
            for control in decide():
                self.append_control(control)

    def system_topic(self, name: str) -> Topic:
        """Return the system topic ``name``, such as ``%RETRY%…``; create it if needed."""
        return self.create_topic(name, system_topic_queues(name))

    def create_topic(self, name: str, queues: int = 4, settings: TopicSettings = NO_SETTINGS) -> Topic:
        """Create a topic with ``queues`` queues. If it exists, return it unchanged."""
        with self._writing:
            there = self.state.topic(name)
            if there is None:
                control = creation_control(self.state, name, queues, settings, now=self._clock.wall_ms())
                self.append_control(control)
                there = self.state.topics[control.topic_created.topic.topic_id]
            return there

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Its messages stay until retention drops their segments."""
        with self._writing:
            self.append_control(deletion_control(self.state, name))

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        """Commit the offsets of ``group`` in some queues, as one record."""
        with self._writing:
            return self.append_control(commit_control(self.state, group, offsets))

    # Confirmation --------------------------------------------------------------------------------

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` may be read."""
        self._confirmation.wait(offset, timeout)

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` may be read."""
        await self._confirmation.confirmed(offset)

    def when_confirmed(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed(None)`` once everything below ``offset`` may be read.

        If the store fails before that, call ``on_confirmed(error)``. Only for the event loop.
        """
        self._confirmation.when_confirmed(offset, on_confirmed)

    def when_replicated(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed`` as ``when_confirmed`` does: there are no replicas."""
        self._confirmation.when_confirmed(offset, on_confirmed)

    def when_received(self, offset: int, on_received: OnFlushed) -> None:
        """Call ``on_received`` as ``when_confirmed`` does: there are no replicas."""
        self._confirmation.when_confirmed(offset, on_received)

    def when_flushed(self, offset: int, on_flushed: OnFlushed) -> None:
        """Call ``on_flushed(None)`` once everything below ``offset`` is on this disk.

        If the store fails before that, call ``on_flushed(error)``. Only for the event loop.
        """
        self._flusher.when_flushed(offset, on_flushed)

    # Reading: ``Store`` describes each call ------------------------------------------------------

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        return self._reader.read_queue(key, first, max_messages, max_bytes)

    def read_if_hot(
        self,
        key: QueueKey,
        first: int,
        max_messages: int,
        max_bytes: int = 1 << 20,
    ) -> bytes | memoryview | None:
        return self._reader.read_if_hot(key, first, max_messages, max_bytes)

    def pull(
        self,
        key: QueueKey,
        first: int,
        max_messages: int,
        max_bytes: int = 1 << 20,
    ) -> Coroutine[Any, Any, bytes | memoryview]:
        return self._reader.pull(key, first, max_messages, max_bytes)

    def readable_end(self, key: QueueKey) -> int:
        return self._reader.readable_end(key)

    def read_entries(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void]:
        return self._reader.read_entries(key, first, limit)

    def read_entries_if_hot(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void] | None:
        return self._reader.read_entries_if_hot(key, first, limit)

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview:
        return self._reader.read_chosen(key, queue_offsets, entries)

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        return self._reader.offset_at_time(key, store_timestamp)

    def is_hot(self, log_offset: int) -> bool:
        return self._reader.is_hot(log_offset)

    def read_raw(self, log_offset: int) -> bytes:
        return self._reader.read_checked(log_offset)[0]

    def read_record(self, log_offset: int) -> StoredRecord:
        return self._reader.read_checked(log_offset)[1]

    def find(self, topic: str, key: str, limit: int = 32, *, anywhere: bool = False) -> list[StoredRecord]:
        return self._reader.find(topic, key, limit, anywhere=anywhere)

    # Timers: ``Store`` describes each call -------------------------------------------------------

    @property
    def timers(self) -> TimerStore:
        return self._parts.timers

    @property
    def timer_bytes_left(self) -> int:
        return self._reader.timer_bytes_left

    def load_timers(self, until: int) -> None:
        self._reader.load_timers(until)

    def are_timers_pending(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        return self._reader.are_timers_pending(delay_times, pendings)

    def timers_after(self, after: tuple[int, int], until: int, limit: int) -> list[Timer]:
        return self._reader.timers_after(after, until, limit)

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        return self._reader.read_pending(timers)

    def read_pending_if_cached(self, timers: Sequence[Timer]) -> list[bytes] | None:
        return self._reader.read_pending_if_cached(timers)

    async def expire_messages(self) -> int | None:
        return await asyncio.get_running_loop().run_in_executor(None, self._maintenance.expire)

    # Maintenance ---------------------------------------------------------------------------------

    def checkpoint(self, *, max_seconds: float = WRITE_BEHIND_S, whole: bool = True) -> None:
        """Make the projections durable up to the confirm offset. See ``Maintenance.checkpoint``."""
        self._maintenance.checkpoint(max_seconds=max_seconds, whole=whole)

    def snapshot(self) -> int:
        """Write the state into the log; return the snapshot's log offset."""
        return self._maintenance.snapshot()

    def retain(self, *, older_than_ms: int | None = None, max_bytes: int | None = None, is_urgent: bool = False) -> int:
        """Drop old segments, and return the log's new start. See ``Maintenance.retain``."""
        return self._maintenance.retain(older_than_ms=older_than_ms, max_bytes=max_bytes, is_urgent=is_urgent)
