"""The store on disk: one log, and what is derived from it, behind a few calls.

Everything that changes is a record in the log first. Queues, index and ``state.db`` follow behind, written by a thread of their own; what
is known besides messages is in memory, and comes back after a stop from ``state.db``, or else from the latest snapshot in the log, and
the records behind it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, DiskFullError, InvalidArgumentError, OffsetOutOfRangeError, RecordFormatError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES, decode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import (
    Batch,
    Placed,
    commit_of,
    control_batch,
    creation_of,
    deletion_of,
    placed_batch,
    sent_batch,
    stamp,
    took,
)
from litemq.storage.batches.half_batches import (
    DecidedHalves,
    Upcoming,
    check_first,
    check_upcoming,
    committed_batch,
    decision_of,
    half_batch,
    read_halves,
    rollbacks_of,
    skip_of,
    upcoming_halves,
)
from litemq.storage.batches.producer_halves import producers_batch, transactions_batch
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.index.finder import Finder
from litemq.storage.index.key_indexes import KeyIndexes
from litemq.storage.log.flush import Told
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.log.reader import Window, read_log
from litemq.storage.maintenance_thread import Keeper
from litemq.storage.projections.replay import (
    QueueRebuild,
    find_snapshot,
    read_snapshot,
    replay_into_queues,
    replay_into_state,
    replay_into_timers,
)
from litemq.storage.projections.snapshot import snapshot_begin, snapshot_rest
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.queues.queue_reader import DamagedQueueError, QueueReader
from litemq.storage.queues.queues import Queues
from litemq.storage.retention.archive_gate import ArchiveGate, lost_to_archives
from litemq.storage.retention.carry_forward import carry_halves, carry_letters, carry_timers, carry_tries
from litemq.storage.retention.retention import crossing_record, first_segment_to_keep, least_offsets_after
from litemq.storage.state import NO_SETTINGS, QueueKey, State, TopicFacts, TopicSettings
from litemq.storage.state.persistence.state_writer import StateKeeper
from litemq.storage.state.topics import queues_of_system_topic
from litemq.storage.store import Appended, Decide
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import HeldTimers
from litemq.types import StoredRecord

__all__ = ["Appended", "DiskStore"]

Longs = npt.NDArray[np.int64]
T = TypeVar("T")

_STORE_TIMESTAMP: Final = slice(32, 40)
_COLD_READERS: Final = 2  # more of them wait for each other and for the interpreter, and keep the event loop from it
_COLD_NICENESS: Final = 10
_COPIED_AT_ONCE: Final = 4 << 20
_STATE_INTERVAL_S: Final = 0.2
_RETENTION_INTERVAL_S: Final = 60
_WRITE_BEHIND_S: Final = 0.3  # of each second; a hundred thousand queues take some seconds, during which the log knows better
_PAUSE_S: Final = 0.0005
_LOADED_AHEAD_MS: Final = 180_000  # of timers, while nobody else can load them: more than a broker wants to have
_REPLAYED_AT_ONCE: Final = 1 << 30  # bytes of log whose queue entries wait in memory while it is read again
_LOG = logging.getLogger(__name__)


class DiskStore:
    """A data directory, open for writing by this process alone. Any thread may call; appends take turns."""

    def __init__(
        self,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        *,
        disk: Disk = DISK,
        host: str | None = None,
        broker_name: str = "",
        replayed: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Open a data directory. ``replayed`` is told how many bytes of the log were read again, and of how many.

        ``broker_name`` is for those who read the directory by themselves: a queue is that of a broker.
        """
        self._config = config
        self._clock = clock
        self._disk = disk
        self._directory = directory
        self._writing = threading.RLock()
        self._keeping = threading.RLock()  # held by whoever writes what is derived from the log
        self._is_closed = False
        self._refused: str | None = None
        self._damage: dict[int, CorruptStoreError] = {}  # damaged records that were come across, by log offset
        self._keeper: Keeper | None = None
        self._files = LogDirectory(directory, config, clock, disk=disk, host=host)
        self._log = self._files.log
        with ExitStack() as undo:
            undo.callback(self._files.abandon)
            disk.make_directory(directory / "consumequeue")
            self._state_keeper = StateKeeper(disk, directory, clock, broker_name=broker_name)
            undo.callback(self._state_keeper.close)
            self.state, as_of, anew = self._load_state()
            self._snapshot_at = max(0, self._files.projections.snapshot)
            self._changes = self._state_keeper.follow(self.state, as_of, anew=anew)
            self._queues = self._new_queues()
            self._reader = QueueReader(self._log, self._queues, lambda: self.confirm_offset, directory / "consumequeue")
            index = KeyIndexes(disk, directory / "index", slots=config.index_slots, capacity=config.index_entries)
            written_from = self._files.epoch.start_offset
            self._finder = Finder(self._log, index, self.state, clock, self.read_record, written_from=written_from)
            self.timers, timers_applied = self._open_timers()
            self._replay(as_of, self._files.projections.queues_applied, timers_applied, replayed)
            undo.pop_all()
        self._archive_gate = ArchiveGate(self._log, self.state, clock, config.archive_wait_ms, self.read_entries)
        self._cold = ThreadPoolExecutor(_COLD_READERS, thread_name_prefix="litemq-cold-read", initializer=_give_way)
        self._checkpoint_at = self._retention_at = self._now()
        if config.checkpoint_interval_ms:
            self._keeper = Keeper(self._keep, min(_STATE_INTERVAL_S, config.checkpoint_interval_ms / 1000))

    # Opening ------------------------------------------------------------------------------------------------------------------

    def _load_state(self) -> tuple[State, int, bool]:
        """The state as it is stored, the log offset from which on records must be applied to it, and whether the database must be made anew."""
        stored = self._state_keeper.stored
        if stored is not None and self._log.start <= stored.applied <= self._log.end:
            return State.from_rows(stored.rows), stored.applied, False
        begin = self._files.projections.snapshot
        if begin < 0 and self._log.start > 0:
            begin = find_snapshot(self._log, self._log.start, self._log.end)  # the checkpoint is lost, and so is the log's beginning
            if begin < 0:
                raise CorruptStoreError(str(self._directory / "checkpoint"), 0, "the log's beginning is gone, and it holds no snapshot")
            self._files.projections = self._files.projections._replace(snapshot=begin)
        if begin < 0:
            return State(), 0, True
        return *read_snapshot(self._log, begin, self._log.end), True

    def _corrupt(self, log_offset: int, reason: str) -> CorruptStoreError:
        segment = self._log.segment_of(log_offset)
        return CorruptStoreError(str(segment.file.path), log_offset - segment.start, reason)

    def _note_damage(self, error: CorruptStoreError) -> None:
        offset = _log_offset(error)
        if offset not in self._damage:
            self._damage[offset] = error
            _LOG.error("%s; the other records are read without it", error)

    def _new_queues(self) -> Queues:
        return Queues(QueueFiles(self._disk, self._directory / "consumequeue"), self.state)

    def _open_timers(self) -> tuple[HeldTimers, int]:
        """The timers that are in their files, and the log offset from which on records must be told to them."""
        files = BucketFiles(self._disk, self._directory / "timers")
        if files.applied is not None:
            applied = max(files.applied, self._files.projections.timers_applied)
            if self._log.start <= applied <= self._log.end:
                return HeldTimers(files), applied
            files.clear()
        return HeldTimers(files), self._log.start

    def _replay(self, as_of: int, queues_applied: int, timers_applied: int, replayed: Callable[[int, int], None]) -> None:
        """Apply the records from ``as_of`` on to the state, put those from ``queues_applied`` on into their queues, and tell the timers from
        ``timers_applied`` on.

        Where the queues need the whole log, the key index comes along.
        """
        rebuild = QueueRebuild(self._queues, self.state, self._log.start) if queues_applied <= self._log.start else None

        def damaged(error: CorruptStoreError) -> None:
            if _log_offset(error) >= as_of or (rebuild is None and _log_offset(error) >= queues_applied):
                raise error
            self._note_damage(error)

        begin = written = max(min(as_of, queues_applied, timers_applied), self._log.start)
        for window in read_log(self._log, begin, self._log.end, damaged=damaged):
            offsets = window.columns.starts + window.base
            new = window.columns if int(offsets[0]) >= as_of else window.columns.subset(np.flatnonzero(offsets >= as_of))
            if len(new):
                replay_into_state(Window(window.base, new), self.state, self._changes)
            replay_into_queues(window, queues_applied, rebuild or self._queues)
            replay_into_timers(window, timers_applied, self.timers)
            behind = window.base + int(window.columns.starts[-1] + window.columns.sizes[-1])
            if rebuild is not None:
                self._finder.add(window, behind)
            if behind - written >= _REPLAYED_AT_ONCE:
                written = behind
                self._queues.write_behind(behind, _WRITE_BEHIND_S)
                self.timers.write_behind(behind)
            replayed(behind - begin, self._log.end - begin)
        if rebuild is not None:
            rebuild.end()
        self.timers.know_moved(self.state.delivery.moved_timers, timers_applied)

    # Writing ------------------------------------------------------------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        """Everything below it is safe, and may be read; nothing above it may."""
        return self._files.flusher.flushed

    @property
    def log_end(self) -> int:
        """Where the next record will stand."""
        return self._log.end

    @property
    def log_bytes(self) -> int:
        """How much log is kept."""
        return self._log.end - self._log.start

    @property
    def damage(self) -> list[CorruptStoreError]:
        """The damaged records that were come across since the store was opened."""
        return [self._damage[offset] for offset in sorted(self._damage)]

    @property
    def damaged_places(self) -> int:
        """How many offsets of queues lead to no record, because it is damaged: known once the queues were made anew."""
        return len(self._queues.holes)

    def append(self, batch: bytearray, topic_id: int, queue_ids: Longs | int, *, held_after: int | None = None) -> Appended:
        """Append what producers sent, in place: validated whole, stamped, written. Raises before anything is written, or not at all.

        What is due later than ``held_after`` (ms) becomes a timer, and has the queue offset -1 in the answer.
        """
        if self._refused is not None:
            raise DiskFullError(self._refused)
        sent = sent_batch(self.state, batch, topic_id, queue_ids, self._config.sent_limits, held_after)
        with self._writing:
            return self._write(sent, from_reserve=False)

    def _write(self, batch: Batch, *, from_reserve: bool) -> Appended:
        columns, sizes = batch.columns, batch.columns.sizes
        offsets = self._log.place(sizes)
        time = max(self._clock.wall_ms(), self._files.store_timestamp)
        stamped = stamp(batch, self.state, offsets, time, self._files.epoch.number)
        before = self._log.end
        try:
            dirty = self._log.write(columns.buffer, columns.starts, sizes, offsets, from_reserve=from_reserve)
            self._files.store_timestamp = time
            end = self._log.end
            self._queues.add_batch(stamped.keys, stamped.firsts, stamped.entries, stamped.bounds)
            for key, following in zip(stamped.keys, stamped.nexts, strict=True):
                self.state.placed(key, following)
                self._changes.placed(end, key, following)
            self._changes.took(end, took(batch, self.state, stamped, time))
            if not batch.is_plain:
                for _, event in numbered_events(columns, offsets):
                    self.timers.place(event, was_half=self.state.delivery.was_half(event))
                    self._changes.was_placed(end, self.state.place(event))
            self._files.flusher.written(dirty)
        except BaseException:
            if self._log.end != before:
                # In the log, but perhaps not yet in what is derived from it: going on would give an offset twice.
                self._log.fail("a write was interrupted")
            raise
        return Appended(offsets, stamped.queue_offsets, time, end)

    def append_placed(self, placed: Sequence[Placed]) -> Appended:
        """Append records of the broker's own, in any queues, as one write in this order. They are taken even where the disk is nearly full."""
        with self._writing:
            self.timers.check_fired(placed)
            return self._write(placed_batch(self.state, placed), from_reserve=True)

    def append_halves(self, batch: bytearray, topic_id: int, queue_id: int, transaction: str, first: int) -> Appended:
        """Append what a producer sent for a queue, but so that nobody sees it until its transaction is decided."""
        if self._refused is not None:
            raise DiskFullError(self._refused)
        halves = half_batch(self.state, batch, topic_id, queue_id, transaction, self._config.sent_limits)
        with self._writing:
            check_first(self.state, transaction, QueueKey(topic_id, queue_id), first)
            return self._write(halves, from_reserve=False)

    def commit_sink(self, query: str, batch: int, decide: Decide, plan: bytes = b"") -> Appended:
        """Decide a batch of a query, and all before it; ``plan`` is kept with the decision."""
        with self._writing:
            *others, decision = decision_of(self.state, query, batch, decide(self.state), plan)
            for control in others:
                self.append_control(control)
            return self.append_control(decision)

    def read_decided(self, most_bytes: int) -> DecidedHalves | None:
        """About so many bytes of the next halves that are decided and safe. It may wait for the disk."""
        while True:
            with self._writing:
                upcoming = upcoming_halves(self.state, most_bytes)
            if upcoming is None:
                return None
            try:
                return read_halves(upcoming, self.read_queue)
            except CorruptStoreError as error:
                self._leave_out(upcoming, error)

    def _leave_out(self, upcoming: Upcoming, error: CorruptStoreError) -> None:
        """A half that cannot be read does not hold up the others; the log says that it is left out."""
        with self._writing:
            now = upcoming_halves(self.state, 0)
            if now is not None and (now.transaction, now.runs[0][:5]) == (upcoming.transaction, upcoming.runs[0][:5]):
                _LOG.error("a committed record of transaction %r cannot be read, and is left out: %s", upcoming.transaction, error)
                self.append_control(skip_of(upcoming, str(error)))

    def append_committed(self, decided: DecidedHalves, held_after: int) -> Appended:
        """Append halves that are decided to their queues; those that are due later than ``held_after`` (ms) become timers."""
        return self._append_committed(decided, held_after, from_reserve=False)

    def _append_committed(self, decided: DecidedHalves, held_after: int, *, from_reserve: bool) -> Appended:
        committed = committed_batch(decided, held_after)
        with self._writing:
            check_upcoming(self.state, decided)
            return self._write(committed, from_reserve=from_reserve)

    def append_producers_halves(self, batch: bytearray, topic_id: int, queue_ids: Longs) -> Appended:
        """Append what producers sent to queues of a topic, but so that nobody sees it until its transactions are committed."""
        if self._refused is not None:
            raise DiskFullError(self._refused)
        halves = producers_batch(self.state, batch, topic_id, queue_ids, self._config.sent_limits)
        with self._writing:
            return self._write(halves, from_reserve=False)

    def commit_transactions(self, transactions: Sequence[str], held_after: int) -> Appended:
        """Append the messages of producers' transactions, all in one write; those that are due later than ``held_after`` become timers."""
        with self._writing:  # retention may carry halves elsewhere, and does so only while nobody else writes
            return self._write(transactions_batch(self.state, transactions, self._log.read, held_after), from_reserve=False)

    def append_control(self, control: Control) -> Appended:
        """A change: in the log first, then true."""
        with self._writing:
            appended = self._write(control_batch(control, self._clock.wall_ms()), from_reserve=True)
            self._changes.changed(appended.end, control, self.state.apply(control))
            self.timers.apply(control, int(appended.log_offsets[0]))
            return appended

    def append_numbered(self, make: Callable[[int], Control]) -> Appended:
        """A change that numbers what it begins: it is made while nobody else writes, of where the log ends before it."""
        with self._writing:
            return self.append_control(make(self._log.end))

    def system_topic(self, name: str) -> TopicFacts:
        """A topic for the broker's own use, which is created where it is not there: ``%RETRY%…`` or ``%DLQ%…``."""
        return self.create_topic(name, queues_of_system_topic(name))

    def create_topic(self, name: str, queues: int = 4, settings: TopicSettings = NO_SETTINGS) -> TopicFacts:
        """A new topic with so many queue ids; one that is there already is returned as it is."""
        with self._writing:
            there = self.state.topic(name)
            if there is None:
                control = creation_of(self.state, name, queues, settings, now=self._clock.wall_ms())
                self.append_control(control)
                there = self.state.topics[control.topic_created.topic.topic_id]
            return there

    def delete_topic(self, name: str) -> None:
        """The topic is gone; its messages stay until retention takes them."""
        with self._writing:
            self.append_control(deletion_of(self.state, name))

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        """How far a group has come in some queues: one record."""
        with self._writing:
            return self.append_control(commit_of(self.state, group, offsets))

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` may be read."""
        self._files.flusher.wait(offset, timeout)

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` may be read."""
        await self._files.flusher.wait_flushed(offset)

    def when_confirmed(self, offset: int, told: Told) -> None:
        """On the event loop: call ``told`` with nothing once everything below ``offset`` may be read, or with why that will never be."""
        self._files.flusher.when_flushed(offset, told)

    # Reading ------------------------------------------------------------------------------------------------------------------

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Records of a queue from offset ``first`` on, one behind another as they stand in the log: at least one if there is one.

        Nothing at all means that the queue has nothing confirmed there yet. From any thread; it may wait for the disk.
        """
        self._check_range(key, first)
        try:
            return self._reader.read(key, first, max_messages, max_bytes)
        except DamagedQueueError as error:
            self._heal_queues(key, first, max_messages, error)
            return self._reader.read(key, first, max_messages, max_bytes)
        except CorruptStoreError as error:
            self._note_damage(error)
            raise

    def confirmed_next(self, key: QueueKey) -> int:
        """The offset of a queue's first message that may not be read yet. On the thread that writes."""
        return self._queues.end_below(key, self.confirm_offset)

    def _check_range(self, key: QueueKey, first: int) -> None:
        least, following = self.state.least.get(key, 0), self.state.next.get(key, 0)
        if not least <= first <= following:
            raise OffsetOutOfRangeError(f"offset {first} of queue {key.queue_id}: it has {least} … {following}")

    def read_if_hot(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview | None:
        """The same where it is in memory, so that nobody waits; else ``None``."""
        if first == self.state.next.get(key, 0):
            return b""
        place = self._queues.place_in_memory(key, first)
        return self.read_queue(key, first, max_messages, max_bytes) if place is not None and self._log.is_hot(place) else None

    async def pull(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """The same for an event loop, which is never kept waiting by the disk."""
        hot = self.read_if_hot(key, first, max_messages, max_bytes)
        if hot is not None:
            return hot
        return await asyncio.get_running_loop().run_in_executor(self._cold, self.read_queue, key, first, max_messages, max_bytes)

    def read_entries(self, key: QueueKey, first: int, most: int) -> npt.NDArray[np.void]:
        """Up to so many entries of a queue from offset ``first`` on, whose records may be read. From any thread; it may wait for the disk."""
        self._check_range(key, first)
        try:
            return self._reader.entries(key, first, most, self.confirm_offset)
        except DamagedQueueError as error:
            self._heal_queues(key, first, most, error)
            return self._reader.entries(key, first, most, self.confirm_offset)

    def read_entries_if_hot(self, key: QueueKey, first: int, most: int) -> npt.NDArray[np.void] | None:
        """The same where they are in memory, so that nobody waits; else ``None``."""
        if first == self.state.next.get(key, 0) or self._queues.place_in_memory(key, first) is not None:
            return self.read_entries(key, first, most)
        return None

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview:
        """The records of some entries of a queue, at these rising offsets, one behind another; those before a damaged one come without it.

        From any thread; it may wait for the disk.
        """
        data = self._reader.read_chosen(key, queue_offsets, entries)
        if data is not None:
            return data
        # Something does not fit: each is read by itself, as it would be without choosing.
        found: list[bytes | memoryview] = []
        for offset in queue_offsets.tolist():
            try:
                found.append(self.read_queue(key, offset, 1))
            except CorruptStoreError:
                if not found:
                    raise
                break
        return b"".join(found)

    def read_raw(self, log_offset: int) -> bytes:
        """The bytes of the record that stands at a log offset, whole and verified. From any thread; it may wait for the disk."""
        return self._read_checked(log_offset)[0]

    def is_hot(self, log_offset: int) -> bool:
        """Whether what stands at a log offset is in memory."""
        return self._log.is_hot(log_offset)

    def _heal_queues(self, key: QueueKey, first: int, max_messages: int, error: DamagedQueueError) -> None:
        """The queues are a projection: where they do not lead to their records, or are not there, the log knows better."""
        with self._keeping:
            if (key, first) not in self._queues.holes:
                try:
                    self._reader.read(key, first, max_messages, 1)
                except DamagedQueueError:
                    _LOG.warning("%s; the queues are made anew from the log", error)
                    self._rebuild_queues()
            hole = self._queues.holes.get((key, first))
            if hole is not None:
                # It is one of those that are damaged behind the record before it: most likely the first.
                known = [offset for offset in self._damage if offset >= hole]
                raise self._damage[min(known)] if known else self._corrupt(hole, f"the record at offset {first} is gone") from error

    def _rebuild_queues(self) -> None:
        """Make all queues anew from the log, while the old ones serve; what is whole in them is written over with the same."""
        queues = self._new_queues()
        rebuild = QueueRebuild(queues, self.state, self._log.start)
        reached = self._log.start
        while reached < self.confirm_offset:
            until = self.confirm_offset
            for window in read_log(self._log, reached, until, damaged=self._note_damage):
                replay_into_queues(window, reached, rebuild)
                queues.write_behind(window.base, _WRITE_BEHIND_S)
            reached = until
        with self._writing:
            self.wait_confirmed(self._log.end)
            for window in read_log(self._log, reached, self._log.end, damaged=self._note_damage):
                replay_into_queues(window, reached, rebuild)
            rebuild.end()
            self._queues = self._reader.queues = queues

    def read_record(self, log_offset: int) -> StoredRecord:
        """The record that stands at a log offset."""
        return self._read_checked(log_offset)[1]

    def _read_checked(self, log_offset: int) -> tuple[bytes, StoredRecord]:
        confirmed = self.confirm_offset
        if not self._log.start <= log_offset <= confirmed - FIXED_BYTES or log_offset % 8:
            raise OffsetOutOfRangeError(
                f"no record begins at log offset {log_offset}: it may be read from {self._log.start} to {confirmed}"
            )
        size = int.from_bytes(self._log.read(log_offset, log_offset + 4), "big")
        if log_offset + size > confirmed:
            raise self._corrupt(log_offset, f"a record of {size} bytes reaches beyond what is confirmed")
        raw = bytes(self._log.read(log_offset, log_offset + size))
        try:
            stored = decode_record(raw, limits=STORED_LIMITS)
        except RecordFormatError as error:
            raise self._corrupt(log_offset, str(error)) from error
        if stored.stamp is None or stored.stamp.commitlog_offset != log_offset:
            raise self._corrupt(log_offset, "the record belongs elsewhere")
        return raw, stored

    def find(self, topic: str, key: str, most: int = 32, *, anywhere: bool = False) -> list[StoredRecord]:
        """The messages of a topic that carry a key, or have it as their id, the latest first. It may wait for the disk."""
        return self._finder.find(topic, key, max(0, most), self.confirm_offset, self._note_damage, anywhere=anywhere)

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        """The offset of a queue's first message that was stored at or after a time (ms); the next offset, if there is none yet."""
        low, high = self.state.least.get(key, 0), self.state.next.get(key, 0)
        while low < high:
            middle = (low + high) // 2
            data = self.read_queue(key, middle, 1)
            if data and int.from_bytes(data[_STORE_TIMESTAMP], "big") < store_timestamp:
                low = middle + 1
            else:
                high = middle
        return low

    # Messages that wait for their time ----------------------------------------------------------------------------------------

    @property
    def timer_room(self) -> int:
        """How many more bytes may wait: half of what the log may take at most."""
        budget = self._config.max_log_bytes
        if budget is None:
            budget = int(self._disk.total_bytes(self._directory) * self._config.disk_refuse_percent / 100)
        return max(0, budget // 2 - self.state.delivery.timers.bytes)

    def load_timers(self, until: int) -> None:
        """Bring those that are due before ``until`` (ms) into memory. It may wait for the disk."""
        with self._keeping:
            if self._is_closed:
                return
            self._of_timers(lambda timers: timers.load(until))

    def timers_among(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Which of some timers, with the delay times of their records, still wait. From any thread; it may wait for the disk."""
        with self._keeping:
            return self._of_timers(lambda timers: timers.live_among(delay_times, pendings))

    def timers_after(self, after: tuple[int, int], until: int, most: int) -> list[Timer]:
        """Up to so many timers that wait, in order, behind a due time and a log offset and due before ``until`` (ms).

        From any thread; it may wait for the disk.
        """
        with self._keeping:
            return self._of_timers(lambda timers: timers.page(after, until, most))

    def _of_timers(self, ask: Callable[[HeldTimers], T]) -> T:
        """What the timers say, whose files may be damaged."""
        try:
            return ask(self.timers)
        except CorruptStoreError as error:
            _LOG.warning("%s; the timers are found anew in the log", error)
            self._rebuild_timers()
            return ask(self.timers)

    def change_timers(self, decide: Callable[[], Sequence[Control]]) -> None:
        """Append changes of timers. ``decide`` is called while nobody else writes."""
        with self._writing:
            for control in decide():
                self.append_control(control)

    def _rebuild_timers(self) -> None:
        """Find all timers anew in the log, while nobody writes."""
        files = BucketFiles(self._disk, self._directory / "timers")
        files.clear()
        timers = HeldTimers(files)
        with self._writing:
            self.wait_confirmed(self._log.end)
            for window in read_log(self._log, self._log.start, self._log.end, damaged=self._note_damage):
                replay_into_timers(window, self._log.start, timers)
                timers.write_behind(window.base)
            timers.know_moved(self.state.delivery.moved_timers, self._log.start)
            self.timers = timers

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        """The records of timers, as they are found: whoever appends them anew verifies them. It may wait for the disk."""
        return [bytes(self._log.read(timer.pending, timer.pending + timer.size)) for timer in timers]

    def read_pending_if_there(self, timers: Sequence[Timer]) -> list[bytes] | None:
        """The same where nothing has to come from the disk; else ``None``."""
        records: list[bytes] = []
        for timer in timers:
            record = self._log.read_if_there(timer.pending, timer.pending + timer.size)
            if record is None:
                return None
            records.append(bytes(record))
        return records

    # Looking after itself -----------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.elapsed_ns() / 1e9

    def _keep(self) -> None:
        """What is done in the background, again and again."""
        if self._log.failure is not None:
            return
        now = self._now()
        if now - self._checkpoint_at < self._config.checkpoint_interval_ms / 1000:
            with self._keeping:
                self._state_keeper.commit_in_time(self.confirm_offset)
            return
        self._checkpoint_at = now
        self.checkpoint(whole=False)
        self._watch_the_disk()
        if self._log.end - self._snapshot_at >= self._config.snapshot_every_bytes:
            self.snapshot()
        if now - self._retention_at >= _RETENTION_INTERVAL_S:
            self._retention_at = now
            self._retain_as_configured()

    def _retain_as_configured(self) -> None:
        kept = self._config.retention_ms
        older_than = None if kept is None else self._clock.wall_ms() - kept
        self.retain(older_than_ms=older_than, max_bytes=self._config.max_log_bytes)

    def _watch_the_disk(self) -> None:
        """A disk that fills up: the oldest segments go early; when that is not enough, producers are refused while there is space to say why."""
        used = self._disk.used_fraction(self._directory) * 100
        if used >= self._config.disk_clean_percent or len(self._log.segments) > 1:
            try:
                self._log.reserve.fill()
            except DiskFullError as error:
                _LOG.warning("%s: no segment can be set aside for the broker's own records", error)
        while used >= self._config.disk_clean_percent and len(self._log.segments) > 2:
            before = self._log.start
            if self.retain(max_bytes=self._log.segments[-1].end - self._log.segments[1].start, is_urgent=True) == before:
                break
            _LOG.warning("%s: the disk was %.0f%% full; the oldest segment went before its time", self._directory, used)
            used = self._disk.used_fraction(self._directory) * 100
        if used < self._config.disk_refuse_percent:
            self._refused = None
        elif self._refused is None:
            most = self._config.disk_refuse_percent
            self._refused = f"the disk of {self._directory} is {used:.0f}% full: from {most:g}% on nothing is taken (disk_refuse_percent)"
            awaited = sorted(self._archive_gate.awaited)
            if awaited:
                self._refused += f"; nothing goes before the archive of {', '.join(awaited)} has it (archived: block)"
            _LOG.error("%s", self._refused)

    def checkpoint(self, *, most_seconds: float = _WRITE_BEHIND_S, whole: bool = True) -> None:
        """Make the projections durable as far as the log is, and write down how far that is; not ``whole``: ``state.db`` may be behind."""
        with self._keeping:
            flushed = self.confirm_offset
            applied = self._queues.write_behind(flushed, most_seconds)
            self._finder.index_to(flushed, self._note_damage)
            self.timers.write_behind(flushed)
            (self._state_keeper.commit if whole else self._state_keeper.commit_in_time)(flushed)
            try:
                self._disk.sync_all(self._directory)
            except OSError as error:
                # As with any sync that fails: what is on the disk is no longer known.
                self._log.fail(f"a sync failed: {error}")
                raise
            self.timers.seal(flushed)
            self._log.cool()
            self._files.projections = self._files.projections._replace(
                queues_applied=applied,
                index_applied=self._finder.indexed,
                timers_applied=flushed,
                state_applied=self._state_keeper.applied,
            )
            self._files.checkpoint()

    def snapshot(self) -> int:
        """Write everything that is known into the log; returns where that begins. It counts once it is safe."""
        with self._keeping:
            with self._writing:
                state = self.state.copy()
                begin = int(self.append_control(snapshot_begin(self._log.end)).log_offsets[0])
            # Others write meanwhile: their records come behind ``as_of``, and are applied to the snapshot's rows like all that do.
            for control in snapshot_rest(state.rows(), begin, self._config.max_record_bytes // 2):
                end = self.append_control(control).end
            self.wait_confirmed(end)
            self._snapshot_at = begin
            self._files.projections = self._files.projections._replace(snapshot=begin)
            return begin

    def retain(self, *, older_than_ms: int | None = None, max_bytes: int | None = None, is_urgent: bool = False) -> int:
        """Drop whole segments of which every record was stored before ``older_than_ms``, or which are more than ``max_bytes`` from the end.

        Returns where the log begins afterwards. What goes is said in the log first, and what was known stays known. What archives lack
        stays; where it is urgent, only that of topics which say ``block``.
        """
        with self._keeping:
            log_start = first_segment_to_keep(self._log, older_than_ms, max_bytes)
            if log_start > self._log.start:
                self.wait_confirmed(log_start)
                log_start = self._archive_gate.start(log_start, is_urgent=is_urgent)
            if log_start <= self._log.start:
                return self._log.start
            self._carry_on(log_start)
            least = least_offsets_after(self._log, log_start)
            crossing = crossing_record(self.state, log_start, least)
            self.append_control(crossing)
            for name, count in lost_to_archives(crossing, self.state).items():
                _LOG.warning(
                    "%s: %d messages of %s go that its archive does not have (archived: drop-with-record)", self._directory, count, name
                )
            self.snapshot()
            self._files.log_start = log_start
            self.checkpoint()
            with self._writing:
                self._log.drop_before(log_start)
            self._files.log_start = None
            for key, offset in least.items():
                self._queues.drop_before(key, offset)
            self._finder.drop_before(log_start)
            return self._log.start

    def _carry_on(self, log_start: int) -> None:
        """Append again what is held before a log offset, so that it is not lost when that goes."""
        delivery, damaged = self.state.delivery, self._note_damage
        self._end_halves(log_start)

        def append(place: Callable[[], list[Placed]]) -> None:
            with self._writing:
                placed = place()
                if placed:
                    self._write(placed_batch(self.state, placed), from_reserve=True)
            self._go_on()

        with self._writing:
            halves = delivery.halves.producers_before(log_start)
        for lost in carry_halves(delivery.halves, halves, self._read_checked, damaged, append):
            self.append_control(lost)
        carry_timers(self._log, log_start, self.timers, delivery.timer_batches, damaged, append, self.append_control)
        with self._writing:
            tries, letters = delivery.tries.before(log_start), delivery.dead_letters.before(log_start)
        carry_tries(delivery.tries, tries, self._read_checked, damaged, append)
        dead_since = self._clock.wall_ms() - self._config.dead_letter_retention_ms
        dropped = carry_letters(delivery.dead_letters, letters, dead_since, self._read_checked, damaged, append)
        if dropped is not None:
            self.append_control(dropped)

    def _go_on(self) -> None:
        """Where much is held, carrying it on takes minutes: others write in between, and what is done each second is done."""
        sleep(_PAUSE_S)
        now = self._now()
        if self._keeper is not None and now - self._checkpoint_at >= self._config.checkpoint_interval_ms / 1000:
            self._checkpoint_at = now
            self.timers.load(self._clock.wall_ms() + _LOADED_AHEAD_MS)
            self.checkpoint(whole=False)

    def _end_halves(self, log_start: int) -> None:
        """Halves before a log offset become messages now, if they are decided; if not, nobody will see those of jobs."""
        halves = self.state.delivery.halves
        while not self._is_copied_before(log_start):
            decided = self.read_decided(_COPIED_AT_ONCE)
            if decided is None:
                self.wait_confirmed(self._log.end)
                continue
            try:
                self._append_committed(decided, self._clock.wall_ms(), from_reserve=True)
            except InvalidArgumentError:
                continue  # the broker was faster
        with self._writing:
            for control in rollbacks_of(halves.undecided_before(log_start), "nobody decided them before retention took them"):
                self.append_control(control)

    def _is_copied_before(self, log_offset: int) -> bool:
        with self._writing:
            return self.state.delivery.halves.is_copied_before(log_offset)

    def abandon(self) -> None:
        """Let go as a crash would: nothing is written down, and the next opening recovers."""
        self._stop_threads()
        self._state_keeper.close()
        self._files.abandon()

    def close(self) -> None:
        """Stop cleanly: the next opening has nothing to find out."""
        self._stop_threads()
        try:
            if self._log.failure is None:
                self.snapshot()
                self.checkpoint(most_seconds=10 * _WRITE_BEHIND_S)
        finally:
            self._state_keeper.close()
            self._files.close()

    def _stop_threads(self) -> None:
        with self._keeping:  # whoever loads timers for the broker ends first, and nobody begins
            self._is_closed = True
        if self._keeper is not None:
            self._keeper.stop()
        self._cold.shutdown()


def _give_way() -> None:
    """For a thread that reads what is cold: the event loop comes first. Where threads have no priority of their own, all stay equal."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _COLD_NICENESS)


def _log_offset(error: CorruptStoreError) -> int:
    """Where in the log a segment is damaged."""
    return int(Path(error.path).name) + error.offset
