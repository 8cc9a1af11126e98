"""``Halves``: the same records give the same state, in any split, from any snapshot on."""

from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Control, HalvesRolledBack, HalvesSkipped, SinkCommitted, SinkWinner, TopicDeleted
from litemq.storage.state import QueueKey
from litemq.storage.state.machine_parts import MachineParts
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.transactions.half_events import HalvesCopied, HalvesPlaced
from litemq.types import RecordKind
from support.delivery_histories import Change, check_snapshot, check_touches, rows_of, take

NAMES = [f"{query}/{batch}/{partition}/0" for query in ("q", "a/b") for batch in (0, 1) for partition in (0, 1)]


def _committed(query: str, batch: int, *partitions: int) -> Control:
    return Control(
        sink_committed=SinkCommitted(
            query=query, batch=batch, winners=[SinkWinner(partition=each) for each in partitions]
        )
    )


def _pending(name: str, origin: int) -> PlacedRecord:
    return PlacedRecord(0, RecordKind.PENDING, origin, 2, 0, 0, 0, 99, 100, 0, transaction=name)


@st.composite
def _histories(draw: st.DrawFn) -> list[Change]:
    """Draw a history whose halves have rising offsets."""
    history: list[Change] = []
    end_offsets = {0: 0, 1: 0}
    for at in range(0, draw(st.integers(0, 16)) * 100, 100):
        name, count = draw(st.sampled_from(NAMES)), draw(st.integers(1, 3))
        match draw(st.integers(0, 9)):
            case 0:
                query, batch = draw(st.sampled_from([("q", 0), ("q", 1), ("a/b", 0), ("a/b", 1)]))
                history.append(_committed(query, batch, *draw(st.lists(st.sampled_from([0, 1]), unique=True))))
            case 1:
                history.append(Control(halves_rolled_back=HalvesRolledBack(transactions=[name])))
            case 2:
                history.append(Control(topic_deleted=TopicDeleted(topic_id=draw(st.sampled_from([16, 17])))))
            case 3:
                history.append(Control(halves_skipped=HalvesSkipped(transaction=name, count=1)))
            case 4 | 5:
                history.append(HalvesCopied(name, count))
            case 6:
                history.append(_pending(name, draw(st.integers(0, 1600)))._replace(log_offset=at))
            case _:
                queue_id, topic_id = draw(st.sampled_from([0, 1])), draw(st.sampled_from([16, 17]))
                first = end_offsets[queue_id]
                end_offsets[queue_id] += count
                history.append(
                    HalvesPlaced(name, "", topic_id, queue_id, at, at + 8 * (count - 1), first, count, 8 * count, at)
                )
    return history


@settings(deadline=None)
@given(_histories(), st.integers(0, 16))
def test_snapshot_plus_replay_equals_full_replay(history: list[Change], cut: int) -> None:
    def check(loaded: MachineParts, whole: MachineParts) -> None:
        assert (loaded.halves.bytes, loaded.halves.runs) == (whole.halves.bytes, whole.halves.runs)
        assert whole.halves.runs == sum(len(row.halves.runs) for row in whole.rows())
        assert loaded.halves.first_decided == whole.halves.first_decided

    check_snapshot(history, cut, check)


@settings(deadline=None)
@given(_histories())
def test_touched_rows_are_all_changed_rows(history: list[Change]) -> None:
    check_touches(history)


@settings(deadline=None)
@given(_histories(), st.integers(1, 2))
def test_the_size_of_events_does_not_matter(history: list[Change], limit: int) -> None:
    whole, parts = MachineParts(), MachineParts()
    for change in history:
        take(whole, change)
        if isinstance(change, HalvesPlaced):
            for at in range(0, change.length, limit):
                length = min(limit, change.length - at)
                log_offset = change.first_log_offset + 8 * at
                part = change._replace(
                    first_log_offset=log_offset,
                    last_log_offset=log_offset + 8 * (length - 1),
                    first_half_offset=change.first_half_offset + at,
                    length=length,
                    bytes=8 * length,
                )
                take(parts, part)
        elif isinstance(change, HalvesCopied):
            for _ in range(change.length):
                take(parts, HalvesCopied(change.transaction, 1))
        else:
            take(parts, change)
    assert rows_of(parts) == rows_of(whole)


