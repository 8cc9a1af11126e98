"""What is wrong with a replicated group, in sentences."""

from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo


def _replica(broker_id: str, *, is_master: bool = False, in_sync: bool = True, alive: bool = True) -> ReplicaInfo:
    return ReplicaInfo(broker_id, "host:1", is_master, in_sync, alive, 1, 100, 2_500, 0, "00", 90, 0, 0, "")


def _group(*replicas: ReplicaInfo, obstacle: str = "", facts_lost: bool = False) -> ReplicaGroupInfo:
    in_sync = sum(each.in_sync for each in replicas)
    return ReplicaGroupInfo("orders", 1, 3, 2, in_sync, replicas, obstacle, facts_lost, 1, ())


def test_a_healthy_group_has_no_problem() -> None:
    group = _group(_replica("a", is_master=True), _replica("b"), _replica("c"))
    assert group.problems == []
    assert group.master == group.replicas[0]


def test_each_problem_is_a_sentence() -> None:
    assert _group(_replica("a", is_master=True), _replica("b", alive=False), _replica("c")).problems == [
        "b has not reported for 2.5 s"
    ]
    assert _group(_replica("a", is_master=True, alive=False), _replica("b"), _replica("c")).problems == [
        "a has not reported for 2.5 s: another replica takes over when its lease as the master has ended"
    ]
    assert _group(_replica("a", is_master=True), _replica("b", in_sync=False), _replica("c")).problems == [
        "b is not in sync"
    ]
    assert _group(_replica("a", is_master=True), _replica("b")).problems == [
        "2 of 3 replicas have reported to this NameServer"
    ]
    assert _group(_replica("a"), _replica("b", alive=False), _replica("c", alive=False), obstacle="why").problems == [
        "it has no master: why",
        "b has not reported for 2.5 s",
        "c has not reported for 2.5 s",
        "1 of 2 required replicas is in sync and alive: nothing is confirmed",
    ]


def test_damage_is_a_problem() -> None:
    group = _group(_replica("a", is_master=True), _replica("b")._replace(damaged_stretches=2), _replica("c"))
    assert group.problems == ["the log of b is damaged in 2 places: see its log"]
    once = _group(*(each._replace(damaged_stretches=each.damaged_stretches // 2) for each in group.replicas))
    assert once.problems == ["the log of b is damaged in 1 place: see its log"]


def test_lost_facts_are_the_only_problem() -> None:
    assert _group(_replica("a", in_sync=False), facts_lost=True).problems == [
        "facts lost: run `litemq cluster recover orders`"
    ]


def test_a_full_disk_and_settings_that_differ_are_problems() -> None:
    full = _replica("a", is_master=True)._replace(problem="the disk is full")
    group = _group(full, _replica("b"), _replica("c"))._replace(warnings=("its replicas differ in replicas",))
    assert group.problems == ["a: the disk is full", "its replicas differ in replicas"]
