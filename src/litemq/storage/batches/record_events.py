"""Events of stored records for the state.

Plain messages and control records have none. Timers, halves and ticks become one event for many
records, all others one event each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.format.columns.record_columns import RecordColumns
from litemq.format.columns.string_lists import Strings, all_equal
from litemq.format.dead_letters import TRANSACTION_PROPERTY
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_list, decode_record
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS, TRANSACTION_PREFIX
from litemq.storage.state.jobs.jobs import JOB_NUMBER_BITS, TicksPlaced
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.state.transactions.half_events import HalfEvent, HalfMoved, HalvesCopied, HalvesPlaced
from litemq.types import RecordKind

__all__ = ["numbered_events"]

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_Stretch = tuple[int, int]  # the indexes of chosen records: first, end
_COMMITTED: Final = int(RecordKind.COMMITTED)  # enum lookups are slow
_FIRED: Final = int(RecordKind.FIRED)
_CHECK_AFTER: Final = CHECK_AFTER.encode()
_MAX_CHECKS: Final = MAX_CHECKS.encode()


def numbered_events(columns: RecordColumns, log_offsets: Longs) -> list[tuple[int, PlacedEvent]]:
    """Return the events of ``columns``, each with the index of its first record, in order."""
    header = columns.header
    kinds, origins = header["kind"], header["origin"]
    if kinds.size and (kinds == _FIRED).all():  # the broker appends fired timers together
        return [(0, _fired(columns, log_offsets, np.arange(kinds.size)))]
    are_halves = (kinds == RecordKind.HALF) | (kinds == RecordKind.COMMITTED)
    are_new_timers = (kinds == RecordKind.PENDING) & (origins < 0) & (header["consume_count"] == 0)
    are_fired = kinds == RecordKind.FIRED
    are_ticks = (kinds == RecordKind.MESSAGE) & (origins >= 0) & (origins & 7 == JOB_NUMBER_BITS)
    are_events = (kinds != RecordKind.MESSAGE) | (origins >= 0)
    alone = are_events & (kinds != RecordKind.CONTROL) & ~are_halves & ~are_new_timers & ~are_fired & ~are_ticks
    found: list[tuple[int, PlacedEvent]] = []
    if alone.any():
        found += _placed(columns, log_offsets, np.flatnonzero(alone))
    if are_new_timers.any():
        found += _new_timers(columns, log_offsets, are_new_timers, are_events)
    if are_fired.any():
        found += _fired_timers(columns, log_offsets, are_fired, are_events)
    if are_halves.any():
        found += _halves(columns, log_offsets, np.flatnonzero(are_halves))
    if are_ticks.any():
        found += _ticks(columns, log_offsets, are_ticks, are_events)
    found.sort(key=itemgetter(0))
    return found


def _ticks(
    columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools
) -> Iterator[tuple[int, TicksPlaced]]:
    header, names = columns.header, ("origin", "delay_time", "topic_id", "queue_id", "queue_offset", "store_timestamp")
    for some in _uninterrupted(chosen, are_events):
        numbers, ticks, topic_ids, queue_ids, offsets, times = (header[name][some].astype(np.int64) for name in names)
        yield int(some[0]), TicksPlaced(numbers, ticks, topic_ids, queue_ids, offsets, log_offsets[some], times)


def _new_timers(
    columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools
) -> Iterator[tuple[int, TimersBegun]]:
    for which in _uninterrupted(chosen, are_events):
        dues, sizes = (columns.header[name][which].astype(np.int64) for name in ("delay_time", "size"))
        yield int(which[0]), TimersBegun(log_offsets[which], dues, sizes)


def _fired_timers(
    columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools
) -> Iterator[tuple[int, TimersFired]]:
    for which in _uninterrupted(chosen, are_events):
        yield int(which[0]), _fired(columns, log_offsets, which)


def _fired(columns: RecordColumns, log_offsets: Longs, which: Longs) -> TimersFired:
    origins, dues, sizes = (columns.header[name][which].astype(np.int64) for name in ("origin", "delay_time", "size"))
    return TimersFired(log_offsets[which], origins, dues, sizes)


def _uninterrupted(chosen: Bools, are_events: Bools) -> list[Longs]:
    """Return the indexes of ``chosen`` records, in groups without another event in between."""
    which = np.flatnonzero(chosen)
    return np.split(which, np.flatnonzero(np.diff(np.cumsum(are_events & ~chosen)[which])) + 1)


def _placed(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, PlacedRecord]]:
    chosen = columns.header[which]
    names = ("origin", "topic_id", "queue_id", "queue_offset", "consume_count", "delay_time", "size", "store_timestamp")
    rows = zip(
        which.tolist(),
        log_offsets[which].tolist(),
        chosen["kind"].tolist(),
        *(chosen[name].tolist() for name in names),
        strict=True,
    )
    for number, log_offset, kind, *rest in rows:
        record = PlacedRecord(log_offset, RecordKind(kind), *rest)
        if record.kind is RecordKind.DEAD:
            at = int(columns.starts[number])
            dead = decode_record(bytes(columns.buffer[at : at + record.size]), limits=STORED_LIMITS)
            properties, message_id = dead.record.properties, dead.record.message_id
            transaction = properties.get(TRANSACTION_PROPERTY, "")
            record = record._replace(properties=properties, transaction=transaction, message_id=message_id)
        elif record.kind is RecordKind.PENDING and record.origin >= 0:
            record = record._replace(transaction=_text(columns, columns.part("transaction_id"), number))
        yield number, record


def _halves(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, HalfEvent]]:
    names = columns.part("transaction_id")
    are_producers = _begin_with(columns.data, names, TRANSACTION_PREFIX.encode())[which]
    if are_producers.any():
        yield from _producers_halves(columns, log_offsets, which[are_producers])
    sinks = which[~are_producers]
    if sinks.size:
        yield from _sink_halves(columns, log_offsets, sinks)


def _producers_halves(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, HalfEvent]]:
    """Yield one event for each half of producers' transactions.

    Most of these transactions have a single half, and retention carries each half forward on its
    own.
    """
    chosen, buffer = columns.header[which], columns.buffer
    transactions, topics, properties = (
        columns.part(name).select(which) for name in ("transaction_id", "topic", "properties")
    )
    numbers = ("kind", "origin", "queue_id", "queue_offset", "size", "store_timestamp")
    rows = zip(
        which.tolist(),
        log_offsets[which].tolist(),
        *(strings.tolist() for part in (transactions, topics, properties) for strings in part),
        *(chosen[name].tolist() for name in numbers),
        strict=True,
    )
    for (
        number,
        at,
        name_at,
        name_size,
        topic_at,
        topic_size,
        properties_at,
        properties_size,
        kind,
        origin,
        queue_id,
        half_offset,
        size,
        time,
    ) in rows:
        transaction = str(buffer[name_at : name_at + name_size], "utf-8")
        if kind == _COMMITTED:
            yield number, HalvesCopied(transaction, 1)
        elif origin >= 0:
            yield number, HalfMoved(transaction, origin, at, half_offset)
        else:
            topic = str(buffer[topic_at : topic_at + topic_size], "utf-8")
            placed = HalvesPlaced(transaction, topic, 0, queue_id, at, at, half_offset, 1, size, time)
            if properties_size:
                placed = _with_check_settings(placed, bytes(buffer[properties_at : properties_at + properties_size]))
            yield number, placed


def _begin_with(data: npt.NDArray[np.uint8], strings: Strings, prefix: bytes) -> npt.NDArray[np.bool_]:
    """Return which ``strings`` begin with ``prefix``.

    The transaction of a sink may match, too, if its query has such a name: a sink's records decide
    it.
    """
    alike = strings.lengths >= len(prefix)
    for number, byte in enumerate(prefix):
        alike &= data[np.minimum(strings.positions + number, data.size - 1)] == byte
    return alike


def _sink_halves(
    columns: RecordColumns, log_offsets: Longs, which: Longs
) -> Iterator[tuple[int, HalvesPlaced | HalvesCopied]]:
    chosen = columns if which.size == len(columns) else columns.subset(which)  # reuse what ``columns`` has cached
    log_offsets = log_offsets[which]
    header = chosen.header
    transactions, topics = chosen.part("transaction_id"), chosen.part("topic")
    queue_offsets, sizes, times = (
        header[name].astype(np.int64) for name in ("queue_offset", "size", "store_timestamp")
    )
    for first, end in _stretches(chosen, which, queue_offsets, transactions, topics):
        transaction = _text(chosen, transactions, first)
        if header["kind"][first] == RecordKind.COMMITTED:
            yield int(which[first]), HalvesCopied(transaction, end - first)
        else:
            yield (
                int(which[first]),
                HalvesPlaced(
                    transaction,
                    _text(chosen, topics, first),
                    0,
                    int(header["queue_id"][first]),
                    int(log_offsets[first]),
                    int(log_offsets[end - 1]),
                    int(queue_offsets[first]),
                    end - first,
                    int(sizes[first:end].sum()),
                    int(times[end - 1]),
                ),
            )


def _with_check_settings(placed: HalvesPlaced, properties: bytes) -> HalvesPlaced:
    """Return ``placed`` with the check settings in ``properties``, if there are any."""
    if _CHECK_AFTER not in properties and _MAX_CHECKS not in properties:
        return placed
    words = decode_list(properties, 0, len(properties), 0, len(properties), len(properties))
    values = dict(zip(words[::2], words[1::2], strict=False))
    check_after_ms, max_checks = _number(values.get(CHECK_AFTER, "")), _number(values.get(MAX_CHECKS, ""))
    return placed._replace(check_after_ms=check_after_ms, max_checks=max_checks)


def _number(text: str) -> int:
    """Parse a property; 0 if it is not a number or too large to be meant."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _stretches(
    chosen: RecordColumns, which: Longs, queue_offsets: Longs, transactions: Strings, topics: Strings
) -> Iterator[_Stretch]:
    """Yield stretches of halves or copies of one transaction and topic.

    The records of a stretch are consecutive in the log and in their queue.
    """
    header = chosen.header
    apart = (np.diff(which) != 1) | (np.diff(queue_offsets) != 1)
    apart |= (np.diff(transactions.lengths) != 0) | (np.diff(topics.lengths) != 0)
    for name in ("kind", "queue_id"):
        apart |= header[name][1:] != header[name][:-1]
    for first, end in pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(chosen)]):
        some = slice(first, end)
        if all_equal(chosen.data, transactions.select(some)) and all_equal(chosen.data, topics.select(some)):
            yield first, end
            continue
        names = [(_text(chosen, transactions, number), _text(chosen, topics, number)) for number in range(first, end)]
        cuts = [number for number in range(1, len(names)) if names[number] != names[number - 1]]
        for begin, stop in pairwise([0, *cuts, len(names)]):
            yield first + begin, first + stop


def _text(columns: RecordColumns, strings: Strings, number: int) -> str:
    at, length = int(strings.positions[number]), int(strings.lengths[number])
    return bytes(columns.buffer[at : at + length]).decode()
