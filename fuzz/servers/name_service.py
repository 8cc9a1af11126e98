"""A NameServer under the fuzzer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Final

from fuzz.servers.choices import Choices
from fuzz.servers.client import Client, Tally
from fuzz.servers.request_maker import RequestMaker
from fuzz.servers.virtual_loop import VirtualLoop

from litemq.errors import ProtocolError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.cluster_store.embedded_groups import EmbeddedGroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.core import NameServer
from litemq.nameserver.replica_groups import ReplicaGroups
from litemq.proto.wire_pb2 import BrokerFacts, Opcode, ReplicaReport, TopicQueues

__all__ = ["NAMESERVER_OPCODES", "NameService"]

NAMESERVER_OPCODES: Final = [
    *range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1),
    *range(Opcode.REPORT_REPLICA, Opcode.LIST_REPLICA_GROUPS + 1),
    *range(Opcode.HAND_OVER, Opcode.ELECT_UNCLEAN + 1),
]
_MAX_STEPS: Final = 48
_SECONDS: Final = (0.1, 0.5, 0.5, 1.0, 5.0, 60.0)
_LONGEST_WAIT_S: Final = 31.0  # of a report
_LIMITS: Final = NameServerLimits(max_brokers=3, max_topics=20, max_placements=40)


class NameService:
    """A NameServer with small limits, one broker and one group of replicas."""

    def __init__(self, loop: VirtualLoop, tally: Tally) -> None:
        self._loop = loop
        self._tally = tally
        self._store = EmbeddedStore()
        self._folder = Path(tempfile.mkdtemp(prefix="litemq-fuzz-"))
        self.opcodes = NAMESERVER_OPCODES
        loop.play(self._begin())

    async def _begin(self) -> None:
        await self._start()
        maker = RequestMaker(self._loop.clock)
        maker.prefer(group="shop", broker_id="b1", name="b1", host="h1")
        self._client = Client("names", self._names, maker, self._tally)
        facts = BrokerFacts(name="b1", host="h1", port=1, started_at=1, topics=[TopicQueues(topic="orders", queues=4)])
        for opcode in self.opcodes:
            self._client.send([(opcode, 0, b"", b"")])
            assert not isinstance(self._client.last_refusal, ProtocolError), f"{opcode} has no handler"
        self._client.send([(Opcode.REGISTER_BROKER, 0, facts.SerializeToString(), b"")])
        for number in range(3):
            report = ReplicaReport(
                group="shop",
                store_id=bytes([number]) * 16,
                broker_id=f"b{number}",
                host="h1",
                port=1 + number,
                wall_ms=self._loop.clock.wall_ms(),
                replicas=3,
                min_in_sync=2,
                segment_bytes=1 << 20,
            )
            self._client.send([(Opcode.REPORT_REPLICA, 0, report.SerializeToString(), b"")])
        await self._loop.settle()

    async def _start(self) -> None:
        self._group_store = await EmbeddedGroupStore.open(self._folder / "groups.db", self._loop.clock)
        self._groups = ReplicaGroups(self._group_store, _LIMITS, self._loop.clock)
        self._running = asyncio.create_task(self._groups.run())
        self._names = NameServer(self._store, _LIMITS, self._loop.clock, groups=self._groups)

    def play(self, data: bytes) -> None:
        """Play one input."""
        self._loop.play(self._play(Choices(data)))

    async def _play(self, choices: Choices) -> None:
        for _ in range(_MAX_STEPS):
            if choices.is_over:
                break
            step = choices.byte() % 8
            if step < 6:
                count = 1 + (choices.byte() % 4 if step == 5 else 0)
                self._client.send([self._client.make_request(self.opcodes, choices) for _ in range(count)])
                await self._loop.settle()
            elif step == 6:
                await self._loop.advance(choices.pick(_SECONDS))
                self._names.sweep()
            else:
                await self._restart()
        await self._check_answered()
        self._names.statistics()

    async def _check_answered(self) -> None:
        await self._loop.settle()
        await self._loop.advance(_LONGEST_WAIT_S)
        self._client.check_answered()

    async def _restart(self) -> None:
        """Start a new NameServer over the same stores: it must know the same."""
        await self._check_answered()
        brokers = self._names.statistics()
        facts = [state.fact for state in await self._group_store.groups()]
        await self._stop()
        await self._start()
        assert self._names.statistics() == brokers
        assert [state.fact for state in await self._group_store.groups()] == facts
        self._client.reconnect(self._names)

    async def _stop(self) -> None:
        self._running.cancel()
        await self._groups.close()
        await self._group_store.close()

    def close(self) -> None:
        self._client.leave()
        self._loop.play(self._stop())
        self._store.close()
        shutil.rmtree(self._folder)
