"""What groups have done, and what is held for later: a state machine made of parts.

Each part sees every control record, and every record that is not a plain message of a producer, in the order of the log. It is a function
of them and of nothing else: whoever applies the same records has the same parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from litemq.proto.control_pb2 import Control, Row
from litemq.storage.state.archives import Archives
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.state.delivery.group_facts import GroupFacts
from litemq.storage.state.delivery.progress import Progress
from litemq.storage.state.delivery.tries import Tries
from litemq.storage.state.jobs.jobs import Jobs, TicksPlaced
from litemq.storage.state.part import Part, PlacedPart, PlacedRecord, Touch
from litemq.storage.state.timers.moved_timers import MovedTimers
from litemq.storage.state.timers.pending_totals import PendingTotals, TimersBegun, TimersFired
from litemq.storage.state.timers.timer_batches import TimerBatches
from litemq.storage.state.transactions.half_runs import HalfDied, HalfEvent, HalvesCopied
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.state.transactions.sinks import Sinks
from litemq.types import RecordKind

__all__ = ["Delivery", "PlacedEvent"]

# What records that are no plain messages and no control records say: each for itself, or timers, halves and ticks many at a time.
PlacedEvent = PlacedRecord | TimersBegun | TimersFired | HalfEvent | TicksPlaced


class Delivery:
    """All parts together."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.tries = Tries()
        self.dead_letters = DeadLetters()
        self.timers = PendingTotals()
        self.moved_timers = MovedTimers()
        self.timer_batches = TimerBatches()
        self.groups = GroupFacts()
        self.archives = Archives()
        self.halves = Halves()
        self.sinks = Sinks()
        self.jobs = Jobs()

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
        )

    def _placed_parts(self) -> tuple[PlacedPart, ...]:
        return (self.progress, self.tries, self.dead_letters, self.timers, self.moved_timers, self.jobs)

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        return [touch for part in self._parts() for touch in part.apply(control)]

    def place(self, event: PlacedEvent) -> list[Touch]:
        """Take in a record that is no plain message, or many timers, halves or ticks."""
        if isinstance(event, TimersBegun):
            return self.timers.take(event)
        if isinstance(event, TimersFired):
            return self.timers.take(event) + self.moved_timers.fired(event)
        if isinstance(event, TicksPlaced):
            return self.jobs.take(event)
        if not isinstance(event, PlacedRecord):
            return self.halves.take(event)
        touched: list[Touch] = []
        if event.kind is RecordKind.DEAD and event.origin in self.dead_letters:
            event = event._replace(message_id="")  # a letter that was carried forward: nothing dies of it
        elif event.transaction and event.kind is RecordKind.DEAD:
            touched = self.halves.take(HalfDied(event.transaction))
        elif self.was_half(event):
            touched = self.halves.take(HalvesCopied(event.transaction, 1))
            event = event._replace(origin=-1)
        return touched + [touch for part in self._placed_parts() for touch in part.place(event)]

    def was_half(self, event: PlacedEvent) -> bool:
        """Whether a record is the copy of a half that is due later: a new timer, not the new place of one. Asked before it is taken in."""
        if not isinstance(event, PlacedRecord) or event.kind is RecordKind.DEAD:
            return False
        return bool(event.transaction) and self.halves.holds(event.transaction, event.origin)

    def rows_of(self, touches: Collection[Touch]) -> Iterator[Row]:
        """The rows that touches name, as they are now."""
        jobs = [touch[1] for touch in touches if touch[0] == "job"]
        if jobs:  # ticks touch many thousands at a time
            yield from self.jobs.rows_of(cast("list[int]", jobs))
        for touch in touches:
            if touch[0] != "job":
                yield self.row(touch)

    def row(self, touch: Touch) -> Row:
        """The row that a touch names, as it is now."""
        for part in self._parts():
            row = part.row(touch)
            if row is not None:
                return row
        raise ValueError(f"nobody knows {touch}")

    def rows(self) -> Iterator[Row]:
        """All of it, part after part."""
        for part in self._parts():
            yield from part.rows()

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot, unless it is none of the parts'."""
        return any(part.put(row) for part in self._parts())

    def copy(self) -> Delivery:
        """As it is now, while this one goes on."""
        other = Delivery()
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
        return other
