"""The store on disk: one log, and what is derived from it, behind a few calls.

Everything that changes is a record in the log first. Queues and index follow behind; what is known besides messages (``State``) is in
memory, and comes back after a stop from the latest snapshot in the log and the records behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, InvalidArgumentError, OffsetOutOfRangeError
from litemq.format.check import are_of_topic, check_batch
from litemq.format.columns import RecordColumns
from litemq.format.keys import hash_key
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES, decode_record, encode_record
from litemq.format.stamp import QueueRuns, one_queue_run, queue_entries, queue_runs, stamp_batch
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsCommitted, Topic, TopicCreated, TopicDeleted
from litemq.storage.config import StoreConfig
from litemq.storage.files import DISK, Disk
from litemq.storage.key_indexes import KeyIndexes
from litemq.storage.log_directory import LogDirectory
from litemq.storage.log_reader import read_log
from litemq.storage.queue_files import QueueFiles
from litemq.storage.queues import Queues
from litemq.storage.retention import crossing_record, first_segment_to_keep, least_offsets_after
from litemq.storage.snapshot import SnapshotReader, snapshot_begin, snapshot_rest
from litemq.storage.state import CONTROL_TOPIC, CONTROL_TOPIC_ID, QueueKey, State, TopicFacts
from litemq.types import Record, RecordKind, StoredRecord, check_name

__all__ = ["Appended", "DiskStore"]

Longs = npt.NDArray[np.int64]

_STORE_TIMESTAMP = slice(32, 40)
_LOG = logging.getLogger(__name__)


class Appended(NamedTuple):
    """Where a batch went. It may be read, and is safe, once ``end`` is confirmed."""

    log_offsets: Longs
    queue_offsets: Longs
    store_timestamp: int
    end: int


class DiskStore:
    """A data directory, open for writing by this process alone."""

    def __init__(self, directory: Path, config: StoreConfig, clock: Clock, *, disk: Disk = DISK, host: str | None = None) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk
        self._directory = directory
        self._files = LogDirectory(directory, config, clock, disk=disk, host=host)
        self._log = self._files.log
        try:
            disk.make_directory(directory / "consumequeue")
            self.state, as_of = self._load_state()
            self._queues = Queues(QueueFiles(disk, directory / "consumequeue"), self.state)
            self._replay(as_of, self._files.projections.queues_applied)
            self._index = KeyIndexes(disk, directory / "index", slots=config.index_slots, capacity=config.index_entries)
            self._indexed = max(self._index.resume_at, self._log.start)
        except BaseException:
            self._files.abandon()
            raise

    # Opening ------------------------------------------------------------------------------------------------------------------

    def _load_state(self) -> tuple[State, int]:
        """The state as the latest snapshot tells it, and the log offset from which records must be applied to it."""
        begin = self._files.projections.snapshot
        if begin < 0 and self._log.start > 0:
            begin = self._find_snapshot()  # the checkpoint is lost, and so is the beginning of the log
        if begin < 0:
            return State(), 0
        reader = SnapshotReader(begin)
        for window in read_log(self._log, begin, self._log.end):
            for control in _controls(window.columns, np.arange(len(window.columns))):
                try:
                    rows = reader.take(control)
                except ValueError as error:
                    segment = self._log.segment_of(begin)
                    raise CorruptStoreError(str(segment.file.path), begin - segment.start, str(error)) from None
                if rows is not None and reader.as_of is not None:
                    return State.from_rows(rows), reader.as_of
        segment = self._log.segment_of(begin)
        raise CorruptStoreError(str(segment.file.path), begin - segment.start, "the log ends inside the snapshot")

    def _find_snapshot(self) -> int:
        """Where the latest whole snapshot in the log begins."""
        latest = -1
        for window in read_log(self._log, self._log.start, self._log.end):
            for control in _controls(window.columns, np.arange(len(window.columns))):
                if control.WhichOneof("change") == "snapshot_end" and control.snapshot_end.begin_offset >= self._log.start:
                    latest = control.snapshot_end.begin_offset
        if latest < 0:
            raise CorruptStoreError(str(self._directory / "checkpoint"), 0, "the log's beginning is gone, and it holds no snapshot")
        self._files.projections = self._files.projections._replace(snapshot=latest)
        return latest

    def _replay(self, as_of: int, queues_applied: int) -> None:
        """Apply the records from ``as_of`` on to the state, and put those from ``queues_applied`` on into their queues."""
        begin = max(min(as_of, queues_applied), self._log.start)
        for window in read_log(self._log, begin, self._log.end):
            columns = window.columns
            kinds = columns.header["kind"]
            offsets = columns.starts + window.base
            # Between two control records the order of messages of different queues does not matter; around one it does.
            cuts = [0, *(np.flatnonzero(kinds == RecordKind.CONTROL) + 1).tolist(), len(columns)]
            for first, behind in pairwise(cuts):
                if first < behind:
                    self._replay_run(columns, np.arange(first, behind), offsets, as_of, queues_applied)

    def _replay_run(self, columns: RecordColumns, which: Longs, offsets: Longs, as_of: int, queues_applied: int) -> None:
        header = columns.header[which]
        runs = queue_runs(header["topic_id"].astype(np.int64), header["queue_id"].astype(np.int64))
        part = columns.subset(which)
        entries = queue_entries(part, runs, commitlog_offsets=offsets[which], store_timestamps=header["store_timestamp"])
        queue_offsets = header["queue_offset"].astype(np.int64)[runs.order]
        log_offsets = offsets[which][runs.order]
        for number, key in enumerate(map(QueueKey, runs.topic_ids.tolist(), runs.queue_ids.tolist())):
            mine = slice(int(runs.bounds[number]), int(runs.bounds[number + 1]))
            if int(log_offsets[mine][-1]) >= as_of:
                self.state.placed(key, int(queue_offsets[mine][-1]) + 1)
            new = int(np.searchsorted(log_offsets[mine], queues_applied))
            if new < log_offsets[mine].size:
                self._queues.add(key, int(queue_offsets[mine][new]), entries[mine][new:])
        last = which[-1:]
        if columns.header["kind"][last[0]] == RecordKind.CONTROL and int(offsets[last[0]]) >= as_of:
            for control in _controls(columns, last):
                self.state.apply(control)

    # Writing ------------------------------------------------------------------------------------------------------------------

    @property
    def confirm_offset(self) -> int:
        """Everything below it is safe, and may be read; nothing above it may."""
        return self._files.flusher.flushed

    def append(self, batch: bytearray, topic_id: int, queue_ids: Longs | int) -> Appended:
        """Append what producers sent, in place: validated whole, stamped, written. Raises before anything is written, or not at all."""
        facts = self.state.topics.get(topic_id)
        if facts is None or facts.deleted:
            raise InvalidArgumentError(f"no topic has the number {topic_id}")
        least, most = (queue_ids, queue_ids) if isinstance(queue_ids, int) else (int(queue_ids.min()), int(queue_ids.max()))
        if most >= facts.queues or least < 0:
            raise InvalidArgumentError(f"queue {most}: topic {facts.name!r} has {facts.queues}")
        columns = check_batch(batch, limits=self._config.sent_limits)
        if len(columns) == 0:
            raise InvalidArgumentError("an empty batch")
        if not are_of_topic(columns, facts.name.encode()):
            raise InvalidArgumentError(f"a record in the batch is not of topic {facts.name!r}")
        if isinstance(queue_ids, int):
            runs = one_queue_run(topic_id, queue_ids, len(columns))
        else:
            runs = queue_runs(np.full(len(columns), topic_id), queue_ids)
        return self._write(columns, runs, topic_id, queue_ids, RecordKind.MESSAGE)

    def _write(self, columns: RecordColumns, runs: QueueRuns, topic_id: int, queue_ids: Longs | int, kind: RecordKind) -> Appended:
        sizes = columns.sizes
        offsets = self._log.place(sizes)
        keys = [QueueKey(t, q) for t, q in zip(runs.topic_ids.tolist(), runs.queue_ids.tolist(), strict=True)]
        firsts = np.array([self.state.next.get(key, 0) for key in keys])
        queue_offsets = runs.offsets_from(firsts)
        time = max(self._clock.wall_ms(), self._files.store_timestamp)
        stamp_batch(
            columns,
            commitlog_offsets=offsets,
            queue_offsets=queue_offsets,
            topic_ids=topic_id,
            queue_ids=queue_ids,
            store_timestamp=time,
            epoch=self._files.epoch.number,
            kinds=kind,
        )
        dirty = self._log.write(columns.buffer, columns.starts, sizes, offsets)
        self._files.store_timestamp = time
        entries = queue_entries(columns, runs, commitlog_offsets=offsets, store_timestamps=time)
        self._queues.add_runs(runs, firsts, entries)
        for key, next_offset in zip(keys, (firsts + runs.bounds[1:] - runs.bounds[:-1]).tolist(), strict=True):
            self.state.placed(key, next_offset)
        self._files.flusher.written(dirty)
        return Appended(offsets, queue_offsets, time, self._log.end)

    def _append_control(self, control: Control) -> Appended:
        """A change: in the log first, then true."""
        record = Record(CONTROL_TOPIC, control.SerializeToString(deterministic=True), born_timestamp=self._clock.wall_ms())
        columns = check_batch(bytearray(encode_record(record, limits=STORED_LIMITS)), limits=STORED_LIMITS)
        appended = self._write(columns, one_queue_run(CONTROL_TOPIC_ID, 0, 1), CONTROL_TOPIC_ID, 0, RecordKind.CONTROL)
        self.state.apply(control)
        return appended

    def create_topic(self, name: str, queues: int = 4) -> TopicFacts:
        """A new topic; one that is there already is returned as it is."""
        there = self.state.topic(check_name(name))
        if there is not None:
            return there
        if not 1 <= queues <= 65536:
            raise InvalidArgumentError(f"queues={queues}: choose 1 … 65536")
        topic = Topic(topic_id=self.state.free_topic_id, name=name, queues=queues)
        self._append_control(Control(topic_created=TopicCreated(topic=topic)))
        return self.state.topics[topic.topic_id]

    def delete_topic(self, name: str) -> None:
        there = self.state.topic(name)
        if there is None:
            raise InvalidArgumentError(f"no topic {name!r}")
        self._append_control(Control(topic_deleted=TopicDeleted(topic_id=there.topic_id)))

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        """How far a group has come in some queues: one record."""
        rows = [GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=offset) for key, offset in offsets]
        return self._append_control(Control(offsets_committed=OffsetsCommitted(offsets=rows)))

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` may be read."""
        self._files.flusher.wait(offset, timeout)

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` may be read."""
        await self._files.flusher.wait_flushed(offset)

    # Reading ------------------------------------------------------------------------------------------------------------------

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes:
        """Records of a queue from offset ``first`` on, one behind another as they stand in the log: at least one if there is one.

        Nothing at all means that the queue has nothing confirmed there yet.
        """
        least, following = self.state.least.get(key, 0), self.state.next.get(key, 0)
        if not least <= first <= following:
            raise OffsetOutOfRangeError(f"offset {first} of queue {key.queue_id}: it has {least} … {following}")
        try:
            return self._read_queue(key, first, max_messages, max_bytes)
        except (CorruptStoreError, OffsetOutOfRangeError) as error:
            # The queue is a projection: whatever is wrong with it, the log knows better. If the log is damaged, it says so now.
            _LOG.warning("%s; the queues are made anew from the log", error)
            self._rebuild_queues()
            return self._read_queue(key, first, max_messages, max_bytes)

    def _read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int) -> bytes:
        entries = self._queues.read(key, first, max_messages, self.confirm_offset)
        if entries.size == 0:
            return b""
        sizes = entries["size"].astype(np.int64)
        fitting = max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")))
        offsets, sizes = entries["log_offset"][:fitting].astype(np.int64), sizes[:fitting]
        if int(sizes.min()) < FIXED_BYTES or int((offsets + sizes).max()) > self.confirm_offset or int(offsets.min()) < self._log.start:
            raise CorruptStoreError(str(self._directory / "consumequeue"), first, f"an entry of {key} leads nowhere")
        pieces = zip(offsets.tolist(), sizes.tolist(), strict=True)
        data = b"".join([self._log.view(offset, offset + size) for offset, size in pieces])
        # The record decides: it says itself where it stands, in the log and in its queue.
        starts = np.cumsum(sizes) - sizes
        if len(data) != int(starts[-1] + sizes[-1]):
            raise CorruptStoreError(str(self._directory / "consumequeue"), first, f"an entry of {key} reaches beyond its segment")
        header = RecordColumns(data, starts).header
        wrong = (header["commitlog_offset"] != offsets) | (header["queue_offset"] != np.arange(first, first + starts.size))
        wrong |= (header["topic_id"] != key.topic_id) | (header["queue_id"] != key.queue_id) | (header["size"] != sizes)
        if wrong.any():
            raise CorruptStoreError(
                str(self._directory / "consumequeue"), first + int(wrong.argmax()), f"an entry of {key} does not fit its record"
            )
        return data

    def _rebuild_queues(self) -> None:
        """Make all queues anew from the log; the state stays as it is."""
        self._queues.forget()
        self._replay(self._log.end, self._log.start)
        self._files.projections = self._files.projections._replace(queues_applied=self._log.start)

    def read_record(self, log_offset: int, size: int) -> memoryview:
        """The bytes of one record."""
        if log_offset + size > self.confirm_offset:
            raise OffsetOutOfRangeError(f"log offset {log_offset + size} is not confirmed: the log may be read to {self.confirm_offset}")
        return self._log.view(log_offset, log_offset + size)

    def find(self, topic: str, key: str, most: int = 32) -> list[StoredRecord]:
        """The messages of a topic that carry a key, or have it as their id, the latest first."""
        try:
            return self._find(topic, key, most)
        except CorruptStoreError as error:
            self._index.rebuild(error)
            self._indexed = self._log.start
            return self._find(topic, key, most)

    def _find(self, topic: str, key: str, most: int) -> list[StoredRecord]:
        self._index_to(self.confirm_offset)
        found: list[StoredRecord] = []
        for offset in self._index.find(hash_key(topic, key)):
            if offset < self._log.start or len(found) == most:
                break
            size = int.from_bytes(self._log.view(offset, offset + 4), "big")
            stored = decode_record(self.read_record(offset, size), limits=STORED_LIMITS)
            # The hash only narrows the search: the record decides. What retention has said is gone is gone, even if it is still there.
            place = QueueKey(stored.stamp.topic_id, stored.stamp.queue_id) if stored.stamp is not None else QueueKey(0, 0)
            kept = stored.stamp is not None and stored.stamp.queue_offset >= self.state.least.get(place, 0)
            if kept and stored.record.topic == topic and key in (stored.record.message_id, *stored.record.keys):
                found.append(stored)
        return found

    def _index_to(self, end: int) -> None:
        """Build the key index up to a log offset."""
        if self._indexed < end:
            for window in read_log(self._log, self._indexed, end):
                self._index.add(window.columns, window.base, self._clock.wall_ms())
            self._indexed = end

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

    # Looking after itself -----------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Make the projections durable as far as the log is, and write down how far that is."""
        flushed = self.confirm_offset
        self._queues.write_behind(flushed)
        self._index_to(flushed)
        self._disk.sync_all(self._directory)
        self._files.projections = self._files.projections._replace(queues_applied=flushed)
        self._files.checkpoint()

    def snapshot(self) -> int:
        """Write everything that is known into the log; returns where that begins. It counts once it is safe."""
        rows = list(self.state.rows())
        begin = int(self._append_control(snapshot_begin(self._log.end)).log_offsets[0])
        for control in snapshot_rest(rows, begin, self._config.max_record_bytes // 2):
            self._append_control(control)
        self.wait_confirmed(self._log.end)
        self._files.projections = self._files.projections._replace(snapshot=begin)
        return begin

    def retain(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> int:
        """Drop whole segments of which every record was stored before ``older_than_ms``, or which are more than ``max_bytes`` from the end.

        Returns where the log begins afterwards. What goes is said in the log first, and what was known stays known.
        """
        self.wait_confirmed(self._log.end)
        log_start = first_segment_to_keep(self._log, older_than_ms, max_bytes)
        if log_start <= self._log.start:
            return self._log.start
        least = least_offsets_after(self._log, log_start)
        self._append_control(crossing_record(self.state, log_start, least))
        self.snapshot()
        self.checkpoint()
        self._log.drop_before(log_start)
        for key, offset in least.items():
            self._queues.drop_before(key, offset)
        self._index.drop_before(log_start)
        return self._log.start

    def abandon(self) -> None:
        """Let go as a crash would: nothing is written down, and the next opening recovers."""
        self._files.abandon()

    def close(self) -> None:
        """Stop cleanly: the next opening has nothing to find out."""
        try:
            if self._log.failure is None:
                self.snapshot()
                self.checkpoint()
        finally:
            self._files.close()


def _controls(columns: RecordColumns, which: Longs) -> list[Control]:
    """The control records among some records."""
    found = []
    begins, lengths = columns.part("body")
    for number in which.tolist():
        if columns.header["kind"][number] == RecordKind.CONTROL:
            begin = int(begins[number])
            found.append(Control.FromString(bytes(columns.buffer[begin : begin + int(lengths[number])])))
    return found
