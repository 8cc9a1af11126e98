"""Consumption progress, a part of the state: offsets, settled ranges and leases by group and queue.

Every message below a group's offset is done. Above the offset, some messages are done and some are
leased. An expired lease leaves no record: readers compare its deadline with their clock.
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

__all__ = ["Progress", "QueueProgress", "parse_position"]

_PAGE: Final = 4096  # offsets in one row, so that a row stays small

GroupQueue = tuple[str, QueueKey]


class QueueProgress:
    """The messages of a queue above a group's offset that are done or leased."""

    __slots__ = ("done", "leases", "owner")

    def __init__(self, owner: object = None) -> None:
        self.done = RunSet()
        self.leases = Leases()
        self.owner = owner  # the only one that may change it; others share it

    def shared(self) -> QueueProgress:
        """Return a copy that shares ``done`` and ``leases``: neither may change them any more."""
        other = QueueProgress.__new__(QueueProgress)
        other.done, other.leases, other.owner = self.done, self.leases, None
        return other

    def own(self, owner: object) -> None:
        """Let ``owner`` change ``done`` and ``leases``: copy them if they are shared."""
        if self.owner is not owner:
            self.done, self.leases, self.owner = self.done.copy(), self.leases.copy(), owner

    def drop(self, begin: int, end: int) -> set[int]:
        """Forget the range ``begin … end``; return the pages that had entries in it."""
        pages = {page for run in self.done.within(begin, end) for page in _pages(*run)}
        pages.update(page for lease in self.leases.within(begin, end) for page in _pages(lease.begin, lease.end))
        if pages:
            self.done.remove(begin, end)
            self.leases.remove(begin, end)
        return pages


