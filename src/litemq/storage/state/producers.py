"""Producers' sequences: the records of each producer that are in the log already.

With these, a broker detects duplicates and gaps. A *pair* is a producer and a queue that it writes
to. Its records are numbered from 0 without a gap, so the state of a pair is its next sequence and
the positions of its latest records, its *receipts*. They are stored in runs: records with
consecutive sequences, at consecutive queue offsets, with one store time. A run is three numbers
(first sequence, queue offset of that record, store time) and ends where the next one begins. A page
has up to 64 runs. Pages are append-only; a page is dropped when later pages hold the last 1,024
records.

A pair takes about half a kilobyte, and at most 30 KiB, if each of its last 1,024 records is a run.

The state is a function of the log, however the records are split into batches or replay windows:

- A record with a known sequence is ignored.
- A record after a gap restarts the pair at its own sequence. A broker refuses gaps before it
  appends, but another broker may have written the log, or the pair may have expired in between.
- A pair expires at the first full hour at least seven days after its last record. The hours are
  those of the records' store times, so that every reader of the log expires the pair at the same
  record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from litemq.format.batches.producer_runs import ProducerColumns, ProducerRuns, find_producer_runs
from litemq.proto.control_pb2 import ProducerRuns as ProducerRunsRow
from litemq.proto.control_pb2 import Row

__all__ = ["KEPT_RECEIPTS", "Pair", "Producers", "Receipt", "TouchedPage", "runs_row"]

KEPT_RECEIPTS: Final = 1024
_HOUR_MS: Final = 3_600_000
_KEPT_HOURS: Final = 7 * 24
_KEPT_MS: Final = _KEPT_HOURS * _HOUR_MS
_FULL: Final = 64 * 3  # numbers in a page

Longs = npt.NDArray[np.int64]
PairLike: TypeAlias = tuple[int, int, int]
_Page: TypeAlias = "array[int]"


class Pair(NamedTuple):
    """A producer and a queue; interchangeable with a plain tuple."""

    producer_id: int
    topic_id: int
    queue_id: int


class Receipt(NamedTuple):
    """The queue offset and the store time (ms) of a record."""

    queue_offset: int
    store_timestamp: int


# A changed page: the pair, the page, the count of its numbers, and the sequence after its last run.
# Numbers that are appended later are not included. If the count is 0, the page was dropped.
TouchedPage: TypeAlias = "tuple[PairLike, array[int], int, int]"


class _Runs:
    """The runs of one pair."""

    __slots__ = ("earlier", "next", "owner", "page")

    def __init__(self, owner: object, next_sequence: int, page: _Page, earlier: list[_Page]) -> None:
        self.owner = owner
        self.next = next_sequence
        self.page = page  # the last one
        self.earlier = earlier

    @property
    def pages(self) -> list[_Page]:
        return [*self.earlier, self.page]

    @property
    def time(self) -> int:
        """The store time of the last record."""
        return self.page[-1]


class Producers:
    """The sequences of all pairs. Only the writer changes them."""

    def __init__(self) -> None:
        self._owner = object()  # copy-on-write: runs of another owner are shared with a copy
        self._pairs: dict[PairLike, _Runs] = {}
        self._hour = 0  # of the latest record

    def __len__(self) -> int:
        return len(self._pairs)

    # Queries --------------------------------------------------------------------------------------

    def expected(self, pair: PairLike) -> int:
        """Return the sequence that the next record of ``pair`` must have."""
        known = self._pairs.get(pair)
        return 0 if known is None else known.next

    def receipt(self, pair: PairLike, sequence: int) -> Receipt | None:
        """Return the receipt of one of the last 1,024 records of ``pair``, or ``None``."""
        known = self._pairs.get(pair)
        if known is None or not known.next - KEPT_RECEIPTS <= sequence < known.next:
            return None
        for page in reversed(known.pages):
            if page[0] <= sequence:
                low, high = 0, len(page) // 3  # bisect for the run that contains the sequence
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if page[3 * middle] <= sequence else (low, middle)
                first, offset, time = page[3 * low : 3 * low + 3]
                return Receipt(offset + sequence - first, time)
        return None

    # Changes --------------------------------------------------------------------------------------

    def add_records(
        self,
        producer_ids: npt.NDArray[np.uint64],
        sequences: Longs,
        topic_ids: Longs | int,
        queue_ids: Longs | int,
        queue_offsets: Longs,
        store_timestamps: Longs | int,
    ) -> list[TouchedPage]:
        """Add appended records of kind message without an origin; return the changed pages.

        Records without a producer are ignored.
        """
        sent = ProducerColumns(producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps)
        return self.add_runs(find_producer_runs(sent, apart_ms=_KEPT_MS))

    def add_runs(self, runs: ProducerRuns) -> list[TouchedPage]:
        """Add records that are already grouped into runs; return the changed pages.

        The runs of a producer must also end where more than seven days are between two records.
        """
        touched: list[TouchedPage] = []
        groups, table = runs
        pairs, owner = self._pairs, self._owner
        begin = 0
        for key, next_sequence, end in groups:
            known = pairs.get(key)
            if known is not None and known.owner is owner and known.next == table[begin]:
                page, time = known.page, table[begin + 2]
                free, late = _FULL - len(page), time - page[-1]
                if end - begin <= free and late <= _KEPT_MS:
                    # By far the most frequent case: the expected sequence, and free space.
                    if late == 0 and _continues_run(page, known.next, table[begin + 1]):
                        begin += 3
                    page.extend(table[begin:end])
                    known.next = next_sequence
                    touched.append((key, page, len(page), next_sequence))
                    if known.earlier:
                        _drop_old_pages(key, known, touched)
                    begin = end
                    continue
            self._add(key, table[begin:end], next_sequence, touched)
            begin = end
        return touched

    def _add(self, key: PairLike, runs: _Page, next_sequence: int, touched: list[TouchedPage]) -> None:
        """Add runs of one pair with consecutive sequences, the last ending at ``next_sequence``."""
        known = self._pairs.get(key)
        if known is not None and known.next == runs[0] and not _is_expired(known.time, runs[2]):
            self._extend(key, known, runs, next_sequence, touched)
            return
        for at in range(0, len(runs), 3):
            first, offset, time = runs[at : at + 3]
            run_end = runs[at + 3] if at + 3 < len(runs) else next_sequence
            known = self._pairs.get(key)
            if known is not None and (_is_expired(known.time, time) or first > known.next):
                touched += _dropped_pages(key, known)
                known = None
            if known is None:
                known = self._pairs[key] = _Runs(self._owner, first, array("q"), [])
            new = max(first, known.next)
            if new < run_end:
                self._extend(key, known, array("q", (new, offset + new - first, time)), run_end, touched)

    def _extend(self, key: PairLike, known: _Runs, runs: _Page, next_sequence: int, touched: list[TouchedPage]) -> None:
        """Append runs that begin with the expected sequence and do not come after the expiry."""
        if known.owner is not self._owner:
            known = self._pairs[key] = _Runs(self._owner, known.next, known.page[:], known.earlier[:])
        page = known.page
        at = 3 if page and runs[2] == page[-1] and _continues_run(page, known.next, runs[1]) else 0
        while True:
            until = min(len(runs), at + _FULL - len(page))
            page.extend(runs[at:until])
            touched.append((key, page, len(page), next_sequence if until == len(runs) else runs[until]))
            if until == len(runs):
                break
            known.earlier.append(page)
            page = known.page = array("q")
            at = until
        known.next = next_sequence
        _drop_old_pages(key, known, touched)

    def expire(self, now: int) -> list[TouchedPage]:
        """Expire pairs as of ``now``, the store time of the latest record; return the pages."""
        touched: list[TouchedPage] = []
        hour = now // _HOUR_MS
        if hour > self._hour:
            self._hour = hour
            for key in [key for key, known in self._pairs.items() if _is_expired(known.time, now)]:
                touched += _dropped_pages(key, self._pairs.pop(key))
        return touched

    def forget_topic(self, topic_id: int) -> list[TouchedPage]:
        """Forget the pairs of a deleted topic; its id is never used again."""
        touched: list[TouchedPage] = []
        for key in [key for key in self._pairs if key[1] == topic_id]:
            touched += _dropped_pages(key, self._pairs.pop(key))
        return touched

    # Rows -----------------------------------------------------------------------------------------

    def copy(self) -> Producers:
        """Return an independent copy, which shares its pages until they change."""
        other = Producers()
        other._pairs, other._hour = dict(self._pairs), self._hour
        self._owner = object()
        return other

    def rows(self) -> Iterator[Row]:
        """Yield one row for each page, in a fixed order."""
        for key in sorted(self._pairs):
            known = self._pairs[key]
            ends = [*(page[0] for page in known.pages[1:]), known.next]
            yield from (runs_row((key, page, len(page), end)) for page, end in zip(known.pages, ends, strict=True))

    def put(self, row: ProducerRunsRow) -> None:
        """Load a page from a row of a snapshot."""
        if not row.lengths:
            return
        page = array("q")
        sequence, offset, time = row.first, 0, 0
        for length, offset_step, time_step in zip(row.lengths, row.offset_steps, row.time_steps, strict=True):
            offset += offset_step
            time += time_step
            page.extend((sequence, offset, time))
            sequence += length
            offset += length
        key = (row.producer_id, row.topic_id, row.queue_id)
        known = self._pairs.get(key)
        if known is None:
            self._pairs[key] = _Runs(self._owner, sequence, page, [])
            return
        known.next = max(known.next, sequence)
        *known.earlier, known.page = sorted([*known.pages, page], key=itemgetter(0))


def runs_row(touched: TouchedPage) -> Row:
    """Encode a page as a row: of each run its length, and the steps of offset and time to it."""
    (producer_id, topic_id, queue_id), page, count, next_sequence = touched
    row = ProducerRunsRow(producer_id=producer_id, topic_id=topic_id, queue_id=queue_id, first=page[0])
    if count:
        numbers = page[:count]  # a copy: the writer may be appending
        firsts, offsets, times = numbers[::3], numbers[1::3], numbers[2::3]
        lengths = [end - first for first, end in zip(firsts, [*firsts[1:], next_sequence], strict=True)]
        row.lengths.extend(lengths)
        steps = (b - a - n for a, b, n in zip(offsets, offsets[1:], lengths, strict=False))
        row.offset_steps.extend([offsets[0], *steps])
        row.time_steps.extend([times[0], *(b - a for a, b in pairwise(times))])
    return Row(producer_runs=row)


def _is_expired(then: int, now: int) -> bool:
    return now // _HOUR_MS - then // _HOUR_MS > _KEPT_HOURS


def _continues_run(page: _Page, sequence: int, offset: int) -> bool:
    """Return whether record ``sequence`` at queue ``offset`` continues the last run of ``page``."""
    return offset - page[-2] == sequence - page[-3]


def _dropped_pages(key: PairLike, known: _Runs) -> Iterable[TouchedPage]:
    return [(key, page, 0, 0) for page in known.pages]


def _drop_old_pages(key: PairLike, known: _Runs, touched: list[TouchedPage]) -> None:
    earlier = known.earlier
    while earlier and known.next - (earlier[1] if len(earlier) > 1 else known.page)[0] >= KEPT_RECEIPTS:
        touched.append((key, earlier.pop(0), 0, 0))
