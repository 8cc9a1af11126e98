"""Which records of each producer are in the log already: by these a broker knows what was sent twice, and what is missing in between.

A *pair* is a producer and a queue that it writes to. Its records are numbered from 0 without a gap, so that all there is to know is the next
number, and where the latest of them went. That is kept in runs: records with consecutive numbers, at consecutive offsets of the queue, stored
at one time. A run is three numbers (its first sequence, that record's queue offset, the store time) and ends where the next one begins.
Runs stand in pages of 64; a page is only ever appended to, and goes when the pages behind it hold the last 1,024 records.

A pair takes about half a kilobyte, and at most 30 KiB: when each of its last 1,024 records is a run of its own.

All of it is a function of the log, however its records come, in batches or in windows of a replay:

- A record whose sequence was there before is ignored; the first one stands.
- One that comes after a gap begins the pair anew, at its own sequence. A broker refuses gaps before it appends; but another may have
  written the log, or the pair may have been forgotten between the look and the record.
- A pair is forgotten at the first full hour that is at least seven days after its last record: full hours by the store times of the records
  (of any kind), so that all pairs are looked through once an hour, and everyone who reads the log forgets at the same record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from litemq.format.batches.producer_runs import Sent, Stretches, stretches_of
from litemq.proto.control_pb2 import ProducerRuns, Row

__all__ = ["KEPT_RECEIPTS", "Pair", "Producers", "Receipt", "Touched", "runs_row"]

KEPT_RECEIPTS: Final = 1024
_HOUR_MS: Final = 3_600_000
_KEPT_HOURS: Final = 7 * 24
_KEPT_MS: Final = _KEPT_HOURS * _HOUR_MS
_FULL: Final = 64 * 3  # numbers in a page

Longs = npt.NDArray[np.int64]
PairLike: TypeAlias = tuple[int, int, int]
_Page: TypeAlias = "array[int]"


class Pair(NamedTuple):
    """A producer and a queue. A plain tuple of the three means the same."""

    producer_id: int
    topic_id: int
    queue_id: int


class Receipt(NamedTuple):
    """Where a record went, and when."""

    queue_offset: int
    store_timestamp: int


# A page that is different now: the pair, the page, how many numbers of it are meant, and the sequence behind its last run. What is appended to
# it later is not meant. No numbers: the page is gone.
Touched: TypeAlias = "tuple[PairLike, array[int], int, int]"


class _Runs:
    """What is known of one pair."""

    __slots__ = ("earlier", "next", "owner", "page")

    def __init__(self, owner: object, following: int, page: _Page, earlier: list[_Page]) -> None:
        self.owner = owner
        self.next = following
        self.page = page  # the last one
        self.earlier = earlier

    @property
    def pages(self) -> list[_Page]:
        return [*self.earlier, self.page]

    @property
    def time(self) -> int:
        """When the last record was stored."""
        return self.page[-1]


class Producers:
    """The sequences of all pairs. Changed by the writer alone."""

    def __init__(self) -> None:
        self._owner = object()  # runs of another owner are shared with a copy, and are cloned before they change
        self._pairs: dict[PairLike, _Runs] = {}
        self._hour = 0  # of the latest record

    def __len__(self) -> int:
        return len(self._pairs)

    # Asking -------------------------------------------------------------------------------------------------------------------

    def expected(self, pair: PairLike) -> int:
        """The sequence that the pair's next record must have."""
        known = self._pairs.get(pair)
        return 0 if known is None else known.next

    def receipt(self, pair: PairLike, sequence: int) -> Receipt | None:
        """Where one of the pair's last 1,024 records went; ``None`` for all others."""
        known = self._pairs.get(pair)
        if known is None or not known.next - KEPT_RECEIPTS <= sequence < known.next:
            return None
        for page in reversed(known.pages):
            if page[0] <= sequence:
                low, high = 0, len(page) // 3  # the run that begins at or before it
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if page[3 * middle] <= sequence else (low, middle)
                first, offset, time = page[3 * low : 3 * low + 3]
                return Receipt(offset + sequence - first, time)
        return None

    # Changing -----------------------------------------------------------------------------------------------------------------

    def took(
        self,
        producer_ids: npt.NDArray[np.uint64],
        sequences: Longs,
        topic_ids: Longs | int,
        queue_ids: Longs | int,
        queue_offsets: Longs,
        store_timestamps: Longs | int,
    ) -> list[Touched]:
        """Records of kind message and without origin are in the log; returns what is different now. Those without a producer do not count."""
        sent = Sent(producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps)
        return self.take(stretches_of(sent, apart_ms=_KEPT_MS))

    def take(self, sent: Stretches) -> list[Touched]:
        """The same, of records that are cut already: also where more than seven days are between two of them."""
        touched: list[Touched] = []
        stretches, table = sent
        pairs, owner = self._pairs, self._owner
        begin = 0
        for key, following, end in stretches:
            known = pairs.get(key)
            if known is not None and known.owner is owner and known.next == table[begin]:
                page, time = known.page, table[begin + 2]
                room, late = _FULL - len(page), time - page[-1]
                if end - begin <= room and late <= _KEPT_MS:
                    # By far the most frequent case: what was expected, and there is room for it.
                    if late == 0 and _goes_on(page, known.next, table[begin + 1]):
                        begin += 3
                    page.extend(table[begin:end])
                    known.next = following
                    touched.append((key, page, len(page), following))
                    if known.earlier:
                        _drop_old_pages(key, known, touched)
                    begin = end
                    continue
            self._take(key, table[begin:end], following, touched)
            begin = end
        return touched

    def _take(self, key: PairLike, runs: _Page, following: int, touched: list[Touched]) -> None:
        """Runs of one pair, each going on with the sequence where the one before it ends, the last ending at ``following``."""
        known = self._pairs.get(key)
        if known is not None and known.next == runs[0] and not _is_forgotten(known.time, runs[2]):
            self._extend(key, known, runs, following, touched)
            return
        for at in range(0, len(runs), 3):
            first, offset, time = runs[at : at + 3]
            behind = runs[at + 3] if at + 3 < len(runs) else following
            known = self._pairs.get(key)
            if known is not None and (_is_forgotten(known.time, time) or first > known.next):
                touched += _gone(key, known)
                known = None
            if known is None:
                known = self._pairs[key] = _Runs(self._owner, first, array("q"), [])
            new = max(first, known.next)
            if new < behind:
                self._extend(key, known, array("q", (new, offset + new - first, time)), behind, touched)

    def _extend(self, key: PairLike, known: _Runs, runs: _Page, following: int, touched: list[Touched]) -> None:
        """What was expected, and not too late."""
        if known.owner is not self._owner:
            known = self._pairs[key] = _Runs(self._owner, known.next, known.page[:], known.earlier[:])
        page = known.page
        at = 3 if page and runs[2] == page[-1] and _goes_on(page, known.next, runs[1]) else 0
        while True:
            until = min(len(runs), at + _FULL - len(page))
            page.extend(runs[at:until])
            touched.append((key, page, len(page), following if until == len(runs) else runs[until]))
            if until == len(runs):
                break
            known.earlier.append(page)
            page = known.page = array("q")
            at = until
        known.next = following
        _drop_old_pages(key, known, touched)

    def expire(self, now: int) -> list[Touched]:
        """A record was stored at ``now``, after all those that were taken: forget who has not written for seven days."""
        touched: list[Touched] = []
        hour = now // _HOUR_MS
        if hour > self._hour:
            self._hour = hour
            for key in [key for key, known in self._pairs.items() if _is_forgotten(known.time, now)]:
                touched += _gone(key, self._pairs.pop(key))
        return touched

    def forget_topic(self, topic_id: int) -> list[Touched]:
        """A topic is deleted: nothing more comes to it, and one that is created in its place has another number."""
        touched: list[Touched] = []
        for key in [key for key in self._pairs if key[1] == topic_id]:
            touched += _gone(key, self._pairs.pop(key))
        return touched

    # The whole of it ----------------------------------------------------------------------------------------------------------

    def copy(self) -> Producers:
        """As it is now, while this one goes on: what changes is cloned then."""
        other = Producers()
        other._pairs, other._hour = dict(self._pairs), self._hour
        self._owner = object()
        return other

    def rows(self) -> Iterator[Row]:
        """A row a page, in one order."""
        for key in sorted(self._pairs):
            known = self._pairs[key]
            ends = [*(page[0] for page in known.pages[1:]), known.next]
            yield from (runs_row((key, page, len(page), end)) for page, end in zip(known.pages, ends, strict=True))

    def put(self, row: ProducerRuns) -> None:
        """Take in a page as a row tells it."""
        if not row.lengths:
            return
        page = array("q")
        following, offset, time = row.first, 0, 0
        for length, offset_step, time_step in zip(row.lengths, row.offset_steps, row.time_steps, strict=True):
            offset += offset_step
            time += time_step
            page.extend((following, offset, time))
            following += length
            offset += length
        key = (row.producer_id, row.topic_id, row.queue_id)
        known = self._pairs.get(key)
        if known is None:
            self._pairs[key] = _Runs(self._owner, following, page, [])
            return
        known.next = max(known.next, following)
        *known.earlier, known.page = sorted([*known.pages, page], key=itemgetter(0))


