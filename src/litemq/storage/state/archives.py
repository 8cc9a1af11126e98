"""Archived offset ranges by topic and queue, a part of the state.

Retention may delete messages that are archived; consumers then read them from the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue, Row
from litemq.storage.state.part import Touch
from litemq.storage.state.topics import QueueKey

__all__ = ["Archive", "ArchivedQueue", "Archives"]

_PAGE: Final = 1024  # queues in one row, so that a row stays small


class ArchivedQueue(NamedTuple):
    """The archived offsets of a queue: ``begin`` to ``end``, exclusive."""

    begin: int
    end: int


class Archive(NamedTuple):
    """A topic's archive: its location, the time of its last report (ms), and its queues."""

    location: str
    at: int
    queues: dict[int, ArchivedQueue]

    def page(self, number: int) -> list[int]:
        """Return the ids of the queues in row ``number``."""
        return sorted(queue_id for queue_id in self.queues if queue_id // _PAGE == number)

    @property
    def pages(self) -> set[int]:
        """The numbers of the archive's rows; always includes row 0."""
        return {0, *(queue_id // _PAGE for queue_id in self.queues)}


class Archives:
    """The archives of all topics."""

    def __init__(self) -> None:
        self._topics: dict[int, Archive] = {}

    # Queries --------------------------------------------------------------------------------------

    def topic(self, topic_id: int) -> Archive | None:
        """Return the archive of a topic, or ``None``. The caller must not change it."""
        return self._topics.get(topic_id)

    def queue(self, key: QueueKey) -> ArchivedQueue | None:
        """Return the archived offsets of a queue, or ``None``."""
        archive = self._topics.get(key.topic_id)
        return None if archive is None else archive.queues.get(key.queue_id)

    # Changes --------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "archived_through":
                return self._report(control.archived_through)
            case "topic_deleted":
                gone = self._topics.pop(control.topic_deleted.topic_id, None)
                return [] if gone is None else _touches(control.topic_deleted.topic_id, gone.pages)
            case _:
                return []

    def _report(self, report: ArchivedThrough) -> list[Touch]:
        before = self._topics.get(report.topic_id)
        pages = {0, *(queue.queue_id // _PAGE for queue in report.queues)}
        if before is not None and report.replaces:
            pages |= before.pages
        queues = {} if before is None or report.replaces else before.queues
        for queue in report.queues:
            known = queues.get(queue.queue_id, ArchivedQueue(queue.least, queue.least))
            queues[queue.queue_id] = ArchivedQueue(known.begin, max(known.end, queue.next))
        self._topics[report.topic_id] = Archive(report.location, report.at, queues)
        return _touches(report.topic_id, pages)

    # Rows -----------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("archive", int(topic_id), int(page)):
                return self._row(topic_id, page)
            case _:
                return None

    def _row(self, topic_id: int, page: int) -> Row:
        row = ArchivedThrough(topic_id=topic_id, page=page)
        archive = self._topics.get(topic_id)
        if archive is not None:
            if page == 0:
                row.location, row.at = archive.location, archive.at
            for queue_id in archive.page(page):
                begin, end = archive.queues[queue_id]
                row.queues.append(Queue(topic_id=topic_id, queue_id=queue_id, least=begin, next=end))
        return Row(archived_through=row)

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for topic_id in sorted(self._topics):
            for page in sorted(self._topics[topic_id].pages):
                yield self._row(topic_id, page)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if row.WhichOneof("row") != "archived_through":
            return False
        page = row.archived_through
        archive = self._topics.get(page.topic_id) or Archive("", 0, {})
        if page.page == 0:
            archive = archive._replace(location=page.location, at=page.at)
        archive.queues.update({queue.queue_id: ArchivedQueue(queue.least, queue.next) for queue in page.queues})
        self._topics[page.topic_id] = archive
        return True

    def copy(self) -> Archives:
        """Return an independent copy."""
        other = Archives()
        other._topics = {
            topic_id: archive._replace(queues=dict(archive.queues)) for topic_id, archive in self._topics.items()
        }
        return other


def _touches(topic_id: int, pages: Iterable[int]) -> list[Touch]:
    return [("archive", topic_id, page) for page in sorted(pages)]
