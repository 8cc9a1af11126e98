"""The parts of the state machine, which apply each record together.

Each part sees every control record, and every record that is not a plain message of a producer, in
the order of the log. It is a function of these records and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from litemq.proto.control_pb2 import Control, Row
from litemq.storage.state.archives import Archives
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.state.delivery.group_settings import GroupSettings
from litemq.storage.state.delivery.losses import Losses
from litemq.storage.state.delivery.progress import Progress
from litemq.storage.state.delivery.tries import Tries
from litemq.storage.state.jobs.jobs import Jobs, TicksPlaced
from litemq.storage.state.part import Part, PlacedPart, PlacedRecord, Touch
from litemq.storage.state.timers.moved_timers import MovedTimers
from litemq.storage.state.timers.pending_totals import PendingTotals, TimersBegun, TimersFired
from litemq.storage.state.timers.timer_batches import TimerBatches
from litemq.storage.state.transactions.half_events import HalfDied, HalfEvent, HalvesCopied
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.state.transactions.sinks import Sinks
from litemq.types import RecordKind

__all__ = ["MachineParts", "PlacedEvent"]

# A record that is neither a plain message nor a control record, or many timers, halves or ticks.
PlacedEvent = PlacedRecord | TimersBegun | TimersFired | HalfEvent | TicksPlaced


class MachineParts:
    """All parts, by name."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.tries = Tries()
        self.dead_letters = DeadLetters()
        self.timers = PendingTotals()
        self.moved_timers = MovedTimers()
        self.timer_batches = TimerBatches()
        self.groups = GroupSettings()
        self.archives = Archives()
        self.halves = Halves()
        self.sinks = Sinks()
        self.jobs = Jobs()
        self.losses = Losses()

    def _parts(self) -> tuple[Part, ...]:
        return (
            self.progress,
            self.tries,
            self.dead_letters,
            self.timers,
            self.moved_timers,
            self.timer_batches,
            self.groups,
            self.archives,
            self.halves,
            self.sinks,
            self.jobs,
            self.losses,
        )

    def _placed_parts(self) -> tuple[PlacedPart, ...]:
        return (self.progress, self.tries, self.dead_letters, self.timers, self.moved_timers, self.jobs)

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        return [touch for part in self._parts() for touch in part.apply(control)]

    def place(self, event: PlacedEvent) -> list[Touch]:
        """Apply ``event`` and return the rows it touches."""
        if isinstance(event, TimersBegun):
            return self.timers.apply_event(event)
        if isinstance(event, TimersFired):
            return self.timers.apply_event(event) + self.moved_timers.apply_fired(event)
        if isinstance(event, TicksPlaced):
            return self.jobs.apply_ticks(event)
        if not isinstance(event, PlacedRecord):
            return self.halves.apply_event(event)
        touched: list[Touch] = []
        if event.kind is RecordKind.DEAD and event.origin in self.dead_letters:
            event = event._replace(message_id="")  # a carried dead letter: its message did not fail again
        elif event.transaction and event.kind is RecordKind.DEAD:
            touched = self.halves.apply_event(HalfDied(event.transaction))
        elif self.was_half(event):
            touched = self.halves.apply_event(HalvesCopied(event.transaction, 1))
            event = event._replace(origin=-1)
        return touched + [touch for part in self._placed_parts() for touch in part.place(event)]

    def was_half(self, event: PlacedEvent) -> bool:
        """Return whether ``event`` is the copy of a half that is due later.

        Such a copy is a new timer, not a carried one. Call this before applying the event.
        """
        if not isinstance(event, PlacedRecord) or event.kind is RecordKind.DEAD:
            return False
        return bool(event.transaction) and self.halves.holds(event.transaction, event.origin)

    def rows_of(self, touches: Collection[Touch]) -> Iterator[Row]:
        """Yield the current rows that ``touches`` name."""
        jobs = [touch[1] for touch in touches if touch[0] == "job"]
        if jobs:  # in bulk, because ticks touch thousands at a time
            yield from self.jobs.rows_of(cast("list[int]", jobs))
        for touch in touches:
            if touch[0] != "job":
                yield self.row(touch)

    def row(self, touch: Touch) -> Row:
        """Return the current row that ``touch`` names."""
        for part in self._parts():
            row = part.row(touch)
            if row is not None:
                return row
        raise ValueError(f"no part has the row {touch}")

    def rows(self) -> Iterator[Row]:
        """Yield every row, part by part."""
        for part in self._parts():
            yield from part.rows()

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if no part has such rows."""
        return any(part.put(row) for part in self._parts())

    def copy(self) -> MachineParts:
        """Return an independent copy."""
        other = MachineParts()
        other.progress = self.progress.copy()
        other.tries = self.tries.copy()
        other.dead_letters = self.dead_letters.copy()
        other.timers = self.timers.copy()
        other.moved_timers = self.moved_timers.copy()
        other.timer_batches = self.timer_batches.copy()
        other.groups = self.groups.copy()
        other.archives = self.archives.copy()
        other.halves = self.halves.copy()
        other.sinks = self.sinks.copy()
        other.jobs = self.jobs.copy()
        other.losses = self.losses.copy()
        return other
