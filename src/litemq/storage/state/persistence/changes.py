"""Changes of the state on their way to ``state.db``: each waits until the record that made it is confirmed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import Control, Queue, Row
from litemq.storage.state.jobs.jobs import TicksPlaced
from litemq.storage.state.machine import State
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.persistence.rows import row_key
from litemq.storage.state.producers import Touched, runs_row
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.half_runs import HalfEvent

__all__ = ["Changes"]

_OF_SNAPSHOTS: Final = ("snapshot_begin", "snapshot_rows", "snapshot_end")


class _QueueRange(NamedTuple):
    """A queue's least and next offset: by far the most frequent change, and made into a row only when it is taken."""

    key: QueueKey
    least: int
    next: int


class _Sequences(NamedTuple):
    """Pages of producers' sequences, made into rows only when they are taken: as they were here, whatever was appended to them since."""

    touched: list[Touched]


class Changes:
    """Filled by the writer, emptied by one other thread.

    What groups have done changes too often, and too much at a time, to be made into rows by the writer: whoever takes the changes has the
    delivery as the confirmed records make it, and makes rows of what they touched.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._confirmed = state.delivery.copy()
        # With the log offset at which the record ends.
        self._waiting: deque[tuple[int, list[Row] | _QueueRange | _Sequences | Control | PlacedEvent]] = deque()

    def placed(self, end: int, key: QueueKey, next_offset: int) -> None:
        """A queue grew by records that end at log offset ``end``."""
        self._waiting.append((end, _QueueRange(key, self._state.least.get(key, 0), next_offset)))

    def took(self, end: int, touched: list[Touched]) -> None:
        """Records that end at ``end`` changed pages of producers' sequences."""
        if touched:
            self._waiting.append((end, _Sequences(touched)))

    def changed(self, end: int, control: Control, rows: list[Row]) -> None:
        """A control record that ends at ``end`` changed some rows, and perhaps the delivery."""
        if control.WhichOneof("change") not in _OF_SNAPSHOTS:  # they are large, and say nothing new
            self._waiting.append((end, control))
        if rows:
            self._waiting.append((end, rows))

    def was_placed(self, end: int, event: PlacedEvent) -> None:
        """A record that is no plain message, or many halves, end at ``end``."""
        self._waiting.append((end, event))

    def take(self, confirmed: int) -> Iterable[tuple[bytes, Row]]:
        """The rows as the records up to ``confirmed`` left them, each once; they wait no longer."""
        rows: dict[bytes, Row] = {}
        ranges: dict[QueueKey, _QueueRange] = {}
        pages: dict[tuple[tuple[int, int, int], int], Touched] = {}
        touches: set[Touch] = set()
        waiting = self._waiting
        while waiting and waiting[0][0] <= confirmed:
            change = waiting.popleft()[1]
            if isinstance(change, Control):
                touches.update(self._confirmed.apply(change))
                continue
            if isinstance(change, PlacedRecord | TimersBegun | TimersFired | HalfEvent | TicksPlaced):
                touches.update(self._confirmed.place(change))
                continue
            if isinstance(change, _QueueRange):
                ranges[change.key] = change
                continue
            if isinstance(change, _Sequences):
                pages.update(((touched[0], touched[1][0]), touched) for touched in change.touched)
                continue
            for row in change:
                if row.HasField("queue"):
                    key = QueueKey(row.queue.topic_id, row.queue.queue_id)
                    ranges[key] = _QueueRange(key, row.queue.least, row.queue.next)
                else:
                    rows[row_key(row)] = row
                    if row.HasField("producer_runs"):
                        runs = row.producer_runs
                        pages.pop(((runs.producer_id, runs.topic_id, runs.queue_id), runs.first), None)
        for key, least, following in ranges.values():
            row = Row(queue=Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=least, next=following))
            rows[row_key(row)] = row
        for touched in pages.values():
            row = runs_row(touched)
            rows[row_key(row)] = row
        for row in self._confirmed.rows_of(touches):
            rows[row_key(row)] = row
        return rows.items()
