"""Peers: their workloads send and read every message, and failures name the peer."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from litemq.bench.peers import finding, servers
from litemq.bench.peers.finding import find_peers
from litemq.bench.peers.litemq_client import LiteMQClient
from litemq.bench.peers.peer import BODY, Load, Measured, Peer, RunningServer, at_rate, await_each, measure
from litemq.bench.peers.rocketmq_client import RocketMQClient
from litemq.bench.suites import peers as suite
from litemq.errors import LiteMQError
from support.waiting import HANG_S


@contextmanager
def _nothing() -> Iterator[RunningServer]:
    yield RunningServer("nowhere", (os.getpid(),))


class _Counting:
    """A client without a server."""

    def __init__(self, _address: str) -> None:
        self.filled = 0

    async def awaited(self, seconds: float, topic: str) -> Load:
        return Load(100, seconds, array("q", [1_000_000] * 99 + [5_000_000])) if topic != "warm-up" else Load(1, 1.0)

    async def send_nowait(self, seconds: float) -> Load:
        return Load(10, seconds)

    async def fill(self, messages: int) -> None:
        self.filled = messages

    async def consume(self, messages: int) -> Load:
        assert self.filled == messages
        return Load(messages, 2.0)

    async def steady(self, seconds: float, rate: float) -> Load:
        raise OSError(f"no {rate:g} in {seconds:g} s")


def test_rates_latencies_and_failures() -> None:
    peer = Peer("other", "counts", "memory", _nothing, _Counting)
    measured = measure(peer, "awaited", 2.0, 0, 0.1)
    assert (measured.rate, measured.p50, round(measured.p99)) == (50.0, 1.0, 1)
    assert measure(peer, "send_nowait", 2.0, 0, 0.1).rate == 5.0
    assert measure(peer, "consume", 1000, 0, 0.1).rate == 500.0
    with pytest.raises(LiteMQError, match=r"^other, steady: OSError: no 7 in 2 s$"):
        measure(peer, "steady", 2.0, 7, 0.1)


def test_each_send_is_awaited_and_steady_sends_carry_their_time() -> None:
    async def main() -> None:
        sent = 0

        async def send() -> None:
            nonlocal sent
            sent += 1
            await asyncio.sleep(0)

        load = await await_each(0.05, [send] * 3)
        assert load.messages == len(load.nanoseconds) == sent >= 3
        bodies: list[bytes] = []
        assert await at_rate(0.1, 200, bodies.append) == len(bodies) == 20
        times = [int.from_bytes(body[:8], "little") for body in bodies]
        assert [round((time - times[0]) / 5e6) for time in times] == list(range(20))
        assert {body[8:] for body in bodies} == {BODY[8:]}

    asyncio.run(asyncio.wait_for(main(), HANG_S))


def _without_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(servers.KAFKA_VARIABLE, raising=False)
    monkeypatch.delenv(servers.ROCKETMQ_VARIABLE, raising=False)


def test_without_other_systems_litemq_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "find_server", lambda _name: None)
    _without_jars(monkeypatch)
    assert [peer.name for peer in find_peers()] == ["litemq_memory", "litemq_disk"]
    assert not [figure.name for figure in suite.figures(0.001) if figure.name.endswith("_lead")]


@pytest.mark.parametrize(("version", "names"), [("2.9.10", ["nats"]), ("2.10.4", ["nats", "nats_fsync"])])
def test_old_versions_of_nats_do_not_sync(monkeypatch: pytest.MonkeyPatch, version: str, names: list[str]) -> None:
    monkeypatch.setattr(servers, "find_server", lambda name: f"/bin/{name}" if name == "nats-server" else None)
    monkeypatch.setattr(finding, "_client", lambda *_names: "1.0")
    monkeypatch.setattr(finding, "_version", lambda _program: version)
    _without_jars(monkeypatch)
    assert [peer.name for peer in find_peers() if not peer.is_ours] == names


def test_litemq_leads_by_the_ratio_to_the_best_other(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = [
        Peer("litemq_memory", "we", "memory", _nothing, lambda url: LiteMQClient(url, "memory")),
        Peer("slow", "slow", "memory", _nothing, _Counting),
        Peer("fast", "fast", "memory", _nothing, _Counting),
        Peer("jvm", "a client that is not of Python", "memory", _nothing, _Counting, is_python=False),
    ]
    rates = {"litemq_memory": 300.0, "slow": 50.0, "fast": 200.0, "jvm": 900.0}
    monkeypatch.setattr(suite, "find_peers", lambda: peers)
    monkeypatch.setattr(
        suite, "measure", lambda peer, *_rest: Measured(rates[peer.name], 1, 1, 1, 1000 / rates[peer.name])
    )
    values = {figure.name: figure.measure() for figure in suite.figures(1.0)}
    assert values["awaited_fast"] == 200
    assert values["awaited_memory_lead"] == values["consume_memory_lead"] == 1.5
    assert round(values["steady_memory_lead"], 6) == 1.5


def test_the_jars_of_a_directory_name_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "find_server", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    _without_jars(monkeypatch)
    (tmp_path / "rocketmq-broker-5.3.3.jar").touch()
    monkeypatch.setenv(servers.ROCKETMQ_VARIABLE, str(tmp_path))
    found = [peer for peer in find_peers() if not peer.is_ours]
    assert [(peer.name, peer.promise, peer.is_python) for peer in found] == [
        ("rocketmq", "memory", False),
        ("rocketmq_fsync", "disk", False),
    ]
    assert "RocketMQ 5.3.3" in found[0].what


@pytest.mark.parametrize(
    ("answer", "error"),
    [("3 0.5 0.25 10 20 30", ""), ("error java.lang.Exception: late", "late"), ("", "no answer")],
)
def test_answers_of_the_load_process(answer: str, error: str) -> None:
    async def main() -> None:
        asked: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readline())
            writer.write(f"{answer}\n".encode() if answer else b"")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = RocketMQClient(f"127.0.0.1:{port}")
            if error:
                with pytest.raises(LiteMQError, match=error):
                    await client.awaited(1.5, "topic")
            else:
                load = await client.awaited(1.5, "topic")
                assert (load.messages, load.seconds, load.client_s) == (3, 0.5, 0.25)
                assert list(load.nanoseconds) == [10, 20, 30]
        assert asked == [b"awaited topic 1.5 256\n"]

    asyncio.run(asyncio.wait_for(main(), HANG_S))
