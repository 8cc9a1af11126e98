"""How far groups have come: everything below a group's offset in a queue is done; above it, some is done and some is leased.

A lease that ended leaves no record: whoever looks compares its deadline with the time. What is here is a function of the log alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from litemq.format.offset_runs import Run, RunSet, pack_runs, unpack_runs
from litemq.proto.control_pb2 import Control, Grant, GroupOffset, LeaseRow, QueueLeases, Row
from litemq.storage.state.delivery.leases import Lease, Leases
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.topics import QueueKey
from litemq.types import RecordKind

__all__ = ["Progress", "QueueProgress", "place_of"]

_PAGE: Final = 4096  # offsets of which one row tells: a row stays small, however much is in flight

Place = tuple[str, QueueKey]


class QueueProgress:
    """What a group has done in a queue above its offset, and what it has leased there."""

    __slots__ = ("done", "leases")

    def __init__(self) -> None:
        self.done = RunSet()
        self.leases = Leases()

    def copy(self) -> QueueProgress:
        other = QueueProgress()
        other.done, other.leases = self.done.copy(), self.leases.copy()
        return other

    def drop(self, begin: int, end: int) -> set[int]:
        """Forget a range; returns the pages that had something of it."""
        pages = {page for run in self.done.within(begin, end) for page in _pages(*run)}
        pages.update(page for lease in self.leases.within(begin, end) for page in _pages(lease.begin, lease.end))
        if pages:
            self.done.remove(begin, end)
            self.leases.remove(begin, end)
        return pages


class Progress:
    """The offsets, settlements and leases of all groups. Changed by records alone."""

    def __init__(self) -> None:
        self.offsets: dict[Place, int] = {}
        self._queues: dict[Place, QueueProgress] = {}
        self._groups: dict[QueueKey, set[str]] = {}

    # Asking -------------------------------------------------------------------------------------------------------------------

    def of_queue(self, group: str, key: QueueKey) -> QueueProgress | None:
        """What a group has done and leased above its offset; nothing, where there is nothing. Another object after it was reset."""
        return self._queues.get((group, key))

    def groups_of(self, key: QueueKey) -> Iterable[str]:
        """The groups that have been in a queue."""
        return self._groups.get(key, ())

    def queues_of(self, group: str, topic_id: int) -> list[QueueKey]:
        """The queues of a topic in which a group has been."""
        return sorted(key for name, key in self.offsets if name == group and key.topic_id == topic_id)

    # Changing -----------------------------------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "offsets_committed":
                return [touch for offset in control.offsets_committed.offsets for touch in self._commit(offset)]
            case "lease_tick":
                tick = control.lease_tick
                touched = [touch for queue in tick.queues for touch in self._tick(tick.group, queue)]
                for failed in tick.failed:
                    key = QueueKey(failed.topic_id, failed.queue_id)
                    touched += self._settle(tick.group, key, [(failed.queue_offset, failed.queue_offset + 1)])
                return touched
            case "try_failed":
                failed = control.try_failed
                key = QueueKey(failed.topic_id, failed.queue_id)
                return self._settle(failed.group, key, [(failed.queue_offset, failed.queue_offset + 1)])
            case "offsets_reset":
                return [touch for offset in control.offsets_reset.after for touch in self._reset(offset)]
            case "group_changed" if control.group_changed.group.gone:
                group = control.group_changed.group.group
                return [touch for place in list(self.offsets) if place[0] == group for touch in self._forget(*place)]
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                places = [place for place in self._queues if place[1].topic_id == topic_id]
                return [touch for place in places for touch in self._drop(*place, 0, self._end(place))]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """A dead letter settles what it is made of."""
        if record.kind is not RecordKind.DEAD:
            return []
        group, place = record.properties.get("litemq-group", ""), place_of(record.properties.get("litemq-place", ""))
        if not group or place is None:
            return []
        key, offset = place
        return self._settle(group, key, [(offset, offset + 1)])

    def _tick(self, group: str, told: QueueLeases) -> list[Touch]:
        place = group, key = group, QueueKey(told.topic_id, told.queue_id)
        touched: list[Touch] = []
        if told.done:
            touched += self._settle(group, key, unpack_runs(told.done))
        if not told.released and not told.grants:
            return touched
        if place not in self.offsets:
            self._put_offset(group, key, 0)
            touched.append(("offset", group, key))
        offset = self.offsets[place]
        queue = self._queues.get(place) or self._queues.setdefault(place, QueueProgress())
        pages: set[int] = set()
        for begin, end in unpack_runs(told.released):
            for lease in queue.leases.within(begin, end):
                queue.leases.put(Lease(lease.begin, lease.end, 0, 0, lease.tries))
                pages.update(_pages(lease.begin, lease.end))
        for grant in told.grants:
            for begin, end in unpack_runs(grant.offsets):
                for free_from, free_to in queue.done.without(max(begin, offset), end):
                    queue.leases.put(Lease(free_from, free_to, grant.token, grant.deadline, grant.count))
                    pages.update(_pages(free_from, free_to))
        self._tidy(place)
        return [*touched, *_touches(group, key, pages)]

    def _settle(self, group: str, key: QueueKey, runs: list[Run]) -> list[Touch]:
        place = group, key
        before = self.offsets.get(place)
        offset = before or 0
        queue = self._queues.get(place) or self._queues.setdefault(place, QueueProgress())
        pages: set[int] = set()
        for begin, end in runs:
            begin = max(begin, offset)
            if begin < end:
                queue.leases.remove(begin, end)
                queue.done.add(begin, end)
                pages.update(_pages(begin, end))
        first = queue.done.first()
        if first is not None and first[0] <= offset:
            offset = first[1]
            pages.update(_pages(*first))
            queue.done.remove(*first)
        if offset != before:
            self._put_offset(group, key, offset)
        self._tidy(place)
        touched = _touches(group, key, pages)
        return [("offset", group, key), *touched] if offset != before else touched

    def _commit(self, offset: GroupOffset) -> list[Touch]:
        """Everything below is done, whatever was leased. A group that goes back forgets what it did behind it."""
        place = group, key = offset.group, QueueKey(offset.topic_id, offset.queue_id)
        before = self.offsets.get(place, -1)
        if place in self._queues and offset.offset < before:
            touched = self._drop(group, key, 0, self._end(place))
        elif place in self._queues:
            touched = self._drop(group, key, 0, offset.offset)
        else:
            touched = []
        self._put_offset(group, key, offset.offset)
        if place in self._queues:
            touched += self._settle(group, key, [])
        return [("offset", group, key), *touched]

    def _reset(self, offset: GroupOffset) -> list[Touch]:
        group, key = offset.group, QueueKey(offset.topic_id, offset.queue_id)
        touched = self._forget(group, key)
        if offset.offset >= 0:
            self._put_offset(group, key, offset.offset)
        return touched or [("offset", group, key)]

    def _forget(self, group: str, key: QueueKey) -> list[Touch]:
        touched = self._drop(group, key, 0, self._end((group, key)))
        if self.offsets.pop((group, key), None) is None:
            return touched
        self._groups[key].discard(group)
        if not self._groups[key]:
            del self._groups[key]
        return [("offset", group, key), *touched]

    def _drop(self, group: str, key: QueueKey, begin: int, end: int) -> list[Touch]:
        queue = self._queues.get((group, key))
        if queue is None:
            return []
        pages = queue.drop(begin, end)
        self._tidy((group, key))
        return _touches(group, key, pages)

    def _end(self, place: Place) -> int:
        queue = self._queues.get(place)
        return 0 if queue is None else max(queue.done.end, queue.leases.end)

    def _tidy(self, place: Place) -> None:
        queue = self._queues.get(place)
        if queue is not None and not queue.done and not queue.leases:
            del self._queues[place]

    def _put_offset(self, group: str, key: QueueKey, offset: int) -> None:
        self.offsets[group, key] = offset
        self._groups.setdefault(key, set()).add(group)

    # Rows ---------------------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("offset", str(group), QueueKey() as key):
                return self._offset_row(group, key)
            case ("leases", str(group), QueueKey() as key, int(page)):
                return self._lease_row(group, key, page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for group, key in sorted(self.offsets):
            yield self._offset_row(group, key)
        for group, key in sorted(self._queues):
            queue = self._queues[group, key]
            pages = {page for run in queue.done for page in _pages(*run)}
            pages.update(page for lease in queue.leases for page in _pages(lease.begin, lease.end))
            for page in sorted(pages):
                yield self._lease_row(group, key, page)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        match row.WhichOneof("row"):
            case "group_offset":
                told = row.group_offset
                if told.offset >= 0:
                    self._put_offset(told.group, QueueKey(told.topic_id, told.queue_id), told.offset)
                return True
            case "leases":
                self._put_leases(row.leases)
                return True
            case _:
                return False

    def copy(self) -> Progress:
        """As it is now."""
        other = Progress()
        other.offsets = dict(self.offsets)
        other._queues = {place: queue.copy() for place, queue in self._queues.items()}
        other._groups = {key: set(groups) for key, groups in self._groups.items()}
        return other

    def _offset_row(self, group: str, key: QueueKey) -> Row:
        offset = self.offsets.get((group, key), -1)
        return Row(group_offset=GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=offset))

    def _lease_row(self, group: str, key: QueueKey, page: int) -> Row:
        row = LeaseRow(group=group, topic_id=key.topic_id, queue_id=key.queue_id, page=page)
        queue = self._queues.get((group, key))
        if queue is not None:
            begin, end = page * _PAGE, (page + 1) * _PAGE
            row.done.extend(pack_runs(queue.done.within(begin, end)))
            for facts, leases in groupby(queue.leases.within(begin, end), lambda lease: lease[2:]):
                token, deadline, count = facts
                runs = pack_runs((lease.begin, lease.end) for lease in leases)
                row.grants.append(Grant(offsets=runs, token=token, deadline=deadline, count=count))
        return Row(leases=row)

    def _put_leases(self, row: LeaseRow) -> None:
        queue = self._queues.setdefault((row.group, QueueKey(row.topic_id, row.queue_id)), QueueProgress())
        for run in unpack_runs(row.done):
            queue.done.add(*run)
        for grant in row.grants:
            for begin, end in unpack_runs(grant.offsets):
                queue.leases.put(Lease(begin, end, grant.token, grant.deadline, grant.count))


def place_of(told: str) -> tuple[QueueKey, int] | None:
    """A delivery's place, as a dead letter tells it: topic_id/queue_id/offset."""
    numbers = told.split("/")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    topic_id, queue_id, offset = map(int, numbers)
    return QueueKey(topic_id, queue_id), offset


def _pages(begin: int, end: int) -> range:
    return range(begin // _PAGE, (end - 1) // _PAGE + 1)


def _touches(group: str, key: QueueKey, pages: Iterable[int]) -> list[Touch]:
    return [("leases", group, key, page) for page in pages]
