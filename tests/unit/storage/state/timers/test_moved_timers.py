"""Rescheduled timers and cancelled batches: the same state from rows and from records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.proto.control_pb2 import (
    Control,
    RetentionCrossed,
    Row,
    TimerBatchCancelled,
    TimerEnded,
    TimerMoved,
    TimersEnded,
)
from litemq.storage.state.machine_parts import MachineParts, PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.persistence.rows import is_gone, row_key
from litemq.storage.state.timers import moved_timers
from litemq.storage.state.timers.moved_timers import Moved
from litemq.storage.state.timers.pending_totals import TimersFired
from litemq.types import MAX_DELAY_MS, RecordKind

NOW = 1_700_000_000_000


def _moved(pending: int, due: int) -> Control:
    return Control(timer_moved=TimerMoved(pending=pending, delay_time=1, due_before=1, due=due, size=200))


def _placed(kind: RecordKind, log_offset: int, origin: int, consume_count: int = 0) -> PlacedRecord:
    return PlacedRecord(log_offset, kind, origin, 16, 0, 0, consume_count, 1, 208, NOW)


def _fired(pending: int) -> TimersFired:
    return TimersFired(*(np.array([value], np.int64) for value in (80, pending, 1, 208)))


def test_a_moved_timer_is_kept_until_it_fires_ends_or_is_carried() -> None:
    parts = MachineParts()
    for pending in (8, 16, 24, 32):
        parts.apply(_moved(pending, 100 + pending))
    parts.apply(_moved(8, 500))
    assert parts.moved_timers.get(8) == Moved(500, 200)
    parts.place(_fired(16))
    parts.place(_placed(RecordKind.PENDING, 88, 24))
    parts.place(_placed(RecordKind.PENDING, 96, 8, consume_count=1))  # waits for a retry: no timer
    parts.apply(Control(timers_ended=TimersEnded(timers=[TimerEnded(pending=32), TimerEnded(pending=999)])))
    assert list(parts.moved_timers) == [(8, Moved(500, 200)), (88, Moved(124, 208))]
    parts.apply(Control(timer_ended=TimerEnded(pending=8)))
    assert len(parts.moved_timers) == 1
    # Those that fired or were cancelled still show when they were due, until their record is gone.
    assert [parts.moved_timers.due_of(pending) for pending in (8, 16, 24, 32, 88)] == [500, 116, None, 132, 124]
    parts.apply(Control(retention_crossed=RetentionCrossed(log_start=17)))
    assert [parts.moved_timers.due_of(pending) for pending in (8, 16, 32, 88)] == [None, None, 132, 124]


def test_the_latest_timers_that_ended_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_timers, "_KEPT_ENDED", 2)
    parts = MachineParts()
    for pending in (8, 16, 24):
        parts.apply(_moved(pending, 100 + pending))
    for pending in (24, 8, 16):  # whatever the order in which they end
        parts.apply(Control(timer_ended=TimerEnded(pending=pending)))
    assert [parts.moved_timers.due_of(pending) for pending in (8, 16, 24)] == [None, 116, 124]


def test_a_batch_is_cancelled_up_to_an_offset_and_forgotten_when_all_is_due() -> None:
    batches = MachineParts().timer_batches

    def cancel(batch_id: str, before: int, at: int) -> list[tuple[object, ...]]:
        return batches.apply(
            Control(timer_batch_cancelled=TimerBatchCancelled(topic="t", batch_id=batch_id, before=before, at=at))
        )

    cancel("a", 100, NOW)
    assert batches.is_cancelled("t", "a", 96)
    assert not batches.is_cancelled("t", "a", 100)
    assert not batches.is_cancelled("t", "b", 0)
    assert not batches.is_cancelled("other", "a", 0)
    cancel("a", 200, NOW + 1)
    assert batches.is_cancelled("t", "a", 100)
    cancel("b", 300, NOW + MAX_DELAY_MS)
    assert batches.holds("t", "a")
    touched = cancel("c", 400, NOW + MAX_DELAY_MS + 31 * 86_400_000)
    assert sorted(map(str, touched)) == ["('timer batch', 't', 'a')", "('timer batch', 't', 'c')"]
    assert (batches.holds("t", "a"), batches.holds("t", "b"), len(batches)) == (False, True, 2)


def test_totals_are_zero_without_timers() -> None:
    parts = MachineParts()
    parts.place(_placed(RecordKind.PENDING, 48, -1))
    parts.apply(Control(timers_ended=TimersEnded(timers=[TimerEnded(pending=48, size=200)])))  # it had 208
    assert (parts.timers.count, parts.timers.bytes, list(parts.rows())) == (0, 0, [])


changes = st.one_of(
    st.builds(_moved, st.integers(0, 5).map(lambda number: 8 * number), st.integers(1, 50)),
    st.builds(
        lambda pending: Control(
            timers_ended=TimersEnded(timers=[TimerEnded(pending=pending, size=200)], cancelled=True)
        ),
        st.integers(0, 5).map(lambda number: 8 * number),
    ),
    st.builds(
        lambda batch_id, before, days: Control(
            timer_batch_cancelled=TimerBatchCancelled(
                topic="t", batch_id=batch_id, before=before, at=NOW + days * 86_400_000
            )
        ),
        st.sampled_from("abc"),
        st.integers(1, 99),
        st.integers(0, 900),
    ),
    st.builds(_fired, st.sampled_from([0, 8, 16, 48])),
    st.builds(
        _placed,
        st.just(RecordKind.PENDING),
        st.integers(6, 9).map(lambda n: 8 * n),
        st.sampled_from([-1, 0, 8, 16, 48]),
    ),
)


@given(st.lists(changes, max_size=30), st.integers(0, 30))
def test_rows_plus_replay_equal_full_replay(steps: list[Control | PlacedEvent], cut: int) -> None:
    """Replay gives identical parts, and the touched rows are all changed rows."""
    whole, rows = MachineParts(), dict[bytes, Row]()
    part = MachineParts()
    for number, step in enumerate(steps):
        if number == cut:
            part = MachineParts()
            for row in whole.copy().rows():
                assert part.put(row)
        for machine in (whole, part):
            touched = machine.apply(step) if isinstance(step, Control) else machine.place(step)
        for touch in touched:
            row = whole.row(touch)
            if is_gone(row):
                rows.pop(row_key(row), None)
            else:
                rows[row_key(row)] = row
        assert list(part.rows()) == list(whole.rows())
    assert sorted(rows) == sorted(map(row_key, whole.rows()))
    assert {key: row.SerializeToString() for key, row in rows.items()} == {
        row_key(row): row.SerializeToString() for row in whole.rows()
    }
