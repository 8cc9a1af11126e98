"""State changes that wait until their records are confirmed, before they go to ``state.db``."""

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
from litemq.storage.state.producers import TouchedPage, runs_row
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.half_events import HalfEvent

__all__ = ["Changes"]

_SNAPSHOT_CHANGES: Final = ("snapshot_begin", "snapshot_rows", "snapshot_end")


class _QueueRange(NamedTuple):
    """A queue's start and end offset.

    By far the most frequent change, so ``take`` builds the row, not the writer.
    """

    key: QueueKey
    start_offset: int
    end_offset: int


class _Sequences(NamedTuple):
    """Changed pages of producers' sequences, as of this change.

    ``take`` builds the rows; runs that were appended to a page later are not included.
    """

    touched: list[TouchedPage]


class Changes:
    """A queue of changes. The writer adds to it; one other thread takes from it.

    The parts change too often for the writer to build their rows. ``Changes`` therefore keeps a
    second copy of the parts, as of the confirmed records; ``take`` applies the records to it and
    builds the rows they touch.
    """

    def __init__(self, state: State, applied: int) -> None:
        self._state = state
        # Each change before this log offset was taken. A batch of records changes the state as a
        # whole, and replicas may have confirmed only a part of it.
        self.taken = applied
        self._confirmed = state.parts.copy()
        # Each change with the log offset at which its record ends.
        self._waiting: deque[tuple[int, list[Row] | _QueueRange | _Sequences | Control | PlacedEvent]] = deque()

    def add_queue_range(self, end: int, key: QueueKey, end_offset: int) -> None:
        """Add a queue that grew to ``end_offset`` with records that end at log offset ``end``."""
        self._waiting.append((end, _QueueRange(key, self._state.start_offsets.get(key, 0), end_offset)))

    def add_sequences(self, end: int, touched: list[TouchedPage]) -> None:
        """Add the pages of producers' sequences that records ending at ``end`` changed."""
        if touched:
            self._waiting.append((end, _Sequences(touched)))

    def add_control(self, end: int, control: Control, rows: list[Row]) -> None:
        """Add a control record that ends at ``end``, with the result of ``State.apply``."""
        if control.WhichOneof("change") not in _SNAPSHOT_CHANGES:  # large, and they change nothing
            self._waiting.append((end, control))
        if rows:
            self._waiting.append((end, rows))

    def add_event(self, end: int, event: PlacedEvent) -> None:
        """Add an event whose records end at ``end``."""
        self._waiting.append((end, event))

    def take(self, confirmed: int) -> Iterable[tuple[bytes, Row]]:
        """Remove the changes up to log offset ``confirmed``; return their rows, each once."""
        rows: dict[bytes, Row] = {}
        ranges: dict[QueueKey, _QueueRange] = {}
        pages: dict[tuple[tuple[int, int, int], int], TouchedPage] = {}
        touches: set[Touch] = set()
        waiting = self._waiting
        while waiting and waiting[0][0] <= confirmed:
            self.taken, change = waiting.popleft()
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
        if not waiting:
            self.taken = max(self.taken, confirmed)
        for key, start, end in ranges.values():
            row = Row(queue=Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=start, next=end))
            rows[row_key(row)] = row
        for touched in pages.values():
            row = runs_row(touched)
            rows[row_key(row)] = row
        for row in self._confirmed.rows_of(touches):
            rows[row_key(row)] = row
        return rows.items()
