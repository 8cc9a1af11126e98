"""``Producers`` against a plain account of every record, in any batches."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Row
from litemq.storage.state import State, producers
from litemq.storage.state.persistence.changes import Changes
from litemq.storage.state.persistence.rows import is_gone, row_key
from litemq.storage.state.producers import Pair, Producers, TouchedPage, runs_row

HOUR = 3_600_000
NOW = 1_700_000_000_000 // HOUR * HOUR


class _Sent(NamedTuple):
    pair: Pair
    sequence: int
    offset: int
    time: int


class _Account:
    """The model: every record on its own."""

    def __init__(self) -> None:
        self.known: dict[Pair, dict[int, tuple[int, int]]] = {}

    def take(self, sent: _Sent) -> None:
        for pair in [
            pair for pair, receipts in self.known.items() if sent.time // HOUR - max(receipts.values())[1] // HOUR > 168
        ]:
            del self.known[pair]
        if sent.pair.producer_id == 0 or sent.sequence >= (1 << 63) - 1:
            return
        expected = self.expected(sent.pair)
        if sent.sequence > expected:
            self.known.pop(sent.pair, None)
        if sent.sequence >= expected:
            self.known.setdefault(sent.pair, {})[sent.sequence] = sent.offset, sent.time

    def expected(self, pair: Pair) -> int:
        return max(self.known.get(pair, {-1: ()})) + 1

    def receipt(self, pair: Pair, sequence: int) -> tuple[int, int] | None:
        if sequence < self.expected(pair) - producers.KEPT_RECEIPTS:
            return None
        return self.known.get(pair, {}).get(sequence)


def _take(known: Producers, batch: list[_Sent], *, of_one_topic: bool = False) -> list[TouchedPage]:
    times = np.array([sent.time for sent in batch])
    topics, queues = (np.array([sent.pair[at] for sent in batch]) for at in (1, 2))
    touched = known.add_records(
        np.array([sent.pair.producer_id for sent in batch], np.uint64),
        np.array([sent.sequence for sent in batch], np.uint64).astype(np.int64),
        int(topics[0]) if of_one_topic and (topics == topics[0]).all() else topics,
        int(queues[0]) if of_one_topic and (queues == queues[0]).all() else queues,
        np.array([sent.offset for sent in batch]),
        int(times[0]) if (times == times[0]).all() else times,
    )
    return touched + known.expire(int(times[-1]))


def _rows(known: Producers) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in known.rows()]


def _again(known: Producers) -> Producers:
    return State.from_rows(list(known.rows())).producers


@st.composite
def _batches(draw: st.DrawFn) -> list[list[_Sent]]:
    account = _Account()
    offsets: dict[tuple[int, int], int] = {}
    time = NOW
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        # A batch may span time, like a window of a replay.
        for _ in range(draw(st.integers(1, 8))):
            time += draw(st.sampled_from([0, 0, 0, 0, 0, 1, HOUR, 100 * HOUR, 168 * HOUR, 169 * HOUR]))
            pair = Pair(
                draw(st.sampled_from([0, 1, 2, (1 << 64) - 1])), draw(st.integers(16, 17)), draw(st.integers(0, 1))
            )
            step = draw(st.sampled_from([0, 0, 0, 0, 0, 0, -3, -1, 1, 70]))
            first = draw(st.just(1 << 63)) if draw(st.integers(0, 60)) == 60 else max(0, account.expected(pair) + step)
            scattered = draw(st.integers(0, 1))
            for sequence in range(first, first + draw(st.sampled_from([1, 1, 1, 2, 5, 40]))):
                queue = pair[1:]
                offset = offsets.get(queue, 0) + scattered * (sequence % 3)
                offsets[queue] = offset + 1
                sent = _Sent(pair, sequence, offset, time)
                account.take(sent)
                batch.append(sent)
        batches.append(batch)
    return batches


@pytest.fixture(autouse=True, params=["as it is", "small"])
def _pages(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small pages and few receipts, so that pages are filled and dropped."""
    if request.param == "as it is":
        yield
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(producers, "_FULL", 4 * 3)
        patched.setattr(producers, "KEPT_RECEIPTS", 20)
        yield


