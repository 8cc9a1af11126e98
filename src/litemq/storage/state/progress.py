"""How far groups have come: everything below a group's offset in a queue is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from litemq.proto.control_pb2 import Control, GroupOffset, Row
from litemq.storage.state.facts import QueueKey

if TYPE_CHECKING:
    from litemq.storage.state.delivery import PlacedRecord, Touch

__all__ = ["Progress"]


class Progress:
    """The offsets of groups."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, QueueKey], int] = {}

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        if control.WhichOneof("change") != "offsets_committed":
            return []
        touched: list[Touch] = []
        for offset in control.offsets_committed.offsets:
            self._put_offset(offset)
            touched.append(("offset", offset.group, QueueKey(offset.topic_id, offset.queue_id)))
        return touched

    def place(self, _record: PlacedRecord) -> list[Touch]:
        """Take in a record that is no plain message."""
        return []

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("offset", str(group), QueueKey() as key):
                return self._offset_row(group, key)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for group, key in sorted(self.offsets):
            yield self._offset_row(group, key)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("group_offset"):
            return False
        self._put_offset(row.group_offset)
        return True

    def copy(self) -> Progress:
        """As it is now."""
        other = Progress()
        other.offsets = dict(self.offsets)
        return other

    def _put_offset(self, offset: GroupOffset) -> None:
        self.offsets[offset.group, QueueKey(offset.topic_id, offset.queue_id)] = offset.offset

    def _offset_row(self, group: str, key: QueueKey) -> Row:
        return Row(group_offset=GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=self.offsets[group, key]))