def _placed(name: str, first: int, count: int, log_offset: int, queue_id: int = 0, topic_id: int = 16) -> HalvesPlaced:
    return HalvesPlaced(
        name, "orders", topic_id, queue_id, log_offset, log_offset + 8 * (count - 1), first, count, 8 * count, 5
    )


def test_consecutive_halves_are_one_run() -> None:
    parts = MachineParts()
    for event in (
        _placed("q/0/0/0", 0, 3, 0),
        _placed("q/0/0/0", 3, 2, 100),
        _placed("q/0/0/0", 9, 1, 200),
        _placed("q/0/0/0", 0, 1, 300, 1),
    ):
        parts.place(event)
    known = parts.halves.get("q/0/0/0")
    assert known is not None
    assert [(run.queue_id, run.first_half_offset, run.length) for run in known.runs] == [
        (0, 0, 5),
        (0, 9, 1),
        (1, 0, 1),
    ]
    assert (known.runs[0].first_log_offset, known.runs[0].last_log_offset, known.count) == (0, 108, 7)
    assert known.sent == {QueueKey(16, 0): 6, QueueKey(16, 1): 1}


def test_copies_skip_deleted_topics() -> None:
    parts = MachineParts()
    parts.place(_placed("q/0/0/0", 0, 3, 0))
    parts.place(_placed("q/0/0/0", 3, 2, 100, topic_id=17))
    parts.place(_placed("q/0/0/0", 5, 2, 200))
    parts.apply(_committed("q", 0, 0))
    known = parts.halves.get("q/0/0/0")
    assert known is not None
    assert [run.length for run in known.upcoming(99)] == [3, 2, 2]
    assert [run.length for run in known.upcoming(99, 30)] == [3, 1]
    assert [run.length for run in known.upcoming(99, 0)] == [1]
    parts.place(HalvesCopied("q/0/0/0", 2))
    assert [(run.first_half_offset, run.length) for run in known.upcoming(4)] == [(2, 1), (3, 2), (5, 1)]
    parts.apply(Control(topic_deleted=TopicDeleted(topic_id=17)))
    assert known.dropped == 2
    assert [run.first_half_offset for run in known.upcoming(99)] == [2]
    parts.place(HalvesCopied("q/0/0/0", 1))
    assert [run.first_half_offset for run in known.upcoming(99)] == [5]
    parts.place(HalvesCopied("q/0/0/0", 2))
    assert len(parts.halves) == 0
    assert [row.WhichOneof("row") for row in parts.rows()] == ["sink"]


def test_many_runs_take_several_rows() -> None:
    parts = MachineParts()
    touched = [parts.place(_placed("q/0/0/0", 2 * number, 1, 8 * number)) for number in range(600)]
    assert touched[300] == [("halves", "q/0/0/0", 0), ("halves", "q/0/0/0", 1)]
    rows = list(parts.rows())
    assert [(row.halves.page, len(row.halves.runs)) for row in rows] == [(0, 256), (1, 256), (2, 88)]
    parts.apply(_committed("q", 0, 0))
    parts.place(HalvesCopied("q/0/0/0", 520))
    loaded = MachineParts()
    for row in parts.rows():
        loaded.put(row)
    known = loaded.halves.get("q/0/0/0")
    assert known is not None
    assert known.upcoming(1)[0].first_half_offset == 1040
    assert loaded.place(HalvesCopied("q/0/0/0", 80)) == [("halves", "q/0/0/0", page) for page in range(3)]


def test_a_carried_timer_is_not_counted_again() -> None:
    parts = MachineParts()
    parts.place(_placed("q/0/0/0", 0, 2, 0))
    parts.apply(_committed("q", 0, 0))
    parts.place(_pending("q/0/0/0", 0)._replace(log_offset=500))
    assert parts.timers.count == 1
    parts.place(_pending("q/0/0/0", 500)._replace(log_offset=600))
    assert (parts.timers.count, len(parts.halves)) == (1, 1)
    parts.place(_pending("q/0/0/0", 8)._replace(log_offset=700))
    assert (parts.timers.count, len(parts.halves)) == (2, 0)