def runs_row(touched: Touched) -> Row:
    """A page as a row: the length of each run, and how far its offset and time are from where the one before it ended."""
    (producer_id, topic_id, queue_id), page, count, following = touched
    row = ProducerRuns(producer_id=producer_id, topic_id=topic_id, queue_id=queue_id, first=page[0])
    if count:
        numbers = page[:count]  # a copy: the writer may be appending
        firsts, offsets, times = numbers[::3], numbers[1::3], numbers[2::3]
        lengths = [behind - first for first, behind in zip(firsts, [*firsts[1:], following], strict=True)]
        row.lengths.extend(lengths)
        row.offset_steps.extend([offsets[0], *(b - a - n for a, b, n in zip(offsets, offsets[1:], lengths, strict=False))])
        row.time_steps.extend([times[0], *(b - a for a, b in pairwise(times))])
    return Row(producer_runs=row)


def _is_forgotten(then: int, now: int) -> bool:
    return now // _HOUR_MS - then // _HOUR_MS > _KEPT_HOURS


def _goes_on(page: _Page, following: int, offset: int) -> bool:
    """Whether a record with the sequence ``following`` at a queue offset continues the last run of a page."""
    return offset - page[-2] == following - page[-3]


def _gone(key: PairLike, known: _Runs) -> Iterable[Touched]:
    return [(key, page, 0, 0) for page in known.pages]


def _drop_old_pages(key: PairLike, known: _Runs, touched: list[Touched]) -> None:
    earlier = known.earlier
    while earlier and known.next - (earlier[1] if len(earlier) > 1 else known.page)[0] >= KEPT_RECEIPTS:
        touched.append((key, earlier.pop(0), 0, 0))
