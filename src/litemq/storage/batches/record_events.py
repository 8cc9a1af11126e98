"""What stored records say that are no plain messages and no control records: each for itself, but timers, halves and ticks many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.format.columns.record_columns import RecordColumns
from litemq.format.columns.string_lists import Strings, all_alike
from litemq.format.dead_letters import TRANSACTION_OF
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_list, decode_record
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS, TRANSACTION_PREFIX
from litemq.storage.state.jobs.jobs import JOB_NUMBER_BITS, TicksPlaced
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.state.transactions.half_runs import HalfEvent, HalfMoved, HalvesCopied, HalvesPlaced
from litemq.types import RecordKind

__all__ = ["numbered_events"]

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_Stretch = tuple[int, int]  # of the chosen records: from … to
_COMMITTED: Final = int(RecordKind.COMMITTED)  # a member of an enum costs much to look up
_FIRED: Final = int(RecordKind.FIRED)
_CHECK_AFTER: Final = CHECK_AFTER.encode()
_MAX_CHECKS: Final = MAX_CHECKS.encode()


def numbered_events(columns: RecordColumns, log_offsets: Longs) -> list[tuple[int, PlacedEvent]]:
    """What some records say, with their numbers; of many timers, halves or ticks it is the first one's."""
    header = columns.header
    kinds, origins = header["kind"], header["origin"]
    if kinds.size and (kinds == _FIRED).all():  # as the broker appends them
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


def _ticks(columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools) -> Iterator[tuple[int, TicksPlaced]]:
    """Messages of jobs, in the same way."""
    header, names = columns.header, ("origin", "delay_time", "topic_id", "queue_id", "queue_offset", "store_timestamp")
    for some in _together(chosen, are_events):
        numbers, ticks, topic_ids, queue_ids, offsets, times = (header[name][some].astype(np.int64) for name in names)
        yield int(some[0]), TicksPlaced(numbers, ticks, topic_ids, queue_ids, offsets, log_offsets[some], times)


def _new_timers(columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools) -> Iterator[tuple[int, TimersBegun]]:
    """Those that begin to wait, together as far as nothing else is said between them."""
    for which in _together(chosen, are_events):
        dues, sizes = (columns.header[name][which].astype(np.int64) for name in ("delay_time", "size"))
        yield int(which[0]), TimersBegun(log_offsets[which], dues, sizes)


def _fired_timers(columns: RecordColumns, log_offsets: Longs, chosen: Bools, are_events: Bools) -> Iterator[tuple[int, TimersFired]]:
    """Those that are delivered, in the same way."""
    for which in _together(chosen, are_events):
        yield int(which[0]), _fired(columns, log_offsets, which)


def _fired(columns: RecordColumns, log_offsets: Longs, which: Longs) -> TimersFired:
    origins, dues, sizes = (columns.header[name][which].astype(np.int64) for name in ("origin", "delay_time", "size"))
    return TimersFired(log_offsets[which], origins, dues, sizes)


def _together(chosen: Bools, are_events: Bools) -> list[Longs]:
    """The numbers of chosen records, in groups between which other events stand."""
    which = np.flatnonzero(chosen)
    return np.split(which, np.flatnonzero(np.diff(np.cumsum(are_events & ~chosen)[which])) + 1)


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
    names = columns.part("transaction_id")
    are_producers = _begin_with(columns.data, names, TRANSACTION_PREFIX.encode())[which]
    if are_producers.any():
        yield from _producers_halves(columns, log_offsets, which[are_producers])
    jobs = which[~are_producers]
    if jobs.size:
        yield from _job_halves(columns, log_offsets, jobs)


def _producers_halves(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, HalfEvent]]:
    """Those of producers, each for itself: most are alone in their transaction, and each may be carried forward for itself."""
    chosen, buffer = columns.header[which], columns.buffer
    transactions, topics, properties = (columns.part(name).chosen(which) for name in ("transaction_id", "topic", "properties"))
    numbers = ("kind", "origin", "queue_id", "queue_offset", "size", "store_timestamp")
    rows = zip(
        which.tolist(),
        log_offsets[which].tolist(),
        *(strings.tolist() for part in (transactions, topics, properties) for strings in part),
        *(chosen[name].tolist() for name in numbers),
        strict=True,
    )
    for number, at, name_at, name_size, topic_at, topic_size, told_at, told_size, kind, origin, queue_id, place, size, time in rows:
        transaction = str(buffer[name_at : name_at + name_size], "utf-8")
        if kind == _COMMITTED:
            yield number, HalvesCopied(transaction, 1)
        elif origin >= 0:
            yield number, HalfMoved(transaction, origin, at, place)
        else:
            topic = str(buffer[topic_at : topic_at + topic_size], "utf-8")
            placed = HalvesPlaced(transaction, topic, 0, queue_id, at, at, place, 1, size, time)
            yield number, _with_check_terms(placed, bytes(buffer[told_at : told_at + told_size])) if told_size else placed


def _begin_with(data: npt.NDArray[np.uint8], strings: Strings, prefix: bytes) -> npt.NDArray[np.bool_]:
    """Which strings begin with some bytes. A job's transaction may, too, where its query is named so: it is told by what it does."""
    alike = strings.lengths >= len(prefix)
    for number, byte in enumerate(prefix):
        alike &= data[np.minimum(strings.positions + number, data.size - 1)] == byte
    return alike


def _job_halves(columns: RecordColumns, log_offsets: Longs, which: Longs) -> Iterator[tuple[int, HalvesPlaced | HalvesCopied]]:
    chosen = columns if which.size == len(columns) else columns.subset(which)  # all of them: what is known of them already is used
    log_offsets = log_offsets[which]
    header = chosen.header
    transactions, topics = chosen.part("transaction_id"), chosen.part("topic")
    queue_offsets, sizes, times = (header[name].astype(np.int64) for name in ("queue_offset", "size", "store_timestamp"))
    for first, behind in _stretches(chosen, which, queue_offsets, transactions, topics):
        transaction = _text(chosen, transactions, first)
        if header["kind"][first] == RecordKind.COMMITTED:
            yield int(which[first]), HalvesCopied(transaction, behind - first)
        else:
            yield (
                int(which[first]),
                HalvesPlaced(
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
                ),
            )


def _with_check_terms(placed: HalvesPlaced, properties: bytes) -> HalvesPlaced:
    """With when the producer of a half wants to be asked for its outcome, and how often, if the half's properties say so."""
    if _CHECK_AFTER not in properties and _MAX_CHECKS not in properties:
        return placed
    words = decode_list(properties, 0, len(properties), 0, len(properties), len(properties))
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
