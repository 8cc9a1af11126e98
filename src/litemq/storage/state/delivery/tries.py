"""Failed delivery attempts that wait for their retry, a part of the state.

A waiting attempt is identified by its group and its *predecessor*, the log offset of the record
that failed. It ends with a record whose origin is the predecessor: a retry (kind 5) in the group's
retry topic, or a dead letter of the group. If retention carries the failed record forward, the copy
becomes the predecessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from litemq.proto.control_pb2 import Control, Row, TryFailed, TryRow
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.types import RecordKind

__all__ = ["Tries", "WaitingTry"]


class WaitingTry(NamedTuple):
    """A failed attempt that waits for its retry."""

    topic_id: int  # of the message
    retry_topic_id: int
    due: int  # ms
    tries: int  # attempts so far


class Tries:
    """All waiting attempts."""

    def __init__(self) -> None:
        # By predecessor and group. A change replaces the inner mapping, which copies share.
        self._waiting: dict[int, Mapping[str, WaitingTry]] = {}
        # Old to new log offsets of carried predecessors, for callers that kept an old one.
        self._moved: dict[int, int] = {}

    def __iter__(self) -> Iterator[tuple[int, str, WaitingTry]]:
        for predecessor, tries in self._waiting.items():
            for group, waiting in tries.items():
                yield predecessor, group, waiting

    def get(self, predecessor: int, group: str) -> WaitingTry | None:
        """Return the waiting attempt of ``group`` after ``predecessor``, or ``None``."""
        return self._waiting.get(predecessor, {}).get(group)

    def before(self, log_offset: int) -> list[tuple[int, str, WaitingTry]]:
        """Return the attempts whose predecessor is before ``log_offset``."""
        predecessors = np.fromiter(self._waiting, np.int64, len(self._waiting))  # there may be millions
        return [
            (predecessor, group, waiting)
            for predecessor in predecessors[predecessors < log_offset].tolist()
            for group, waiting in self._waiting[predecessor].items()
        ]

    def holds(self, predecessor: int) -> bool:
        """Return whether any group waits to retry the record at ``predecessor``."""
        return predecessor in self._waiting

    def moved_to(self, predecessor: int) -> int:
        """Return the current log offset of a predecessor that may have been carried forward."""
        while predecessor in self._moved:
            predecessor = self._moved[predecessor]
        return predecessor

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "lease_tick":
                tick = control.lease_tick
                return [self._wait(tick.group, failed) for failed in tick.failed]
            case "try_failed":
                return [self._wait(control.try_failed.group, control.try_failed)]
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                return [self._end(at, group) for at, group, waiting in list(self) if waiting.topic_id == topic_id]
            case "retention_crossed":  # the others were carried forward; the records of these cannot be read
                return [self._end(at, group) for at, group, _ in self.before(control.retention_crossed.log_start)]
            case "group_changed" if control.group_changed.group.gone:
                gone = control.group_changed.group.group
                return [self._end(at, group) for at, group, _ in list(self) if group == gone]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply a retry, a dead letter, or the copy of a carried predecessor; ignore all others."""
        held = self._waiting.get(record.origin)
        if held is None:
            return []
        match record.kind:
            case RecordKind.RETRY:
                ended = [group for group, waiting in held.items() if waiting.retry_topic_id == record.topic_id]
            case RecordKind.DEAD:
                ended = [group for group in held if group == record.properties.get("litemq-group")]
            case RecordKind.PENDING:
                self._waiting[record.log_offset] = held
                self._moved[record.origin] = record.log_offset
                ended = list(held)
                moved: list[Touch] = [("try", record.log_offset, group) for group in held]
                return moved + [self._end(record.origin, group) for group in ended]
            case _:
                ended = []
        return [self._end(record.origin, group) for group in ended]

    def _wait(self, group: str, failed: TryFailed) -> Touch:
        waiting = WaitingTry(failed.tried_topic_id or failed.topic_id, failed.retry_topic_id, failed.due, failed.count)
        known = self._waiting.get(failed.predecessor)
        if known is None:
            self._waiting[failed.predecessor] = {group: waiting}
        elif group not in known:
            self._waiting[failed.predecessor] = {**known, group: waiting}
        return "try", failed.predecessor, group

    def _end(self, predecessor: int, group: str) -> Touch:
        others = {name: waiting for name, waiting in self._waiting[predecessor].items() if name != group}
        if others:
            self._waiting[predecessor] = others
        else:
            del self._waiting[predecessor]
        return "try", predecessor, group

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("try", int(predecessor), str(group)):
                return self._row(predecessor, group)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for predecessor in sorted(self._waiting):
            for group in sorted(self._waiting[predecessor]):
                yield self._row(predecessor, group)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("waiting_try"):
            return False
        stored = row.waiting_try
        waiting = WaitingTry(stored.topic_id, stored.retry_topic_id, stored.due, stored.count)
        self._waiting[stored.predecessor] = {**self._waiting.get(stored.predecessor, {}), stored.group: waiting}
        return True

    def copy(self) -> Tries:
        """Return an independent copy."""
        other = Tries()
        other._waiting = dict(self._waiting)
        return other

    def _row(self, predecessor: int, group: str) -> Row:
        waiting = self.get(predecessor, group)
        if waiting is None:
            return Row(waiting_try=TryRow(group=group, predecessor=predecessor, gone=True))
        row = TryRow(group=group, predecessor=predecessor, due=waiting.due, count=waiting.tries)
        row.topic_id, row.retry_topic_id = waiting.topic_id, waiting.retry_topic_id
        return Row(waiting_try=row)
