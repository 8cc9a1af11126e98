"""A group as a NameServer sees it: settings that do not agree, and replicas that were replaced."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from litemq.client.cluster.replica_views import describe_replicas
from litemq.errors import InvalidArgumentError
from litemq.nameserver.refused_replicas import RefusedReplicas
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode, ReplicaReport
from litemq.types import MAX_PROBLEM_CHARS
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import OneCaller, ReportedSite, reported_site
from support.waiting import eventually

D, E = (bytes([number]) * 16 for number in (4, 5))


@on_loop
async def test_one_replica_with_a_lower_min_in_sync_does_not_weaken_the_group(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        assert (view.min_in_sync, list(view.warnings)) == (2, [])
        await site.renew(1, C, releases=True)
        await site.report(A, last_epoch=1, min_in_sync=1)
        view = await site.master(B, C, epoch=2, last_epoch=1)
        assert view.min_in_sync == 2
        assert list(view.warnings) == ["its replicas differ in min_in_sync (a: 1, b: 2, c: 2): the highest counts"]


@on_loop
async def test_a_group_that_was_weakened_is_restored_by_a_switch(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.lose_lease(A, last_epoch=1, min_in_sync=1)  # the others are silent
        view = await site.master(A, epoch=2, last_epoch=1, min_in_sync=1)
        assert (view.min_in_sync, list(view.members)) == (1, [A])
        await site.report(B, last_epoch=2)
        view = await site.change(2, A, view.revision, A, B)
        seen = await site.report(A, last_epoch=2, min_in_sync=1)
        assert "min_in_sync is 1, and 2 from the next election on: run `litemq cluster switch orders`" in seen.warnings
        seen = await site.report(B, last_epoch=2, lacks_space=True)  # it refuses the switch
        assert "min_in_sync is 1, and 2 from the next election on: restart a" in seen.warnings
        await site.report(B, last_epoch=2)
        assert (await site.hand_over(2, A, view.revision, B)).min_in_sync == 2
        assert list((await site.report(A, last_epoch=3)).warnings) == []


@on_loop
async def test_a_lone_replica_is_restarted_for_another_min_in_sync(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        site.clock.advance(3)  # A and B are silent
        view = await site.report(C, last_epoch=1, min_in_sync=1)
        assert list(view.warnings) == ["min_in_sync is 2, and 1 from the next election on: restart c"]
        await site.renew(1, C, releases=True)
        site.groups.sweep()
        await eventually(lambda: not site.groups._groups["orders"].state.is_leased)  # type: ignore[union-attr]
        view = await site.report(C, last_epoch=1, min_in_sync=1, is_stopping=True)
        assert list(view.warnings) == []
        view = await site.master(C, epoch=2, last_epoch=1, min_in_sync=1)
        assert (view.min_in_sync, list(view.warnings)) == (1, [])


@on_loop
async def test_a_replica_too_many_is_reported(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        view = await site.report(D, last_epoch=1)
        assert list(view.warnings) == [
            "4 replicas report, but `replicas` is 3: stop one, or start all with `--replicas 4`"
        ]
        view = await site.report(D, last_epoch=1, replicas=4)
        assert list(view.warnings) == ["its replicas differ in replicas (a: 3, b: 3, c: 3, d: 4): the highest counts"]


@on_loop
async def test_a_replica_that_was_replaced_is_forgotten_once_it_left_the_set(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)

        async def pass_time() -> list[str]:
            site.clock.advance(3)
            await site.renew(1, C)
            for store_id in (B, C, D):
                seen = await site.report(store_id, last_epoch=1)
            site.groups.sweep()
            return [each.broker_id for each in seen.replicas]

        await pass_time()
        assert await pass_time() == ["a", "b", "c", "d"]  # the set may need it
        await site.change(1, C, view.revision, B, C, D)
        await pass_time()
        assert await pass_time() == ["b", "c", "d"]


@on_loop
async def test_a_missing_replica_is_not_forgotten(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        await site.change(1, C, view.revision, B, C)
        for _ in range(5):
            site.clock.advance(3)
            await site.renew(1, C)
            site.groups.sweep()
            await site.report(B, last_epoch=1)
            view = await site.report(C, last_epoch=1)
        assert [(each.broker_id, each.alive) for each in view.replicas] == [("a", False), ("b", True), ("c", True)]


@on_loop
async def test_the_problem_of_a_replica_and_its_cuts_are_published(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.report(A, problem="the disk is full", bytes_cut=8, cut_at_ms=9)
        assert view.replicas[0].problem == "the disk is full"
        assert (view.replicas[0].bytes_cut, view.replicas[0].cut_at_ms) == (8, 9)
        with pytest.raises(InvalidArgumentError, match="characters"):
            await site.report(A, problem="x" * (MAX_PROBLEM_CHARS + 1))


async def _refused(site: ReportedSite, store_id: bytes, **fields: object) -> list[str]:
    with pytest.raises(InvalidArgumentError):
        await site.report(store_id, **fields)
    return list((await site.report(B)).warnings)


@on_loop
async def test_brokers_that_are_refused_are_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with reported_site(tmp_path) as site:
        first = OneCaller()
        site.groups.handle(first, Frame(1, Opcode.REPORT_REPLICA, 0, site.encode_report(A, port=1), b""))
        await first.outcome
        copied = (
            "a at h:9 is refused: the data directory of a at h:9 is a copy of the one of a at h:1. "
            "Start the replica with an empty directory: it copies the log"
        )
        taken = (
            "a at h:8 is refused: the broker_id a is taken by the broker at h:1. "
            "Set a unique broker_id for each replica"
        )
        for _ in range(3):
            assert await _refused(site, A, port=9) == [copied]
        assert await _refused(site, D, port=8, broker_id="a") == [taken, copied]
        assert [each.message for each in caplog.records if "is refused" in each.message] == [
            copied.replace("refused: ", "refused: group orders: "),
            taken.replace("refused: ", "refused: group orders: "),
        ]
        site.groups.caller_gone(first)  # that broker has moved
        view = await site.report(A, port=9)
        assert list(view.warnings) == [taken]
        site.clock.advance(60)
        assert list((await site.report(A, port=9)).warnings) == [taken]
        site.clock.advance(1)
        assert list((await site.report(A, port=9)).warnings) == []


def test_the_number_of_refused_brokers_that_are_remembered_is_limited() -> None:
    refused = RefusedReplicas()
    for number in range(100):
        assert refused.add(ReplicaReport(broker_id="a", host="h", port=1 + number), "it is a copy", number)
    assert not refused.add(ReplicaReport(broker_id="a", host="h", port=100), "it is a copy", 100)
    assert len(refused.problems(100)) == 64


@on_loop
async def test_why_a_replica_has_stopped_is_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        problem = "it has stopped: the log differs from its master's"
        await site.report(A, last_epoch=1, problem="it does not follow")
        for _ in range(2):
            await site.report(A, last_epoch=1, problem=problem, is_stopping=True)
        view = await site.report(B, last_epoch=1)
        [stopped] = [each for each in view.replicas if each.store_id == A]
        assert (stopped.alive, stopped.problem) == (False, problem)
        assert f"a said at last: {problem}" in describe_replicas(view).problems
        for _ in range(2):
            await site.report(C, last_epoch=1, problem="the disk is full")
        assert [each.message for each in caplog.records if each.levelno == logging.WARNING][1:] == [
            "group orders: a: it does not follow",
            f"group orders: a: {problem}",
            "group orders: c: the disk is full",
        ]


@on_loop
async def test_what_lost_disks_had_confirmed_stays_known_after_they_were_replaced(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        await site.change(1, C, view.revision, B, C)
        await site.report(A, last_epoch=1, log_end=300, confirm=200)
        for store_id in (B, C):
            await site.report(store_id, last_epoch=1, log_end=1000, confirm=900)
        await site.lose_lease(A, last_epoch=1, log_end=300, confirm=200)  # the others are silent
        for store_id, name in ((D, "b"), (E, "c")):
            await site.report(store_id, broker_id=name)
        site.clock.advance(1)
        view = await site.report(A, last_epoch=1, log_end=300, confirm=200)
        assert [each.broker_id for each in view.replicas] == ["a", "b", "c"]
        assert (view.highest_confirm, view.highest_confirm_of, view.highest_confirm_ms_ago) == (900, "c", 6_000)
        site.groups.sweep()
        await eventually(lambda: site.groups._groups["orders"].obstacle)
        assert site.groups._groups["orders"].obstacle == (
            "no member of the in-sync set is alive. Start one of its replicas: b with its former disk, "
            "c with its former disk"
        )
        elected = await site.elect_unclean("a", view.revision)
        await eventually(lambda: site.groups._groups["orders"].highest_confirm is None)
        view = await site.report(A, last_epoch=1, log_end=300, confirm=200)
        assert (view.epoch, view.highest_confirm) == (elected.epoch, 0)  # not before a record of this epoch
        view = await site.report(A, last_epoch=elected.epoch, log_end=400, confirm=350)
        assert (view.highest_confirm, view.highest_confirm_of) == (350, "a")
