"""``Archives``: the same records give the same state, from any snapshot on."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue, Topic, TopicCreated, TopicDeleted
from litemq.storage.state import QueueKey, State
from litemq.storage.state.archives import ArchivedQueue, Archives
from litemq.storage.state.persistence.rows import is_gone, row_key
from litemq.types import Archived


def _report(
    topic_id: int, queues: dict[int, tuple[int, int]], location: str = "/a", at: int = 1, replaces: bool = False
) -> Control:
    reported = [
        Queue(topic_id=topic_id, queue_id=queue_id, least=begin, next=begin + more)
        for queue_id, (begin, more) in sorted(queues.items())
    ]
    return Control(
        archived_through=ArchivedThrough(
            topic_id=topic_id, location=location, queues=reported, at=at, replaces=replaces
        )
    )


TOPICS = st.sampled_from([16, 17])
QUEUES = st.dictionaries(
    st.sampled_from([0, 1, 1023, 1024, 5000]), st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4
)
CHANGES = st.lists(
    st.one_of(
        st.builds(_report, TOPICS, QUEUES, st.sampled_from(["/a", "/b"]), st.integers(1, 99), st.booleans()),
        TOPICS.map(lambda topic_id: Control(topic_deleted=TopicDeleted(topic_id=topic_id))),
    ),
    max_size=20,
)


def _serialized(archives: Archives) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in archives.rows()]


@given(CHANGES, st.integers(0, 20))
def test_snapshot_plus_replay_equals_full_replay(changes: list[Control], at: int) -> None:
    archives = Archives()
    for change in changes[:at]:
        archives.apply(change)
    loaded, copied = Archives(), archives.copy()
    for row in reversed(list(archives.rows())):
        assert loaded.put(row)
    assert _serialized(loaded) == _serialized(archives)
    for change in changes[at:]:
        assert loaded.apply(change) == archives.apply(change)
    assert _serialized(loaded) == _serialized(archives)
    for change in changes[at:]:
        copied.apply(change)
    assert _serialized(copied) == _serialized(archives)


@given(CHANGES)
def test_touched_rows_are_all_changed_rows(changes: list[Control]) -> None:
    archives = Archives()
    table: dict[bytes, bytes] = {}
    for change in changes:
        for touch in archives.apply(change):
            row = archives.row(touch)
            assert row is not None
            if is_gone(row):
                table.pop(row_key(row), None)
            else:
                table[row_key(row)] = row.SerializeToString(deterministic=True)
    assert sorted(table.values()) == sorted(_serialized(archives))


def test_offsets_only_rise_until_another_archive_replaces_them() -> None:
    archives = Archives()
    archives.apply(_report(16, {0: (3, 4), 1: (0, 1)}))
    archives.apply(_report(16, {0: (5, 1)}))
    assert archives.queue(QueueKey(16, 0)) == ArchivedQueue(3, 7)
    archives.apply(_report(16, {0: (5, 1)}, "/b", replaces=True))
    assert archives.queue(QueueKey(16, 0)) == ArchivedQueue(5, 6)
    assert archives.queue(QueueKey(16, 1)) is None
    archive = archives.topic(16)
    assert archive is not None
    assert archive.location == "/b"
    assert archives.row(("group", "a")) is None


def _state(archived: Archived = Archived.BLOCK) -> State:
    state = State()
    state.apply(
        Control(topic_created=TopicCreated(topic=Topic(topic_id=16, name="orders", queues=2, archived=archived)))
    )
    state.extend_queue(QueueKey(16, 0), 10)
    return state


def test_unarchived_lists_the_missing_offsets_of_archived_topics() -> None:
    state = _state()
    assert state.unarchived() == [(QueueKey(16, 0), 0)]
    state.apply(_report(16, {0: (0, 4)}))
    assert state.unarchived() == [(QueueKey(16, 0), 4)]
    state.apply(_report(16, {0: (0, 10)}))
    assert state.unarchived() == []
    assert _state(Archived.NO).unarchived() == []
    deleted = _state()
    deleted.apply(Control(topic_deleted=TopicDeleted(topic_id=16)))
    assert deleted.unarchived() == []


def test_the_earliest_offset_may_be_in_the_archive() -> None:
    state, key = _state(), QueueKey(16, 0)
    state.apply(_report(16, {0: (2, 0)}))
    state.start_offsets[key] = 6
    assert state.earliest(key) == 6, "an empty archive"
    state.apply(_report(16, {0: (2, 5)}))
    assert state.earliest(key) == 2
    assert state.earliest(QueueKey(16, 1)) == 0
    state.apply(Control(topic_deleted=TopicDeleted(topic_id=16)))
    assert state.earliest(key) == 6
