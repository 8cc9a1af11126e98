"""Failed tries that wait for their time: each holds a message for a group, until it is tried again or buried.

A try is known by its group and by its *predecessor*, the log offset of the record that failed. A record with that origin ends it: one of
kind 5 in the group's retry topic, or a dead letter of the group. One that retention carries forward takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.proto.control_pb2 import Control, Row, TryFailed, TryRow
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.types import RecordKind

__all__ = ["Tries", "WaitingTry"]


class WaitingTry(NamedTuple):
    """What is known of a try."""

    topic_id: int  # that the message belongs to
    retry_topic_id: int
    due: int  # ms
    tries: int  # so far


class Tries:
    """All that wait. Changed by records alone."""

    def __init__(self) -> None:
        self._of: dict[int, dict[str, WaitingTry]] = {}  # by predecessor and group
        self._moved: dict[int, int] = {}  # since this was made: for those who remember where a predecessor was

    def __iter__(self) -> Iterator[tuple[int, str, WaitingTry]]:
        for predecessor, tries in self._of.items():
            for group, waiting in tries.items():
                yield predecessor, group, waiting

    def get(self, predecessor: int, group: str) -> WaitingTry | None:
        """The try that waits for a group because of a record, if there is one."""
        return self._of.get(predecessor, {}).get(group)

    def before(self, log_offset: int) -> list[tuple[int, str, WaitingTry]]:
        """Those whose records stand before a log offset."""
        return [each for each in self if each[0] < log_offset]

    def holds(self, predecessor: int) -> bool:
        """Whether anybody waits to try a record again."""
        return predecessor in self._of

    def moved_to(self, predecessor: int) -> int:
        """Where a predecessor stands now."""
        while predecessor in self._moved:
            predecessor = self._moved[predecessor]
        return predecessor

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "lease_tick":
                tick = control.lease_tick
                return [self._wait(tick.group, failed) for failed in tick.failed]
            case "try_failed":
                return [self._wait(control.try_failed.group, control.try_failed)]
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                return [self._end(at, group) for at, group, waiting in list(self) if waiting.topic_id == topic_id]
            case "group_changed" if control.group_changed.group.gone:
                gone = control.group_changed.group.group
                return [self._end(at, group) for at, group, _ in list(self) if group == gone]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record that may be the next try, the dead letter, or the new place of what is tried."""
        held = self._of.get(record.origin)
        if held is None:
            return []
        match record.kind:
            case RecordKind.RETRY:
                ended = [group for group, waiting in held.items() if waiting.retry_topic_id == record.topic_id]
            case RecordKind.DEAD:
                ended = [group for group in held if group == record.properties.get("litemq-group")]
            case RecordKind.PENDING:
                self._of[record.log_offset] = dict(held)
                self._moved[record.origin] = record.log_offset
                ended = list(held)
                moved: list[Touch] = [("try", record.log_offset, group) for group in held]
                return moved + [self._end(record.origin, group) for group in ended]
            case _:
                ended = []
        return [self._end(record.origin, group) for group in ended]

    def _wait(self, group: str, failed: TryFailed) -> Touch:
        waiting = WaitingTry(failed.tried_topic_id or failed.topic_id, failed.retry_topic_id, failed.due, failed.count)
        self._of.setdefault(failed.predecessor, {}).setdefault(group, waiting)
        return "try", failed.predecessor, group

    def _end(self, predecessor: int, group: str) -> Touch:
        tries = self._of[predecessor]
        del tries[group]
        if not tries:
            del self._of[predecessor]
        return "try", predecessor, group

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("try", int(predecessor), str(group)):
                return self._row(predecessor, group)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for predecessor in sorted(self._of):
            for group in sorted(self._of[predecessor]):
                yield self._row(predecessor, group)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("waiting_try"):
            return False
        told = row.waiting_try
        self._of.setdefault(told.predecessor, {})[told.group] = WaitingTry(told.topic_id, told.retry_topic_id, told.due, told.count)
        return True

    def copy(self) -> Tries:
        """As it is now."""
        other = Tries()
        other._of = {predecessor: dict(tries) for predecessor, tries in self._of.items()}
        return other

    def _row(self, predecessor: int, group: str) -> Row:
        waiting = self.get(predecessor, group)
        if waiting is None:
            return Row(waiting_try=TryRow(group=group, predecessor=predecessor, gone=True))
        row = TryRow(group=group, predecessor=predecessor, due=waiting.due, count=waiting.tries)
        row.topic_id, row.retry_topic_id = waiting.topic_id, waiting.retry_topic_id
        return Row(waiting_try=row)
