"""What was decided about groups: the same records give the same facts, from any snapshot on."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Control, Group, GroupChanged, GroupOffset, OffsetsReset
from litemq.storage.state.delivery.group_facts import KEPT_RESETS, GroupFacts
from litemq.storage.state.persistence.rows import is_gone, row_key

GROUPS = st.sampled_from(["a", "b"])


def _reset(group: str, number: int) -> Control:
    offset = [GroupOffset(group=group, topic_id=16, queue_id=0, offset=number)]
    return Control(offsets_reset=OffsetsReset(group=group, reset_id=f"r{number * 7 % 100}", before=offset, after=offset, number=number))


def _changed(group: str, paused: bool, gone: bool) -> Control:
    return Control(group_changed=GroupChanged(group=Group(group=group, paused=paused, gone=gone)))


CHANGES = st.lists(
    st.one_of(st.builds(_changed, GROUPS, st.booleans(), st.booleans()), GROUPS.map(lambda group: _reset(group, 0))), max_size=60
).map(lambda changes: [_reset(c.offsets_reset.group, n + 1) if c.HasField("offsets_reset") else c for n, c in enumerate(changes)])


def _told(facts: GroupFacts) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in facts.rows()]


@given(CHANGES, st.integers(0, 60))
def test_a_snapshot_and_what_follows_is_the_whole(changes: list[Control], at: int) -> None:
    facts = GroupFacts()
    for change in changes[:at]:
        facts.apply(change)
    taken = GroupFacts()
    for row in reversed(list(facts.rows())):
        assert taken.put(row)
    assert _told(taken) == _told(facts)
    copied = facts.copy()
    for change in changes[at:]:
        assert taken.apply(change) == facts.apply(change)
    assert _told(taken) == _told(facts)
    if changes[at:]:
        for change in changes[at:]:
            copied.apply(change)
    assert _told(copied) == _told(facts)


@given(CHANGES)
def test_rows_that_were_touched_are_those_that_are_told(changes: list[Control]) -> None:
    facts = GroupFacts()
    table: dict[bytes, bytes] = {}
    for change in changes:
        for touch in facts.apply(change):
            row = facts.row(touch)
            assert row is not None
            if is_gone(row):
                table.pop(row_key(row), None)
            else:
                table[row_key(row)] = row.SerializeToString(deterministic=True)
    assert sorted(table.values()) == sorted(_told(facts))


def test_the_latest_resets_are_kept() -> None:
    facts = GroupFacts()
    for number in range(1, KEPT_RESETS + 4):
        facts.apply(_reset("a", number))
    assert [reset.number for reset in facts.resets("a")] == list(range(4, KEPT_RESETS + 4))
    assert facts.reset_id("a") == facts.resets("a")[-1].reset_id
    assert facts.reset_id("b") == ""
    assert facts.apply(_reset("a", KEPT_RESETS + 3)) == [], "the same once more"
