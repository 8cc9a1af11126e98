"""What stored records say that are no plain messages and no control records: each for itself, but new timers, halves and ticks many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from litemq.format.columns import RecordColumns
from litemq.format.dead_letters import TRANSACTION_OF
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import decode_list, decode_record
from litemq.format.strings import Strings, all_alike
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS, is_producers
from litemq.storage.state.delivery import PlacedEvent, PlacedRecord
from litemq.storage.state.half_runs import HalfEvent, HalfMoved, HalvesCopied, HalvesPlaced
from litemq.storage.state.jobs import JOB_NUMBER_BITS, TicksPlaced
from litemq.storage.state.timers import TimersBegun
from litemq.types import RecordKind

__all__ = ["numbered_events"]

Longs = npt.NDArray[np.int64]
_Stretch = tuple[int, int]  # of the chosen records: from … to


def numbered_events(columns: RecordColumns, log_offsets: Longs) -> list[tuple[int, PlacedEvent]]:
    """What some records say, with their numbers; of many timers, halves or ticks it is the first one's."""
    header = columns.header
    kinds, origins = header["kind"], header["origin"]
    are_halves = (kinds == RecordKind.HALF) | (kinds == RecordKind.COMMITTED)
    are_new_timers = (kinds == RecordKind.PENDING) & (origins < 0) & (header["consume_count"] == 0)
    are_ticks = (kinds == RecordKind.MESSAGE) & (origins >= 0) & (origins & 7 == JOB_NUMBER_BITS)
    alone = (kinds != RecordKind.CONTROL) & ((kinds != RecordKind.MESSAGE) | (origins >= 0)) & ~are_halves & ~are_new_timers & ~are_ticks
    found: list[tuple[int, PlacedEvent]] = []
    if alone.any():
        found += _placed(columns, log_offsets, np.flatnonzero(alone))
    if are_new_timers.any():
        found += _new_timers(columns, log_offsets, np.flatnonzero(are_new_timers), alone | are_halves | (kinds == RecordKind.CONTROL))
    if are_halves.any():
        found += _halves(columns, log_offsets, np.flatnonzero(are_halves))
    if are_ticks.any():
        found += _ticks(columns, log_offsets, np.flatnonzero(are_ticks))
    found.sort(key=itemgetter(0))
    return found


def _ticks(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, TicksPlaced]]:
    """Those that stand one behind another, together."""
    header, names = columns.header, ("origin", "delay_time", "topic_id", "queue_id", "queue_offset", "store_timestamp")
    for some in np.split(which, np.flatnonzero(np.diff(which) != 1) + 1):
        numbers, ticks, topic_ids, queue_ids, offsets, times = (header[name][some].astype(np.int64) for name in names)
        yield int(some[0]), TicksPlaced(numbers, ticks, topic_ids, queue_ids, offsets, log_offsets[some], times)


def _new_timers(
    columns: RecordColumns, log_offsets: Longs, which: Longs, others: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, TimersBegun]]:
    """Those that begin to wait, together as far as nothing else is said between them."""
    cuts = np.flatnonzero(np.diff(np.cumsum(others)[which])) + 1
    dues, sizes = (columns.header[name][which].astype(np.int64) for name in ("delay_time", "size"))
    for first, behind in pairwise([0, *cuts.tolist(), which.size]):
        some = slice(first, behind)
        yield int(which[first]), TimersBegun(log_offsets[which[some]], dues[some], sizes[some])


def _placed(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, PlacedRecord]]:
    chosen = columns.header[which]
    names = ("origin", "topic_id", "queue_id", "queue_offset", "consume_count", "delay_time", "size", "store_timestamp")
    rows = zip(
        which.tolist(), log_offsets[which].tolist(), chosen["kind"].tolist(), *(chosen[name].tolist() for name in names), strict=True
    )
    for number, log_offset, kind, *rest in rows:
        record = PlacedRecord(log_offset, RecordKind(kind), *rest)
        if record.kind is RecordKind.DEAD:
            at = int(columns.starts[number])
            dead = decode_record(bytes(columns.buffer[at : at + record.size]), limits=STORED_LIMITS)
            properties, message_id = dead.record.properties, dead.record.message_id
            record = record._replace(properties=properties, transaction=properties.get(TRANSACTION_OF, ""), message_id=message_id)
        elif record.kind is RecordKind.PENDING and record.origin >= 0:
            record = record._replace(transaction=_text(columns, columns.part("transaction_id"), number))
        yield number, record


