"""The write path of a store: one batch goes to the log, then to the queues, state and timers."""

from __future__ import annotations

from array import array

from litemq.format import native
from litemq.format.batches.producer_runs import ProducerRuns
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import Batch, control_batch, record_sequences, stamp
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID
from litemq.storage.store import Appended, Sent
from litemq.storage.store_parts import StoreParts

__all__ = ["StoreWriter"]


class StoreWriter:
    """The only writer of an open store's log."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def write(self, batch: Batch, *, from_reserve: bool) -> Appended:
        """Stamp ``batch`` and write it. The caller holds ``writing``.

        If ``from_reserve``, the log may take a reserved segment on a full disk. If an interrupt
        leaves the batch in the log but not in every projection, the log fails: another write would
        assign an offset twice.
        """
        parts = self._parts
        parts.check_writes()
        log, files, state, changes = parts.log, parts.files, parts.state, parts.changes
        columns, sizes = batch.columns, batch.columns.sizes
        offsets = log.allocate(sizes)
        time = parts.log_clock.wall_ms()
        stamped = stamp(batch, state, offsets, time, files.epoch.number)
        before = log.end
        try:
            dirty = log.write(columns.buffer, columns.starts, sizes, offsets, from_reserve=from_reserve)
            files.store_timestamp = time
            end = log.end
            for key, first, end_offset, entries in stamped.queues:
                self._extend_queue(key, first, end_offset, entries)
            changes.add_sequences(end, record_sequences(batch, state, stamped, time))
            if not batch.is_plain:
                for _, event in numbered_events(columns, offsets):
                    parts.timers.place(event, was_half=state.parts.was_half(event))
                    changes.add_event(end, state.place(event))
            parts.on_written(dirty)
        except BaseException:
            if log.end != before:
                log.fail("a write was interrupted")
            raise
        return Appended(offsets, stamped.queue_offsets, time, end)

    def write_sends(
        self, batch: bytearray, topic_id: int, queue_ids: list[int], max_record_bytes: int, *, is_wanted: bool
    ) -> Sent | None:
        """Check and stamp what producers sent, and write it as ``write`` does.

        Return ``None``, without a change, if it is not certainly valid, or needs a new segment.
        """
        parts = self._parts
        parts.check_writes()
        log, files, state, changes = parts.log, parts.files, parts.state, parts.changes
        topic = state.topics.get(topic_id)
        if topic is None or topic.deleted or topic_id < FIRST_FREE_TOPIC_ID or not native.enabled:
            return None
        before = log.end
        if not log.fits(len(batch)):
            return None
        time = parts.log_clock.wall_ms()
        stamped = native.loops.stamp_sends(
            batch,
            topic.name.encode(),
            topic_id,
            topic.queues,
            queue_ids,
            state.end_offsets,
            max_record_bytes,
            before,
            time,
            files.epoch.number,
        )
        if stamped is None:
            return None
        queue_offsets, grown, (runs, table) = stamped
        try:
            segment = log.append(batch)
            files.store_timestamp = time
            end = log.end
            for queue_id, first, end_offset, entries in grown:
                self._extend_queue(QueueKey(topic_id, queue_id), first, end_offset, entries)
            producers = state.producers
            touched = producers.add_runs(ProducerRuns(runs, array("q", table))) + producers.expire(time)
            changes.add_sequences(end, touched)
            parts.on_written([segment], is_wanted=is_wanted)
        except BaseException:
            if log.end != before:
                log.fail("a write was interrupted")
            raise
        return Sent(queue_offsets, time, end)

    def _extend_queue(self, key: QueueKey, first: int, end_offset: int, entries: bytes) -> None:
        """Add the entries of written records to their queue, which grows to ``end_offset``."""
        parts = self._parts
        parts.queues.add_raw(key, first, entries)
        parts.state.extend_queue(key, end_offset)
        parts.changes.add_queue_range(parts.log.end, key, end_offset)

    def append_control(self, control: Control) -> Appended:
        """Write ``control`` to the log, then apply it to the state and the timers."""
        parts = self._parts
        with parts.writing:
            appended = self.write(control_batch(control, parts.clock.wall_ms()), from_reserve=True)
            parts.changes.add_control(appended.end, control, parts.state.apply(control))
            parts.timers.apply(control, int(appended.log_offsets[0]))
            if parts.is_replica:
                parts.marks.note(control, int(appended.log_offsets[0]), appended.end)
            return appended
