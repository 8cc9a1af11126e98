"""How far the archives of topics have come: what is in them may go here, and is read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue, Row
from litemq.storage.state.part import Touch
from litemq.storage.state.topics import QueueKey

__all__ = ["Archive", "ArchivedQueue", "Archives"]

_PAGE: Final = 1024  # queues of which one row tells: a row stays small, however many there are


class ArchivedQueue(NamedTuple):
    """The offsets of a queue that an archive has: from ``begin`` up to ``next``, which is still to come."""

    begin: int
    next: int


class Archive(NamedTuple):
    """A topic's archive: where it is, when it was last heard of, and what it has."""

    location: str
    at: int
    queues: dict[int, ArchivedQueue]

    def page(self, number: int) -> list[int]:
        """The queues of which a row tells."""
        return sorted(queue_id for queue_id in self.queues if queue_id // _PAGE == number)

    @property
    def pages(self) -> set[int]:
        """The rows that there are: the first is always there."""
        return {0, *(queue_id // _PAGE for queue_id in self.queues)}


class Archives:
    """The archives of all topics. Changed by records alone."""

    def __init__(self) -> None:
        self._topics: dict[int, Archive] = {}

    # Asking -------------------------------------------------------------------------------------------------------------------

    def of_topic(self, topic_id: int) -> Archive | None:
        """The archive of a topic, where one was heard of. Only to be read."""
        return self._topics.get(topic_id)

    def of_queue(self, key: QueueKey) -> ArchivedQueue | None:
        """What the archive has of a queue."""
        archive = self._topics.get(key.topic_id)
        return None if archive is None else archive.queues.get(key.queue_id)

    # Changing -----------------------------------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "archived_through":
                return self._report(control.archived_through)
            case "topic_deleted":
                gone = self._topics.pop(control.topic_deleted.topic_id, None)
                return [] if gone is None else _touches(control.topic_deleted.topic_id, gone.pages)
            case _:
                return []

    def _report(self, told: ArchivedThrough) -> list[Touch]:
        before = self._topics.get(told.topic_id)
        pages = {0, *(queue.queue_id // _PAGE for queue in told.queues)}
        if before is not None and told.replaces:
            pages |= before.pages
        queues = {} if before is None or told.replaces else before.queues
        for queue in told.queues:
            known = queues.get(queue.queue_id, ArchivedQueue(queue.least, queue.least))
            queues[queue.queue_id] = ArchivedQueue(known.begin, max(known.next, queue.next))
        self._topics[told.topic_id] = Archive(told.location, told.at, queues)
        return _touches(told.topic_id, pages)

    # Rows ---------------------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("archive", int(topic_id), int(page)):
                return self._row(topic_id, page)
            case _:
                return None

    def _row(self, topic_id: int, page: int) -> Row:
        told = ArchivedThrough(topic_id=topic_id, page=page)
        archive = self._topics.get(topic_id)
        if archive is not None:
            if page == 0:
                told.location, told.at = archive.location, archive.at
            for queue_id in archive.page(page):
                begin, following = archive.queues[queue_id]
                told.queues.append(Queue(topic_id=topic_id, queue_id=queue_id, least=begin, next=following))
        return Row(archived_through=told)

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for topic_id in sorted(self._topics):
            for page in sorted(self._topics[topic_id].pages):
                yield self._row(topic_id, page)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot, in whatever order they come."""
        if row.WhichOneof("row") != "archived_through":
            return False
        told = row.archived_through
        archive = self._topics.get(told.topic_id) or Archive("", 0, {})
        if told.page == 0:
            archive = archive._replace(location=told.location, at=told.at)
        archive.queues.update({queue.queue_id: ArchivedQueue(queue.least, queue.next) for queue in told.queues})
        self._topics[told.topic_id] = archive
        return True

    def copy(self) -> Archives:
        """As it is now."""
        other = Archives()
        other._topics = {topic_id: archive._replace(queues=dict(archive.queues)) for topic_id, archive in self._topics.items()}
        return other


def _touches(topic_id: int, pages: Iterable[int]) -> list[Touch]:
    return [("archive", topic_id, page) for page in sorted(pages)]
