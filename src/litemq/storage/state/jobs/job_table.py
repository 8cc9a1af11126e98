"""A columnar table of jobs, found by id or by number.

It is built for a million jobs: a job takes a few hundred bytes, and copying the table is fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["JOB_COLUMNS", "JobTable"]

Longs = npt.NDArray[np.int64]

_COLUMNS: Final = np.dtype(
    [
        ("through", np.int64),
        ("queued", np.int64),
        ("last_tick", np.int64),
        ("last_at", np.int64),
        ("queue_offset", np.int64),
        ("log_offset", np.int64),
        ("sent", np.uint32),
        ("skipped", np.uint32),
        ("missed", np.uint32),
        ("failed", np.uint32),
        ("topic_id", np.uint32),
        ("queue_id", np.uint32),
        ("retry_topic_id", np.uint32),
        ("is_watched", np.bool_),
    ]
)
JOB_COLUMNS: Final = tuple(_COLUMNS.names or ())
_NOTHING: Final = tuple(-1 if name == "log_offset" else 0 for name in JOB_COLUMNS)
_MIN_CAPACITY: Final = 64
_MAX_HOLES: Final = 1024


class JobTable:
    """A slot for each job, in the order of the job numbers.

    A deleted job leaves a hole. The table closes the holes when there are many.
    """

    def __init__(self) -> None:
        self.layout = 0  # changes whenever slots move
        self.bytes = 0  # of all definitions
        self.ids: dict[str, int] = {}
        self.definitions: list[bytes] = []  # empty: a hole
        self._numbers = np.zeros(_MIN_CAPACITY, np.int64)
        self._columns = np.zeros(_MIN_CAPACITY, _COLUMNS)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def numbers(self) -> Longs:
        """The job numbers of all slots, holes included, in ascending order."""
        return self._numbers[: len(self.definitions)]

    @property
    def columns(self) -> npt.NDArray[np.void]:
        """The columns of all slots."""
        return self._columns[: len(self.definitions)]

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """Return one column of all slots."""
        return self.columns[name]

    def values(self, slot: int) -> tuple[Any, ...]:
        """Return all columns of ``slot`` as plain numbers."""
        found: tuple[Any, ...] = self._columns[slot].item()
        return found

    def set_values(self, slot: int, values: tuple[int, ...]) -> None:
        """Set all columns of ``slot`` except the last, ``is_watched``."""
        self._columns[slot] = (*values, False)

    def slot(self, number: int) -> int | None:
        """Return the slot of job ``number``, or ``None``."""
        numbers = self.numbers
        at = int(numbers.searchsorted(number))
        return at if at < numbers.size and numbers[at] == number and self.definitions[at] else None

    def slots(self, numbers: Longs) -> Longs:
        """Return the slots of jobs ``numbers``; -1 for each that does not exist."""
        known = self.numbers
        if not known.size:
            return np.full(numbers.size, -1)
        at = np.minimum(known.searchsorted(numbers), known.size - 1)
        found = np.where(known[at] == numbers, at, -1)
        holes = [number for number, slot in enumerate(found.tolist()) if slot >= 0 and not self.definitions[slot]]
        found[holes] = -1
        return found

    def live(self) -> Iterator[int]:
        """Yield the slots of existing jobs, in the order of their numbers."""
        return (slot for slot, definition in enumerate(self.definitions) if definition)

    def put(self, number: int, job_id: str, definition: bytes) -> int:
        """Add a job or replace its definition; return its slot."""
        size = len(self.definitions)
        slot = None if not size or number > self._numbers[size - 1] else self.slot(number)  # most jobs are new
        if slot is None:
            slot = self._new_slot(number)
            self.ids[job_id] = slot
        self.bytes += len(definition) - len(self.definitions[slot])
        self.definitions[slot] = definition
        return slot

    def add(self, numbers: list[int], ids: list[str], definitions: list[bytes]) -> range:
        """Add many new jobs and return their slots.

        ``numbers`` must be ascending and greater than all existing ones.
        """
        begin = len(self.definitions)
        slots = range(begin, begin + len(numbers))
        if slots.stop > self._numbers.size:
            self._resize(max(2 * begin, slots.stop))
        self._numbers[begin : slots.stop] = numbers
        self._columns[begin : slots.stop] = _NOTHING
        self.definitions += definitions
        self.ids.update(zip(ids, slots, strict=True))
        self.bytes += sum(map(len, definitions))
        return slots

    def _new_slot(self, number: int) -> int:
        size = len(self.definitions)
        if size and number <= self._numbers[size - 1]:
            return self._slot_between(number)
        if size == self._numbers.size:
            self._resize(2 * size)
        self._numbers[size] = number
        self._columns[size] = _NOTHING
        self.definitions.append(b"")
        return size

    def _slot_between(self, number: int) -> int:
        """Make a slot between others, for rows of a snapshot. Records add jobs in order."""
        at = int(self.numbers.searchsorted(number))
        if self._numbers[at] == number:  # a hole: clear the columns of the deleted job
            self._columns[at] = _NOTHING
            return at
        self._numbers = np.insert(self.numbers, at, number)
        self._columns = np.insert(self.columns, at, np.array(_NOTHING, _COLUMNS))
        self.definitions.insert(at, b"")
        self.ids = {job_id: slot + (slot >= at) for job_id, slot in self.ids.items()}
        self.layout += 1
        return at

    def _resize(self, capacity: int) -> None:
        size = len(self.definitions)
        numbers, columns = np.zeros(capacity, np.int64), np.zeros(capacity, _COLUMNS)
        numbers[:size], columns[:size] = self._numbers[:size], self._columns[:size]
        self._numbers, self._columns = numbers, columns

    def remove(self, slot: int, job_id: str) -> None:
        """Delete the job in ``slot``."""
        self.bytes -= len(self.definitions[slot])
        self.definitions[slot] = b""
        del self.ids[job_id]
        if len(self.definitions) - len(self.ids) > max(_MAX_HOLES, len(self.ids)):
            self._close_holes()

    def _close_holes(self) -> None:
        kept = list(self.live())
        new_slots = {slot: new for new, slot in enumerate(kept)}
        self._numbers, self._columns = self._numbers[kept], self._columns[kept]
        self.definitions = [self.definitions[slot] for slot in kept]
        self.ids = {job_id: new_slots[slot] for job_id, slot in self.ids.items()}
        self.layout += 1
        self._resize(max(_MIN_CAPACITY, len(kept)))

    def copy(self) -> JobTable:
        """Return an independent copy."""
        other = JobTable()
        other.layout, other.bytes = self.layout, self.bytes
        other.ids, other.definitions = dict(self.ids), list(self.definitions)
        other._numbers, other._columns = self._numbers.copy(), self._columns.copy()
        return other
