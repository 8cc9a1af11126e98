"""The dead letters that were not sent on: which ones there are, by queue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from litemq.proto.control_pb2 import Control, DeadRow, Row
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.topics import QueueKey
from litemq.types import RecordKind

__all__ = ["DeadLetters"]

_PAGE: Final = 4096  # queue offsets of which one row tells


class DeadLetters:
    """All that live. A message with a dead letter as its origin ends it; a dead letter that is carried forward takes its place."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[QueueKey, int]] = {}  # by log offset
        self._pages: dict[tuple[QueueKey, int], dict[int, int]] = {}  # queue offset -> log offset, rising

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, log_offset: int) -> bool:
        return log_offset in self._places

    def place_of(self, log_offset: int) -> tuple[QueueKey, int] | None:
        """The queue and the queue offset of a dead letter that lives."""
        return self._places.get(log_offset)

    def before(self, log_offset: int) -> list[int]:
        """Those that stand before a log offset."""
        return [offset for offset in self._places if offset < log_offset]

    def of_queue(self, key: QueueKey) -> Iterator[tuple[int, int]]:
        """The dead letters of a queue as (queue offset, log offset), oldest first."""
        for place in sorted(place for place in self._pages if place[0] == key):
            yield from self._pages[place].items()

    def count(self, key: QueueKey) -> int:
        """How many live in a queue."""
        return sum(len(page) for place, page in self._pages.items() if place[0] == key)

    def after(self, key: QueueKey, log_offset: int, most: int) -> list[int]:
        """Up to so many of a queue behind a log offset, by their log offsets, oldest first."""
        found: list[int] = []
        for place in sorted(place for place in self._pages if place[0] == key):
            page = self._pages[place]
            if next(reversed(page.values())) > log_offset:
                found += [each for each in page.values() if each > log_offset]
                if len(found) >= most:
                    break
        return found[:most]

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                gone = [offset for offset, (key, _) in self._places.items() if key.topic_id == topic_id]
            case "dead_letters_dropped":
                gone = list(accumulate(control.dead_letters_dropped.log_offset_steps))
            case "retention_crossed":
                queues = control.retention_crossed.queues
                gone = [offset for queue in queues for offset in self._below(QueueKey(queue.topic_id, queue.queue_id), queue.least)]
            case _:
                gone = []
        return [touch for offset in gone for touch in self._end(offset)]

    def _below(self, key: QueueKey, least: int) -> list[int]:
        """The dead letters of a queue whose queue offsets are below one, by their log offsets."""
        pages = [page for (of, number), page in self._pages.items() if of == key and number <= least // _PAGE]
        return [log_offset for page in pages for queue_offset, log_offset in page.items() if queue_offset < least]

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record that may be a dead letter, or what became of one."""
        touched = self._end(record.origin) if record.kind in {RecordKind.DEAD, RecordKind.MESSAGE} else []
        if record.kind is RecordKind.DEAD:
            key = QueueKey(record.topic_id, record.queue_id)
            self._put(key, record.queue_offset, record.log_offset)
            touched.append(("dead", key, record.queue_offset // _PAGE))
        return touched

    def _end(self, log_offset: int) -> list[Touch]:
        """A dead letter is none any more; nothing happens where it was none."""
        place = self._places.pop(log_offset, None)
        if place is None:
            return []
        key, offset = place
        page = offset // _PAGE
        del self._pages[key, page][offset]
        if not self._pages[key, page]:
            del self._pages[key, page]
        return [("dead", key, page)]

    def _put(self, key: QueueKey, queue_offset: int, log_offset: int) -> None:
        self._places[log_offset] = key, queue_offset
        self._pages.setdefault((key, queue_offset // _PAGE), {})[queue_offset] = log_offset

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("dead", QueueKey() as key, int(page)):
                return self._row(key, page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for key, page in sorted(self._pages):
            yield self._row(key, page)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("dead_letters"):
            return False
        told = row.dead_letters
        key = QueueKey(told.topic_id, told.queue_id)
        for queue_offset, log_offset in zip(accumulate(told.queue_offset_steps), accumulate(told.log_offset_steps), strict=True):
            self._put(key, queue_offset, log_offset)
        return True

    def copy(self) -> DeadLetters:
        """As it is now."""
        other = DeadLetters()
        other._places = dict(self._places)
        other._pages = {place: dict(page) for place, page in self._pages.items()}
        return other

    def _row(self, key: QueueKey, page: int) -> Row:
        letters = self._pages.get((key, page), {})
        row = DeadRow(topic_id=key.topic_id, queue_id=key.queue_id, page=page)
        row.queue_offset_steps.extend(_steps(list(letters)))
        row.log_offset_steps.extend(_steps(list(letters.values())))
        return Row(dead_letters=row)


def _steps(numbers: list[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *numbers])]
