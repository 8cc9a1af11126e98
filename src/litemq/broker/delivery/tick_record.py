"""The record of one tick: all changes of a group's leases."""

from __future__ import annotations

from litemq.broker.dead_letters.writing import DeadDelivery
from litemq.format.offset_runs import RunSet, pack_runs
from litemq.proto.control_pb2 import Control, Grant, LeaseTick, QueueLeases, TryFailed
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.state.topics import TIMER_TOPIC_ID
from litemq.storage.store import Placed
from litemq.types import RecordKind

__all__ = ["TickRecord"]


class _QueueTick:
    __slots__ = ("done", "grants", "released")

    def __init__(self) -> None:
        self.done = RunSet()
        self.released = RunSet()
        self.grants: dict[tuple[int, int, int], RunSet] = {}  # by token, deadline and count


class TickRecord:
    """Filled while the requests of a tick are decided; false if it is empty."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._queues: dict[QueueKey, _QueueTick] = {}
        self.failures: list[TryFailed] = []
        self._failed_records: list[bytes | memoryview] = []  # of the failures
        self.dead: list[DeadDelivery] = []  # appended after this record, as dead letters

    def __bool__(self) -> bool:
        return bool(self._queues or self.failures)

    def _queue(self, key: QueueKey) -> _QueueTick:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _QueueTick()
        return queue

    def done(self, key: QueueKey, begin: int, end: int) -> None:
        """Messages are done."""
        self._queue(key).done.add(begin, end)

    def released(self, key: QueueKey, begin: int, end: int) -> None:
        """Messages were returned."""
        self._queue(key).released.add(begin, end)

    def granted(self, key: QueueKey, leases: list[Lease]) -> None:
        """Messages were leased, their leases were extended, or they were returned without a try."""
        if not leases:
            return
        grants = self._queue(key).grants
        for begin, end, token, deadline, count in leases:
            runs = grants.get((token, deadline, count))
            if runs is None:
                runs = grants[token, deadline, count] = RunSet()
            runs.add(begin, end)  # two extensions of a tick may name the same messages

    def failed(self, failed: TryFailed, record: bytes | memoryview) -> None:
        """A try of ``record`` has failed, and the next one is due later."""
        self.failures.append(failed)
        self._failed_records.append(record)

    def copies_before(self, log_offset: int) -> list[tuple[TryFailed, Placed]]:
        """Return the failures whose record is before ``log_offset``, each with a copy of it."""
        return [
            (
                failed,
                Placed(bytes(record), TIMER_TOPIC_ID, 0, RecordKind.PENDING, failed.predecessor, max(1, failed.count)),
            )
            for failed, record in zip(self.failures, self._failed_records, strict=True)
            if failed.predecessor < log_offset
        ]

    def control(self) -> Control:
        """Return the control record."""
        queues = [
            QueueLeases(
                topic_id=key.topic_id,
                queue_id=key.queue_id,
                done=pack_runs(queue.done),
                released=pack_runs(queue.released),
                grants=[
                    Grant(offsets=pack_runs(runs), token=token, deadline=deadline, count=count)
                    for (token, deadline, count), runs in queue.grants.items()
                ],
            )
            for key, queue in self._queues.items()
        ]
        return Control(lease_tick=LeaseTick(group=self.group, queues=queues, failed=self.failures))
