"""``GroupSettings``: the same records give the same state, from any snapshot on."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Control, Group, GroupChanged, GroupOffset, OffsetsReset
from litemq.storage.state.delivery.group_settings import KEPT_RESETS, GroupSettings
from litemq.storage.state.persistence.rows import is_gone, row_key

GROUPS = st.sampled_from(["a", "b"])


def _reset(group: str, number: int) -> Control:
    offset = [GroupOffset(group=group, topic_id=16, queue_id=0, offset=number)]
    return Control(
        offsets_reset=OffsetsReset(
            group=group, reset_id=f"r{number * 7 % 100}", before=offset, after=offset, number=number
        )
    )


def _changed(group: str, paused: bool, gone: bool) -> Control:
    return Control(group_changed=GroupChanged(group=Group(group=group, paused=paused, gone=gone)))


CHANGES = st.lists(
    st.one_of(st.builds(_changed, GROUPS, st.booleans(), st.booleans()), GROUPS.map(lambda group: _reset(group, 0))),
    max_size=60,
).map(
    lambda changes: [
        _reset(c.offsets_reset.group, n + 1) if c.HasField("offsets_reset") else c for n, c in enumerate(changes)
    ]
)


def _serialized(groups: GroupSettings) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in groups.rows()]


@given(CHANGES, st.integers(0, 60))
def test_snapshot_plus_replay_equals_full_replay(changes: list[Control], at: int) -> None:
    groups = GroupSettings()
    for change in changes[:at]:
        groups.apply(change)
    loaded = GroupSettings()
    for row in reversed(list(groups.rows())):
        assert loaded.put(row)
    assert _serialized(loaded) == _serialized(groups)
    copied = groups.copy()
    for change in changes[at:]:
        assert loaded.apply(change) == groups.apply(change)
    assert _serialized(loaded) == _serialized(groups)
    if changes[at:]:
        for change in changes[at:]:
            copied.apply(change)
    assert _serialized(copied) == _serialized(groups)


@given(CHANGES)
def test_touched_rows_are_all_changed_rows(changes: list[Control]) -> None:
    groups = GroupSettings()
    table: dict[bytes, bytes] = {}
    for change in changes:
        for touch in groups.apply(change):
            row = groups.row(touch)
            assert row is not None
            if is_gone(row):
                table.pop(row_key(row), None)
            else:
                table[row_key(row)] = row.SerializeToString(deterministic=True)
    assert sorted(table.values()) == sorted(_serialized(groups))


def test_the_latest_resets_are_kept() -> None:
    groups = GroupSettings()
    for number in range(1, KEPT_RESETS + 4):
        groups.apply(_reset("a", number))
    assert [reset.number for reset in groups.resets("a")] == list(range(4, KEPT_RESETS + 4))
    assert groups.reset_id("a") == groups.resets("a")[-1].reset_id
    assert groups.reset_id("b") == ""
    assert groups.apply(_reset("a", KEPT_RESETS + 3)) == [], "a repeated reset"
