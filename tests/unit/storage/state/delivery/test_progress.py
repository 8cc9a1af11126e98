"""``Progress``: the same state from any snapshot on, and its answers about single offsets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.format.offset_runs import Run, pack_runs
from litemq.proto.control_pb2 import (
    Control,
    DeadLettersDropped,
    Grant,
    Group,
    GroupChanged,
    GroupOffset,
    LeaseTick,
    OffsetsCommitted,
    OffsetsReset,
    QueueLeases,
    TopicDeleted,
    TryFailed,
)
from litemq.storage.state.delivery.progress import Progress, parse_position
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.topics import QueueKey
from litemq.types import RecordKind
from support.delivery_histories import Change, check_snapshot, check_touches

KEY = QueueKey(16, 1)
GROUPS = st.sampled_from(["billing", "audit"])
QUEUES = st.sampled_from([KEY, QueueKey(17, 16)])
FAR = 4090  # near the border of two rows
OFFSETS = st.integers(0, 24).map(lambda offset: offset + (FAR if offset > 12 else 0))


@st.composite
def _runs(draw: st.DrawFn) -> list[int]:
    bounds = sorted(draw(st.lists(OFFSETS, min_size=2, max_size=6, unique=True)))
    return pack_runs([(begin, end) for begin, end in zip(bounds[::2], bounds[1::2], strict=False)])


@st.composite
def _ticks(draw: st.DrawFn) -> Control:
    grants = [
        Grant(
            offsets=draw(_runs()),
            token=draw(st.integers(1, 3)),
            deadline=draw(st.integers(1, 3)),
            count=draw(st.integers(1, 2)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    topic_id, queue_id = draw(QUEUES)
    queue = QueueLeases(topic_id=topic_id, queue_id=queue_id, done=draw(_runs()), released=draw(_runs()), grants=grants)
    failed = [_failed(draw(QUEUES), draw(OFFSETS), draw(st.integers(0, 3))) for _ in range(draw(st.integers(0, 1)))]
    return Control(lease_tick=LeaseTick(group=draw(GROUPS), queues=[queue], failed=failed))


def _failed(key: QueueKey, offset: int, predecessor: int) -> TryFailed:
    return TryFailed(
        topic_id=key.topic_id,
        queue_id=key.queue_id,
        queue_offset=offset,
        predecessor=predecessor,
        due=5,
        count=1,
        retry_topic_id=20,
    )


@st.composite
def _commits(draw: st.DrawFn) -> Control:
    topic_id, queue_id = draw(QUEUES)
    offset = GroupOffset(group=draw(GROUPS), topic_id=topic_id, queue_id=queue_id, offset=draw(OFFSETS))
    if draw(st.booleans()):
        return Control(offsets_committed=OffsetsCommitted(offsets=[offset]))
    offset.offset -= 1
    return Control(offsets_reset=OffsetsReset(group=offset.group, reset_id="r", after=[offset]))


@st.composite
def _placed(draw: st.DrawFn) -> PlacedRecord:
    kind = draw(st.sampled_from([RecordKind.RETRY, RecordKind.DEAD, RecordKind.PENDING, RecordKind.MESSAGE]))
    key = draw(QUEUES)
    properties = {"litemq-group": draw(GROUPS), "litemq-place": f"{key.topic_id}/{key.queue_id}/{draw(OFFSETS)}"}
    given = properties if kind is RecordKind.DEAD else {}
    origin = draw(st.integers(-1, 6))
    return PlacedRecord(0, kind, origin, draw(st.sampled_from([20, 21])), 16, 0, 1, 0, 200, 0, given)


ENDS = st.sampled_from(
    [
        Control(group_changed=GroupChanged(group=Group(group="audit", gone=True))),
        Control(topic_deleted=TopicDeleted(topic_id=16)),
        Control(group_changed=GroupChanged(group=Group(group="audit", paused=True))),
        Control(dead_letters_dropped=DeadLettersDropped(log_offset_steps=[1, 1, 2, 3])),
    ]
)


def _in_order(history: list[Control | PlacedRecord]) -> list[Control | PlacedRecord]:
    """Give the records rising log offsets."""
    return [
        change._replace(log_offset=at, queue_offset=at) if isinstance(change, PlacedRecord) else change
        for at, change in enumerate(history)
    ]


HISTORIES = st.lists(_ticks() | _commits() | _placed() | ENDS, max_size=12).map(_in_order)


@settings(deadline=None)
@given(HISTORIES, st.integers(0, 12))
def test_snapshot_plus_replay_equals_full_replay(history: list[Change], cut: int) -> None:
    check_snapshot(history, cut)


@settings(deadline=None)
@given(HISTORIES)
def test_touched_rows_are_all_changed_rows(history: list[Change]) -> None:
    check_touches(history)


def _tick(done: list[Run] = [], released: list[Run] = [], grants: list[tuple[list[Run], int, int]] = []) -> Control:  # noqa: B006
    leases = [Grant(offsets=pack_runs(runs), token=token, deadline=10, count=count) for runs, token, count in grants]
    queue = QueueLeases(topic_id=16, queue_id=1, done=pack_runs(done), released=pack_runs(released), grants=leases)
    return Control(lease_tick=LeaseTick(group="billing", queues=[queue]))


def _counts(progress: Progress) -> dict[int, tuple[int, int]]:
    queue = progress.queue("billing", KEY)
    leases = [] if queue is None else list(queue.leases)
    return {offset: (lease.token, lease.tries) for lease in leases for offset in range(lease.begin, lease.end)}


def test_the_offset_is_where_everything_below_is_done() -> None:
    progress = Progress()
    progress.apply(_tick(grants=[([(0, 4)], 7, 1)]))
    assert progress.offsets["billing", KEY] == 0
    progress.apply(_tick(done=[(1, 3)]))
    assert progress.offsets["billing", KEY] == 0
    assert _counts(progress) == {0: (7, 1), 3: (7, 1)}
    progress.apply(_tick(done=[(0, 1)]))
    assert progress.offsets["billing", KEY] == 3
    progress.apply(_tick(released=[(3, 4)]))
    assert _counts(progress) == {3: (0, 1)}
    progress.apply(_tick(grants=[([(3, 4)], 8, 2)]))
    assert _counts(progress) == {3: (8, 2)}
    progress.apply(_tick(done=[(3, 4)], grants=[([(0, 4)], 9, 1)]))
    assert progress.offsets["billing", KEY] == 4
    assert progress.queue("billing", KEY) is None, "a done message was leased again"


def test_committing_ahead_and_going_back() -> None:
    progress = Progress()
    progress.apply(_tick(done=[(5, 8)], grants=[([(0, 2), (8, 9)], 7, 1)]))
    commit = GroupOffset(group="billing", topic_id=16, queue_id=1, offset=5)
    progress.apply(Control(offsets_committed=OffsetsCommitted(offsets=[commit])))
    assert progress.offsets["billing", KEY] == 8
    assert _counts(progress) == {8: (7, 1)}
    commit.offset = 2
    progress.apply(Control(offsets_committed=OffsetsCommitted(offsets=[commit])))
    assert progress.offsets["billing", KEY] == 2
    assert progress.queue("billing", KEY) is None


def test_parse_position() -> None:
    assert parse_position("16/1/9") == (KEY, 9)
    for wrong in ("", "16/1", "16/1/x", "16/1/-9", "1/2/3/4"):
        assert parse_position(wrong) is None
