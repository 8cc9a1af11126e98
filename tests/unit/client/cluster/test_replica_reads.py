"""Which replica serves a read, and when the master does."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from litemq.client.cluster.replica_reads import ReplicaReads
from litemq.client.config import ClientConfig
from litemq.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    NotMasterError,
    OffsetOutOfRangeError,
    TopicNotFoundError,
)
from litemq.net.request_channel import Answer, PartCallback
from litemq.proto.wire_pb2 import ReplicaFacts, ReplicaGroup
from support.on_loop import on_loop
from support.waiting import HANG_S, eventually

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


class _Cluster:
    """A fake of the NameServers, of the connections and of the master; replicas are channels."""

    def __init__(self, *, members: tuple[bytes, ...] = (A, B, C), alive: tuple[bytes, ...] = (A, B, C)) -> None:
        facts = [ReplicaFacts(store_id=each, host="host", port=each[0], alive=each in alive) for each in (A, B, C)]
        self.views = [ReplicaGroup(name="orders", holder=A, members=members, is_leased=True, replicas=facts)]
        self.asked: list[str] = []
        self.error: LiteMQError | None = None  # of the replicas
        self.parts = 0
        self.is_down = False
        self.is_silent = False  # no NameServer answers
        self.closed: list[int] = []  # the ports of channels that were closed

    def reads(self, read_from: Literal["master", "replica"] = "replica", **settings: Any) -> ReplicaReads:
        config = ClientConfig(read_from=read_from, **{"contact_timeout_ms": 50} | settings)
        return ReplicaReads(self, self, config, self.connect)  # type: ignore[arg-type]

    async def replica_groups(self) -> list[ReplicaGroup]:
        self.asked.append("names")
        if self.is_silent:
            await asyncio.get_running_loop().create_future()
        return self.views

    def to(self, _broker: str) -> Any:
        return self

    async def request(self, _opcode: int, _header: bytes, **_: Any) -> Answer:
        self.asked.append("master")
        return Answer(b"", b"of the master")

    async def connect(self, _host: str, port: int, **_: Any) -> Any:
        if self.is_down:
            raise ConnectionLostError("refused")
        return _Channel(self, port)


class _Channel:
    is_open = True

    def __init__(self, cluster: _Cluster, port: int) -> None:
        self._cluster, self._port = cluster, port

    async def request(
        self, _opcode: int, _header: bytes, _attachment: bytes, *, on_part: PartCallback | None = None, **_: Any
    ) -> Answer:
        self._cluster.asked.append(f"replica {self._port}")
        for _number in range(self._cluster.parts):
            assert on_part is not None
            on_part(b"", b"part")
        if self._cluster.error is not None:
            raise self._cluster.error
        return Answer(b"", b"of a replica")

    def close(self) -> None:
        self._cluster.closed.append(self._port)


@on_loop
async def test_reads_go_to_one_replica_that_is_alive_and_in_sync() -> None:
    cluster = _Cluster(members=(A, C))
    reads = cluster.reads()
    for _ in range(3):
        assert (await reads.request("orders", 1, b"")).attachment == b"of a replica"
    assert cluster.asked == ["names", *["replica 3"] * 3]
    await reads.close()


@pytest.mark.parametrize(
    "cluster", [_Cluster(alive=(A,)), _Cluster(members=(A,))], ids=["the others are silent", "not in sync"]
)
@on_loop
async def test_without_such_a_replica_the_master_serves(cluster: _Cluster) -> None:
    reads = cluster.reads()
    assert (await reads.request("orders", 1, b"")).attachment == b"of the master"
    assert (await reads.request("another broker", 1, b"")).attachment == b"of the master"


@on_loop
async def test_the_default_is_the_master() -> None:
    cluster = _Cluster()
    assert ClientConfig().read_from == "master"
    assert (await cluster.reads("master").request("orders", 1, b"")).attachment == b"of the master"
    assert cluster.asked == ["master"]
    with pytest.raises(InvalidArgumentError, match="read_from='leader': choose one of master, replica"):
        ClientConfig(read_from="leader")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        NotMasterError("it copies the log"),
        TopicNotFoundError("not yet"),
        OffsetOutOfRangeError("not yet"),
        ConnectionLostError("gone"),
    ],
)
@on_loop
async def test_if_a_replica_cannot_serve_the_master_does(error: LiteMQError) -> None:
    cluster = _Cluster()
    cluster.error = error
    reads = cluster.reads()
    assert (await reads.request("orders", 1, b"")).attachment == b"of the master"
    await reads.close()


@on_loop
async def test_if_a_replica_cannot_be_reached_the_master_serves() -> None:
    cluster = _Cluster()
    cluster.is_down = True
    reads = cluster.reads()
    assert (await reads.request("orders", 1, b"")).attachment == b"of the master"
    await reads.close()


@on_loop
async def test_reads_do_not_wait_for_nameservers_that_are_down() -> None:
    cluster = _Cluster()
    reads = cluster.reads(route_refresh_ms=1, contact_timeout_ms=3_600_000)
    await reads.request("orders", 1, b"")
    cluster.is_silent = True
    for _ in range(3):
        await asyncio.sleep(0.002)
        async with asyncio.timeout(HANG_S):
            assert (await reads.request("orders", 1, b"")).attachment == b"of a replica"
    assert cluster.asked.count("names") == 2
    await reads.close()


@on_loop
async def test_the_first_read_waits_for_nameservers_for_a_limited_time() -> None:
    cluster = _Cluster()
    cluster.is_silent = True
    reads = cluster.reads()
    async with asyncio.timeout(HANG_S):
        assert (await reads.request("orders", 1, b"")).attachment == b"of the master"
    await reads.close()


@on_loop
async def test_the_connection_to_a_replica_that_is_gone_is_closed() -> None:
    cluster = _Cluster(members=(A, B))
    reads = cluster.reads(route_refresh_ms=1)
    await reads.request("orders", 1, b"")
    del cluster.views[0].replicas[1]
    cluster.views[0].members.append(C)
    await asyncio.sleep(0.002)
    await reads.request("orders", 1, b"")  # it starts the refresh
    await eventually(lambda: cluster.closed == [2])
    await reads.request("orders", 1, b"")
    assert cluster.asked[-1] == "replica 3"
    await reads.close()
    assert cluster.closed == [2, 3]


@on_loop
async def test_a_replica_that_cannot_be_reached_is_not_chosen_again() -> None:
    cluster = _Cluster()
    reads = cluster.reads()
    cluster.is_down = True
    await reads.request("orders", 1, b"")  # waits for a replica for contact_timeout_ms
    await reads.request("orders", 1, b"")  # and for the other one
    assert await reads._choose("orders") is None
    cluster.is_down = False
    await eventually(lambda: any(each.is_open for each in reads._replicas.values()))
    assert (await reads.request("orders", 1, b"")).attachment == b"of a replica"
    await reads.close()


@on_loop
async def test_parts_are_not_read_twice() -> None:
    cluster = _Cluster()
    cluster.error, cluster.parts = ConnectionLostError("gone"), 2
    reads, parts = cluster.reads(), list[bytes]()
    with pytest.raises(ConnectionLostError):
        await reads.request("orders", 1, b"", on_part=lambda _header, records: parts.append(records))
    assert parts == [b"part", b"part"]
    assert "master" not in cluster.asked
    await reads.close()


@on_loop
async def test_another_error_is_the_answer() -> None:
    cluster = _Cluster()
    cluster.error = InvalidArgumentError("no such filter")
    reads = cluster.reads()
    with pytest.raises(InvalidArgumentError):
        await reads.request("orders", 1, b"")
    await reads.close()
