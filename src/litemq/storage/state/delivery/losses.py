"""Losses, a part of the state: the unread messages of each group that retention has deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.proto.control_pb2 import Control, GroupLost, Row
from litemq.storage.state.part import Touch
from litemq.storage.state.topics import QueueKey

__all__ = ["NO_LOSS", "Loss", "Losses"]


class Loss(NamedTuple):
    """The messages of a queue that a group has lost, and when it lost the last of them (ms)."""

    messages: int
    at: int


NO_LOSS = Loss(0, 0)


class Losses:
    """The losses by group and queue, until the group or the topic is deleted."""

    def __init__(self) -> None:
        self._losses: dict[tuple[str, QueueKey], Loss] = {}

    def of(self, group: str, key: QueueKey) -> Loss:
        """Return what ``group`` has lost in a queue."""
        return self._losses.get((group, key), NO_LOSS)

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "retention_crossed":
                crossed = control.retention_crossed
                touched: list[Touch] = []
                for loss in crossed.losses:
                    key = QueueKey(loss.topic_id, loss.queue_id)
                    # Records of earlier versions have no count.
                    messages = loss.messages or loss.to_offset - loss.from_offset
                    self._losses[loss.group, key] = Loss(self.of(loss.group, key).messages + messages, crossed.at)
                    touched.append(("loss", loss.group, key))
                return touched
            case "group_changed" if control.group_changed.group.gone:
                group = control.group_changed.group.group
                return self._forget([each for each in self._losses if each[0] == group])
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                return self._forget([each for each in self._losses if each[1].topic_id == topic_id])
            case _:
                return []

    def _forget(self, keys: list[tuple[str, QueueKey]]) -> list[Touch]:
        for each in keys:
            del self._losses[each]
        return [("loss", *each) for each in keys]

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("loss", str(group), QueueKey() as key):
                return self._row(group, key)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for group, key in sorted(self._losses):
            yield self._row(group, key)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("group_lost"):
            return False
        lost = row.group_lost
        self._losses[lost.group, QueueKey(lost.topic_id, lost.queue_id)] = Loss(lost.messages, lost.at)
        return True

    def copy(self) -> Losses:
        """Return an independent copy."""
        other = Losses()
        other._losses = dict(self._losses)
        return other

    def _row(self, group: str, key: QueueKey) -> Row:
        messages, at = self.of(group, key)
        return Row(
            group_lost=GroupLost(group=group, topic_id=key.topic_id, queue_id=key.queue_id, messages=messages, at=at)
        )