@given(_batches(), st.data())
def test_sequences_match_a_plain_account_in_any_batches(batches: list[list[_Sent]], data: st.DataObject) -> None:
    account, known = _Account(), Producers()
    database: dict[bytes, bytes] = {}
    copies: list[tuple[Producers, list[bytes]]] = []
    seen: set[Pair] = set()
    for batch in batches:
        for row in map(runs_row, _take(known, batch, of_one_topic=True)):
            database[row_key(row)] = row.SerializeToString(deterministic=True)
            if is_gone(row):
                del database[row_key(row)]
        for sent in batch:
            account.take(sent)
            seen.add(sent.pair)
        for pair in seen:
            expected = account.expected(pair)
            assert known.expected(pair) == expected
            for sequence in range(max(0, expected - 90), expected + 3):
                assert known.receipt(pair, sequence) == account.receipt(pair, sequence)
        assert sorted(database.values()) == sorted(_rows(known))
        match data.draw(st.integers(0, 3)):
            case 0:
                copies.append((known.copy(), _rows(known)))
            case 1:
                known = _again(known)
    for copy, rows in copies:
        assert _rows(copy) == rows
    # All at once, as in a replay, and one by one.
    at_once, one_by_one = Producers(), Producers()
    _take(at_once, [sent for batch in batches for sent in batch])
    for batch in batches:
        for sent in batch:
            _take(one_by_one, [sent])
    assert _rows(at_once) == _rows(known) == _rows(one_by_one) == _rows(_again(known))


def test_only_the_last_receipts_are_kept() -> None:
    pair = Pair(7, 16, 3)
    known = Producers()
    for n in range(0, 20_000, 10):
        _take(known, [_Sent(pair, n + k, 3 * (n + k), NOW + n) for k in range(10)])
        pages = known._pairs[pair].pages
        assert sum(map(len, pages)) <= (producers.KEPT_RECEIPTS + producers._FULL) * 3
    assert known.expected(pair) == 20_000
    assert known.expected(Pair(7, 16, 2)) == 0
    least = 20_000 - producers.KEPT_RECEIPTS
    receipts = [known.receipt(pair, n) for n in range(least, 20_000)]
    assert receipts == [(3 * n, NOW + n // 10 * 10) for n in range(least, 20_000)]
    assert known.receipt(pair, least - 1) is None
    assert known.receipt(pair, 20_000) is None
    assert known.receipt(pair, -1) is None


def test_a_pair_expires_at_a_full_hour_after_seven_days() -> None:
    known = Producers()
    _take(known, [_Sent(Pair(1, 16, 0), 0, 0, NOW + HOUR - 1), _Sent(Pair(2, 16, 0), 0, 1, NOW + HOUR)])
    assert known.expire(NOW + 169 * HOUR - 1) == []
    gone = known.expire(NOW + 169 * HOUR)
    assert [touched[0] for touched in gone] == [(1, 16, 0)]
    assert known.expected(Pair(1, 16, 0)) == 0
    assert known.expected(Pair(2, 16, 0)) == 1
    # The producer may restart or continue: before the hour was over, it got the old sequence.
    _take(known, [_Sent(Pair(1, 16, 0), 1, 5, NOW + 169 * HOUR)])
    assert known.expected(Pair(1, 16, 0)) == 2
    assert known.receipt(Pair(1, 16, 0), 0) is None


def test_a_change_waits_for_its_record_to_be_confirmed() -> None:
    state = State()
    changes = Changes(state, 0)
    pair = Pair(9, 16, 1)
    rows: dict[int, list[bytes]] = {}
    for n in range(200):
        changes.add_sequences(10 * n + 10, _take(state.producers, [_Sent(pair, n, 2 * n, NOW + n)]))
        rows[10 * n + 10] = _rows(state.producers)
    database: dict[bytes, Row] = {}
    for confirmed in (5, 10, 655, 650, 1200, 1999, 2000):
        database |= changes.take(confirmed)
        database = {key: row for key, row in database.items() if not is_gone(row)}
        there = [database[key].SerializeToString(deterministic=True) for key in sorted(database)]
        assert there == rows.get(confirmed // 10 * 10, [] if confirmed < 10 else rows[650])


def test_pages_are_append_only() -> None:
    known = Producers()
    touched: list[tuple[TouchedPage, array[int]]] = []
    for n in range(300):
        touched += [(one, one[1][: one[2]]) for one in _take(known, [_Sent(Pair(1, 16, 0), n, 2 * n, NOW)])]
        if n % 50 == 0:
            known.copy()
    for (_, page, count, _), as_it_was in touched:
        assert page[:count] == as_it_was