def _halves(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, HalfEvent]]:
    chosen = columns if which.size == len(columns) else columns.subset(which)  # all of them: what is known of them already is used
    log_offsets = log_offsets[which]
    header = chosen.header
    transactions, topics = chosen.part("transaction_id"), chosen.part("topic")
    queue_offsets, sizes, times = (header[name].astype(np.int64) for name in ("queue_offset", "size", "store_timestamp"))
    for begin, end in _stretches(chosen, which, queue_offsets, transactions, topics):
        transaction = _text(chosen, transactions, begin)
        if header["kind"][begin] == RecordKind.COMMITTED:
            yield int(which[begin]), HalvesCopied(transaction, end - begin)
            continue
        # Those of a producer are few, and each may be carried forward for itself.
        apart = is_producers(transaction)
        for first, behind in pairwise(range(begin, end + 1)) if apart else [(begin, end)]:
            if apart and header["origin"][first] >= 0:
                place = int(log_offsets[first]), int(queue_offsets[first])
                yield int(which[first]), HalfMoved(transaction, int(header["origin"][first]), *place)
                continue
            placed = HalvesPlaced(
                transaction,
                _text(chosen, topics, first),
                0,
                int(header["queue_id"][first]),
                int(log_offsets[first]),
                int(log_offsets[behind - 1]),
                int(queue_offsets[first]),
                behind - first,
                int(sizes[first:behind].sum()),
                int(times[behind - 1]),
            )
            yield int(which[first]), _with_check_terms(placed, chosen, first) if apart else placed


def _with_check_terms(placed: HalvesPlaced, columns: RecordColumns, number: int) -> HalvesPlaced:
    """With when the producer of a half wants to be asked for its outcome, and how often, if the half says so."""
    properties = columns.part("properties")
    at, length = int(properties.positions[number]), int(properties.lengths[number])
    raw = bytes(columns.buffer[at : at + length])
    if CHECK_AFTER.encode() not in raw and MAX_CHECKS.encode() not in raw:
        return placed
    words = decode_list(raw, 0, length, 0, length, length)
    told = dict(zip(words[::2], words[1::2], strict=False))
    return placed._replace(check_after_ms=_number(told.get(CHECK_AFTER, "")), max_checks=_number(told.get(MAX_CHECKS, "")))


def _number(text: str) -> int:
    """What is no number, or one that nobody means, is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _stretches(chosen: RecordColumns, which: Longs, queue_offsets: Longs, transactions: Strings, topics: Strings) -> Iterator[_Stretch]:
    """Halves, or copies, of one transaction and topic that stand one behind another, in the log and in their queue."""
    header = chosen.header
    apart = (np.diff(which) != 1) | (np.diff(queue_offsets) != 1) | (np.diff(transactions.lengths) != 0) | (np.diff(topics.lengths) != 0)
    for name in ("kind", "queue_id"):
        apart |= header[name][1:] != header[name][:-1]
    for first, behind in pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(chosen)]):
        some = slice(first, behind)
        if all_alike(chosen.data, transactions.chosen(some)) and all_alike(chosen.data, topics.chosen(some)):
            yield first, behind
            continue
        names = [(_text(chosen, transactions, number), _text(chosen, topics, number)) for number in range(first, behind)]
        cuts = [number for number in range(1, len(names)) if names[number] != names[number - 1]]
        for begin, end in pairwise([0, *cuts, len(names)]):
            yield first + begin, first + end


def _text(columns: RecordColumns, strings: Strings, number: int) -> str:
    at, length = int(strings.positions[number]), int(strings.lengths[number])
    return bytes(columns.buffer[at : at + length]).decode()