class Progress:
    """The offsets, settlements and leases of all groups."""

    def __init__(self) -> None:
        self.offsets: dict[GroupQueue, int] = {}
        self._queues: dict[GroupQueue, QueueProgress] = {}
        self._groups: dict[QueueKey, set[str]] = {}
        self._owner = object()  # copy-on-write: queues of another owner are shared with a copy

    # Queries --------------------------------------------------------------------------------------

    def queue(self, group: str, key: QueueKey) -> QueueProgress | None:
        """Return what ``group`` has done and leased above its offset, or ``None`` if nothing.

        A reset replaces the object: do not keep it.
        """
        return self._queues.get((group, key))

    def groups_of(self, key: QueueKey) -> Iterable[str]:
        """Return the groups that have an offset in a queue."""
        return self._groups.get(key, ())

    def queues_of(self, group: str, topic_id: int) -> list[QueueKey]:
        """Return the queues of a topic in which ``group`` has an offset."""
        return sorted(key for name, key in self.offsets if name == group and key.topic_id == topic_id)

    # Changes --------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
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
                queues = [group_queue for group_queue in self.offsets if group_queue[0] == group]
                return [touch for group_queue in queues for touch in self._forget(*group_queue)]
            case "topic_deleted":
                topic_id = control.topic_deleted.topic_id
                queues = [group_queue for group_queue in self._queues if group_queue[1].topic_id == topic_id]
                return [
                    touch for group_queue in queues for touch in self._drop(*group_queue, 0, self._end(group_queue))
                ]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Settle the message that ``record``, a dead letter, was made from; ignore all others."""
        if record.kind is not RecordKind.DEAD:
            return []
        group = record.properties.get("litemq-group", "")
        position = parse_position(record.properties.get("litemq-place", ""))
        if not group or position is None:
            return []
        key, offset = position
        return self._settle(group, key, [(offset, offset + 1)])

    def _tick(self, group: str, tick: QueueLeases) -> list[Touch]:
        group_queue = group, key = group, QueueKey(tick.topic_id, tick.queue_id)
        touched: list[Touch] = []
        if tick.done:
            touched += self._settle(group, key, unpack_runs(tick.done))
        if not tick.released and not tick.grants:
            return touched
        if group_queue not in self.offsets:
            self._put_offset(group, key, 0)
            touched.append(("offset", group, key))
        offset = self.offsets[group_queue]
        queue = self._owned(group_queue)
        pages: set[int] = set()
        for begin, end in unpack_runs(tick.released):
            for lease in queue.leases.within(begin, end):
                queue.leases.put(Lease(lease.begin, lease.end, 0, 0, lease.tries))
                pages.update(_pages(lease.begin, lease.end))
        for grant in tick.grants:
            for begin, end in unpack_runs(grant.offsets):
                for free_from, free_to in queue.done.without(max(begin, offset), end):
                    queue.leases.put(Lease(free_from, free_to, grant.token, grant.deadline, grant.count))
                    pages.update(_pages(free_from, free_to))
        self._tidy(group_queue)
        return [*touched, *_touches(group, key, pages)]

    def _settle(self, group: str, key: QueueKey, runs: list[Run]) -> list[Touch]:
        group_queue = group, key
        before = self.offsets.get(group_queue)
        offset = before or 0
        queue = self._owned(group_queue)
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
        self._tidy(group_queue)
        touched = _touches(group, key, pages)
        return [("offset", group, key), *touched] if offset != before else touched

    def _commit(self, offset: GroupOffset) -> list[Touch]:
        """Mark every message below ``offset`` as done, leased or not.

        If the offset moves back, forget everything that is done or leased above it.
        """
        group_queue = group, key = offset.group, QueueKey(offset.topic_id, offset.queue_id)
        before = self.offsets.get(group_queue, -1)
        if group_queue in self._queues and offset.offset < before:
            touched = self._drop(group, key, 0, self._end(group_queue))
        elif group_queue in self._queues:
            touched = self._drop(group, key, 0, offset.offset)
        else:
            touched = []
        self._put_offset(group, key, offset.offset)
        if group_queue in self._queues:
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
        if (group, key) not in self._queues:
            return []
        pages = self._owned((group, key)).drop(begin, end)
        self._tidy((group, key))
        return _touches(group, key, pages)

    def _end(self, group_queue: GroupQueue) -> int:
        queue = self._queues.get(group_queue)
        return 0 if queue is None else max(queue.done.end, queue.leases.end)

    def _owned(self, group_queue: GroupQueue) -> QueueProgress:
        """Return the progress of a queue, to change it."""
        queue = self._queues.get(group_queue)
        if queue is None:
            queue = self._queues[group_queue] = QueueProgress(self._owner)
        else:
            queue.own(self._owner)
        return queue

    def _tidy(self, group_queue: GroupQueue) -> None:
        queue = self._queues.get(group_queue)
        if queue is not None and not queue.done and not queue.leases:
            del self._queues[group_queue]

    def _put_offset(self, group: str, key: QueueKey, offset: int) -> None:
        self.offsets[group, key] = offset
        self._groups.setdefault(key, set()).add(group)

    # Rows -----------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("offset", str(group), QueueKey() as key):
                return self._offset_row(group, key)
            case ("leases", str(group), QueueKey() as key, int(page)):
                return self._lease_row(group, key, page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for group, key in sorted(self.offsets):
            yield self._offset_row(group, key)
        for group, key in sorted(self._queues):
            queue = self._queues[group, key]
            pages = {page for run in queue.done for page in _pages(*run)}
            pages.update(page for lease in queue.leases for page in _pages(lease.begin, lease.end))
            for page in sorted(pages):
                yield self._lease_row(group, key, page)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        match row.WhichOneof("row"):
            case "group_offset":
                stored = row.group_offset
                if stored.offset >= 0:
                    self._put_offset(stored.group, QueueKey(stored.topic_id, stored.queue_id), stored.offset)
                return True
            case "leases":
                self._put_leases(row.leases)
                return True
            case _:
                return False

    def copy(self) -> Progress:
        """Return an independent copy. Queues are copied when one of the two changes them."""
        other = Progress()
        other.offsets = dict(self.offsets)
        other._queues = {group_queue: queue.shared() for group_queue, queue in self._queues.items()}
        other._groups = {key: set(groups) for key, groups in self._groups.items()}
        self._owner = object()
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
            for grant, leases in groupby(queue.leases.within(begin, end), lambda lease: lease[2:]):
                token, deadline, count = grant
                runs = pack_runs((lease.begin, lease.end) for lease in leases)
                row.grants.append(Grant(offsets=runs, token=token, deadline=deadline, count=count))
        return Row(leases=row)

    def _put_leases(self, row: LeaseRow) -> None:
        queue = self._owned((row.group, QueueKey(row.topic_id, row.queue_id)))
        for run in unpack_runs(row.done):
            queue.done.add(*run)
        for grant in row.grants:
            for begin, end in unpack_runs(grant.offsets):
                queue.leases.put(Lease(begin, end, grant.token, grant.deadline, grant.count))


def parse_position(text: str) -> tuple[QueueKey, int] | None:
    """Parse the position property of a dead letter (``topic_id/queue_id/offset``).

    Return ``None`` if ``text`` has another form.
    """
    numbers = text.split("/")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    topic_id, queue_id, offset = map(int, numbers)
    return QueueKey(topic_id, queue_id), offset


def _pages(begin: int, end: int) -> range:
    return range(begin // _PAGE, (end - 1) // _PAGE + 1)


def _touches(group: str, key: QueueKey, pages: Iterable[int]) -> list[Touch]:
    return [("leases", group, key, page) for page in pages]
