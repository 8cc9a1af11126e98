"""A command that waits for a master says so, once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from litemq.cli.waiting import noting_outages
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
        (_group(is_master=False), "group orders has no master: the election is in progress"),
        (_group(is_master=False, obstacle="start node-2"), "group orders has no master: start node-2"),
        (_group(alive=False), "node-1, the master of group orders, has not reported for 2.5 s: another replica takes"),
        (_group(), "no answer yet. If a master has failed"),  # one that was started again
    ],
)
@on_loop
async def test_an_outage_is_named_once(group: ReplicaGroupInfo, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    async with noting_outages(cast("AsyncClient", _Cluster(group)), 0):
        while not said:
            await asyncio.sleep(0)
            said = capsys.readouterr().err
        await asyncio.sleep(0.01)
    assert said.startswith(f"waiting: {says}")
    assert capsys.readouterr().err == ""


@on_loop
async def test_nothing_is_said_without_replicas_or_without_a_nameserver(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for cluster in (_Cluster(), _Cluster(error=ConnectionLostError("no NameServer"))):
        async with noting_outages(cast("AsyncClient", cluster), 0):
            await eventually(lambda: cluster.asked)  # noqa: B023
    assert capsys.readouterr().err == ""


@on_loop
async def test_a_quick_command_asks_nothing() -> None:
    cluster = _Cluster(_group(is_master=False))
    async with noting_outages(cast("AsyncClient", cluster)):
        await asyncio.sleep(0)
    assert not cluster.asked
