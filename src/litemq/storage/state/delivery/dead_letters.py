"""Dead letters that have not been redriven, dropped or deleted, by queue; a part of the state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from litemq.proto.control_pb2 import Control, DeadRow, Row
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.topics import QueueKey
from litemq.types import RecordKind

__all__ = ["DeadLetters"]

_PAGE: Final = 4096  # queue offsets in one row


class DeadLetters:
    """All current dead letters.

    A message whose origin is a dead letter ends it (a redrive). If retention carries a dead letter
    forward, the copy replaces it.
    """

    def __init__(self) -> None:
        self._positions: dict[int, tuple[QueueKey, int]] = {}  # by log offset
        self._pages: dict[tuple[QueueKey, int], dict[int, int]] = {}  # queue offset -> log offset, rising

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, log_offset: int) -> bool:
        return log_offset in self._positions

    def position(self, log_offset: int) -> tuple[QueueKey, int] | None:
        """Return the queue and the offset of the dead letter at ``log_offset``, or ``None``."""
        return self._positions.get(log_offset)

    def before(self, log_offset: int) -> list[int]:
        """Return the log offsets of the dead letters before ``log_offset``."""
        return [offset for offset in self._positions if offset < log_offset]

    def in_queue(self, key: QueueKey) -> Iterator[tuple[int, int]]:
        """Yield the dead letters of a queue as (queue offset, log offset), oldest first."""
        for page_key in sorted(page_key for page_key in self._pages if page_key[0] == key):
            yield from self._pages[page_key].items()

    def count(self, key: QueueKey) -> int:
        """Return the number of dead letters in a queue."""
        return sum(len(page) for page_key, page in self._pages.items() if page_key[0] == key)

    def after(self, key: QueueKey, log_offset: int, limit: int) -> list[int]:
        """Return the log offsets of up to ``limit`` dead letters of a queue after ``log_offset``.

        The oldest come first.
        """
        found: list[int] = []
        for page_key in sorted(page_key for page_key in self._pages if page_key[0] == key):
            page = self._pages[page_key]
            if next(reversed(page.values())) > log_offset:
                found += [each for each in page.values() if each > log_offset]
                if len(found) >= limit:
                    break
        return found[:limit]

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                gone = [offset for offset, (key, _) in self._positions.items() if key.topic_id == topic_id]
            case "dead_letters_dropped":
                gone = list(accumulate(control.dead_letters_dropped.log_offset_steps))
            case "retention_crossed":
                queues = control.retention_crossed.queues
                gone = [
                    offset
                    for queue in queues
                    for offset in self._below(QueueKey(queue.topic_id, queue.queue_id), queue.least)
                ]
            case _:
                gone = []
        return [touch for offset in gone for touch in self._end(offset)]

    def _below(self, key: QueueKey, end_offset: int) -> list[int]:
        """Return the log offsets of the dead letters below queue offset ``end_offset``."""
        last = end_offset // _PAGE
        pages = [page for (queue, number), page in self._pages.items() if queue == key and number <= last]
        return [log_offset for page in pages for queue_offset, log_offset in page.items() if queue_offset < end_offset]

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply a record that is a dead letter or the redrive of one; ignore all others."""
        touched = self._end(record.origin) if record.kind in {RecordKind.DEAD, RecordKind.MESSAGE} else []
        if record.kind is RecordKind.DEAD:
            key = QueueKey(record.topic_id, record.queue_id)
            self._put(key, record.queue_offset, record.log_offset)
            touched.append(("dead", key, record.queue_offset // _PAGE))
        return touched

    def _end(self, log_offset: int) -> list[Touch]:
        """Forget the dead letter at ``log_offset``, if there is one."""
        position = self._positions.pop(log_offset, None)
        if position is None:
            return []
        key, offset = position
        page = offset // _PAGE
        del self._pages[key, page][offset]
        if not self._pages[key, page]:
            del self._pages[key, page]
        return [("dead", key, page)]

    def _put(self, key: QueueKey, queue_offset: int, log_offset: int) -> None:
        self._positions[log_offset] = key, queue_offset
        self._pages.setdefault((key, queue_offset // _PAGE), {})[queue_offset] = log_offset

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("dead", QueueKey() as key, int(page)):
                return self._row(key, page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for key, page in sorted(self._pages):
            yield self._row(key, page)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("dead_letters"):
            return False
        page = row.dead_letters
        key = QueueKey(page.topic_id, page.queue_id)
        queue_offsets, log_offsets = accumulate(page.queue_offset_steps), accumulate(page.log_offset_steps)
        for queue_offset, log_offset in zip(queue_offsets, log_offsets, strict=True):
            self._put(key, queue_offset, log_offset)
        return True

    def copy(self) -> DeadLetters:
        """Return an independent copy."""
        other = DeadLetters()
        other._positions = dict(self._positions)
        other._pages = {page_key: dict(page) for page_key, page in self._pages.items()}
        return other

    def _row(self, key: QueueKey, page: int) -> Row:
        dead_letters = self._pages.get((key, page), {})
        row = DeadRow(topic_id=key.topic_id, queue_id=key.queue_id, page=page)
        row.queue_offset_steps.extend(_steps(list(dead_letters)))
        row.log_offset_steps.extend(_steps(list(dead_letters.values())))
        return Row(dead_letters=row)


def _steps(numbers: list[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *numbers])]
