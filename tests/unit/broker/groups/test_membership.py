"""Members of one group: owners, releases, sessions, and late requests."""

from itertools import count

import pytest

from litemq.broker.groups.assignment import Strategy
from litemq.broker.groups.membership import Membership
from litemq.errors import InvalidArgumentError, NotGroupMemberError
from litemq.storage.state import QueueKey

QUEUES = [QueueKey(16, queue_id) for queue_id in range(4)]
TIMEOUT, GRACE = 5_000, 500


def fresh() -> Membership:
    return Membership(QUEUES, count(1))


def queues_of(group: Membership, name: str) -> set[int]:
    return {key.queue_id for key, _ in group.assigned(name)}


def give_up_all(group: Membership, name: str) -> None:
    group.release(name, group.unwanted(name))


def test_a_queue_changes_its_owner_only_after_release() -> None:
    group = fresh()
    assert group.join("ann", 0, TIMEOUT).members == ("ann",)
    assert queues_of(group, "ann") == {0, 1, 2, 3}
    changes = group.join("bob", 1, TIMEOUT)
    assert changes.members == ("ann",), "only she has something to do"
    kept = group.assigned("ann")
    assert len(kept) == 2
    assert len(group.unwanted("ann")) == 2
    assert group.assigned("bob") == []
    changes = group.release("ann", group.unwanted("ann"))
    assert changes.members == ("bob",), "other members are not affected"
    assert len(changes.fenced) == 2
    assert queues_of(group, "ann") | queues_of(group, "bob") == {0, 1, 2, 3}
    assert group.assigned("ann") == kept, "with the generations that they had"


def test_a_member_cannot_release_the_queue_of_another() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    group.join("bob", 0, TIMEOUT)
    before = group.assigned("ann")
    group.release("bob", [generation for _, generation in before])
    assert group.assigned("ann") == before


def test_a_silent_member_loses_its_queues_and_is_refused() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    group.join("bob", 0, TIMEOUT)
    give_up_all(group, "ann")
    session = group.members["ann"].session
    group.renew_session("bob", group.members["bob"].session, 4_000)
    assert group.next_end_ns == 5_000
    assert group.end_overdue(4_999).ended == ()
    changes = group.end_overdue(5_000)
    assert changes.ended == (session,)
    assert changes.members == ("bob",)
    assert queues_of(group, "bob") == {0, 1, 2, 3}
    with pytest.raises(NotGroupMemberError, match="Join again"):
        group.renew_session("ann", session, 5_001)
    group.join("ann", 5_002, TIMEOUT)
    with pytest.raises(NotGroupMemberError):
        group.renew_session("ann", session, 5_003)


def test_a_member_may_reconnect_within_the_grace_period() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    group.join("bob", 0, TIMEOUT)
    give_up_all(group, "ann")
    before = group.assigned("ann")
    group.connection_lost("ann", 1_000, GRACE)
    assert group.end_overdue(1_499).ended == ()
    group.join("ann", 1_499, TIMEOUT)
    assert group.assigned("ann") == before, "as if nothing had been"
    assert len(group.end_overdue(6_000).ended) == 1, "the other one was silent"
    group.connection_lost("ann", 6_100, GRACE)
    assert len(group.end_overdue(6_600).ended) == 1
    assert not group.owners


def test_a_member_keeps_a_queue_if_the_new_owner_leaves() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    before = group.assigned("ann")
    group.join("bob", 0, TIMEOUT)
    assert group.unwanted("ann")
    assert group.end(["bob"]).members == ("ann",)
    assert group.assigned("ann") == before
    assert group.unwanted("ann") == []
    group.release("ann", [before[0][1]])  # it was too late: she has it again, by another generation
    assert queues_of(group, "ann") == {0, 1, 2, 3}
    assert before[0] not in group.assigned("ann")


def test_all_members_use_one_strategy() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    group.join("bob", 0, TIMEOUT)
    with pytest.raises(InvalidArgumentError, match="'average'"):
        group.join("bob", 0, TIMEOUT, strategy=Strategy.SAME_ZONE)
    group.end(["ann"])
    group.join("bob", 0, TIMEOUT, strategy=Strategy.CONSISTENT_HASH)
    assert queues_of(group, "bob") == {0, 1, 2, 3}


def test_members_reclaim_their_queues_after_a_restart() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT, held=[QUEUES[1], QueueKey(99, 0)], gather_ns=1_000)
    assert queues_of(group, "ann") == {1}
    group.join("new", 100, TIMEOUT)
    assert queues_of(group, "new") == set()
    group.join("bob", 200, TIMEOUT, held=[QUEUES[0], QUEUES[1]], gather_ns=1_000)
    assert (queues_of(group, "ann"), queues_of(group, "bob")) == ({1}, {0})
    assert group.next_end_ns == 1_000
    group.end_overdue(1_000)
    assert queues_of(group, "ann") | queues_of(group, "bob") | queues_of(group, "new") == {0, 1, 2, 3}
    assert 1 in queues_of(group, "ann")
    assert 0 in queues_of(group, "bob")


def test_a_held_queue_stays_with_its_current_owner() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    group.join("bob", 0, TIMEOUT, held=QUEUES, gather_ns=1_000)
    assert queues_of(group, "bob") == set()
    give_up_all(group, "ann")
    assert len(queues_of(group, "bob")) == 2


def test_a_new_queue_is_assigned() -> None:
    group = fresh()
    group.join("ann", 0, TIMEOUT)
    assert group.add_queue(QueueKey(17, 16)).members == ("ann",)
    assert len(group.assigned("ann")) == 5
    assert group.add_queue(QueueKey(17, 16)).members == ()
