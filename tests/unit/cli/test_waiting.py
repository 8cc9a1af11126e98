"""A command that waits says for what: each reason once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from litemq.cli.waiting import noting_waits
from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo
from litemq.errors import ConnectionLostError, LiteMQError
from support.on_loop import on_loop
from support.waiting import eventually

if TYPE_CHECKING:
    from litemq import AsyncClient


class _Cluster:
    """A client that knows ``groups``, or fails."""

    def __init__(self, *groups: ReplicaGroupInfo, error: LiteMQError | None = None) -> None:
        self.groups, self.error, self.asked = groups, error, 0
        self.refusals: dict[str, str] = {}
        self.admin = SimpleNamespace(replica_groups=self._replica_groups)

    async def _replica_groups(self) -> tuple[ReplicaGroupInfo, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.groups


def _group(*, is_master: bool = True, alive: bool = True, obstacle: str = "") -> ReplicaGroupInfo:
    replica = ReplicaInfo("node-1", "host:1", is_master, True, alive, 1, 100, 2_500, 0, "00", 90, 0, 0)
    return ReplicaGroupInfo("orders", 1, 3, 2, 1, (replica,), obstacle, False, 1)


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (_group(is_master=False), "group orders: it has no master: the election is in progress"),
        (_group(is_master=False, obstacle="start node-2"), "group orders: it has no master: start node-2"),
        (_group(alive=False), "group orders: node-1 has not reported for 2.5 s: another replica takes over when its"),
        (_group(), "no answer yet. If a master has failed"),  # one that was started again
    ],
)
@on_loop
async def test_an_outage_is_named_once(group: ReplicaGroupInfo, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    cluster = _Cluster(group)
    async with noting_waits(cast("AsyncClient", cluster), 0, 0):
        await eventually(lambda: cluster.asked > 3)
        said = capsys.readouterr().err
    assert said.startswith(f"waiting: {says}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("groups", [(), (_group(),)])
@on_loop
async def test_the_reason_of_a_refusal_is_named(
    groups: tuple[ReplicaGroupInfo, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk may be full in a broker without replicas, too."""
    cluster = _Cluster(*groups)
    async with noting_waits(cast("AsyncClient", cluster), 0, 0):
        await eventually(lambda: cluster.asked > 2)
        cluster.refusals = {"orders": "the disk is 97% full"}
        asked = cluster.asked
        await eventually(lambda: cluster.asked > asked + 2)
        cluster.refusals = {"orders": "the disk is 98% full"}
        await eventually(lambda: cluster.asked > asked + 4)
    *before, said = capsys.readouterr().err.splitlines()
    assert said == "waiting: broker orders refuses for now: the disk is 97% full"
    assert len(before) == len(groups)


@on_loop
async def test_after_a_reason_it_is_not_said_that_none_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = _Cluster(_group(is_master=False))
    async with noting_waits(cast("AsyncClient", cluster), 0, 0):
        await eventually(lambda: cluster.asked > 1)
        cluster.groups = (_group(),)
        asked = cluster.asked
        await eventually(lambda: cluster.asked > asked + 2)
    assert "no answer yet" not in capsys.readouterr().err


@on_loop
async def test_nothing_is_said_without_replicas_or_without_a_nameserver(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for cluster in (_Cluster(), _Cluster(error=ConnectionLostError("no NameServer"))):
        async with noting_waits(cast("AsyncClient", cluster), 0):
            await eventually(lambda: cluster.asked)  # noqa: B023
    assert capsys.readouterr().err == ""


@on_loop
async def test_a_quick_command_asks_nothing() -> None:
    cluster = _Cluster(_group(is_master=False))
    async with noting_waits(cast("AsyncClient", cluster)):
        await asyncio.sleep(0)
    assert not cluster.asked
