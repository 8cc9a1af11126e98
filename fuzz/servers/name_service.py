"""A NameServer under the fuzzer."""

from __future__ import annotations

from typing import Final

from fuzz.servers.choices import Choices
from fuzz.servers.client import Client, Tally
from fuzz.servers.request_maker import RequestMaker
from fuzz.servers.virtual_loop import VirtualLoop

from litemq.errors import ProtocolError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.core import NameServer
from litemq.proto.wire_pb2 import BrokerFacts, Opcode, TopicQueues

__all__ = ["NAMESERVER_OPCODES", "NameService"]

NAMESERVER_OPCODES: Final = list(range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1))
_MAX_STEPS: Final = 48
_SECONDS: Final = (0.1, 0.5, 0.5, 1.0, 5.0, 60.0)
_LIMITS: Final = NameServerLimits(max_brokers=3, max_topics=20, max_placements=40)


class NameService:
    """A NameServer with small limits and one broker, over a store in memory."""

    def __init__(self, loop: VirtualLoop, tally: Tally) -> None:
        self._loop = loop
        self._store = EmbeddedStore()
        self._names = NameServer(self._store, _LIMITS, loop.clock)
        self._client = Client("names", self._names, RequestMaker(loop.clock), tally)
        self.opcodes = NAMESERVER_OPCODES
        facts = BrokerFacts(name="b1", host="h1", port=1, started_at=1, topics=[TopicQueues(topic="orders", queues=4)])
        for opcode in self.opcodes:
            self._client.send([(opcode, 0, b"", b"")])
            assert not isinstance(self._client.last_refusal, ProtocolError), f"{opcode} has no handler"
        self._client.send([(Opcode.REGISTER_BROKER, 0, facts.SerializeToString(), b"")])

    def play(self, data: bytes) -> None:
        """Play one input."""
        choices = Choices(data)
        for _ in range(_MAX_STEPS):
            if choices.is_over:
                break
            step = choices.byte() % 8
            if step < 6:
                count = 1 + (choices.byte() % 4 if step == 5 else 0)
                self._client.send([self._client.make_request(self.opcodes, choices) for _ in range(count)])
            elif step == 6:
                self._loop.clock.advance(choices.pick(_SECONDS))
                self._names.sweep()
            else:
                self._restart()
        self._client.check_answered()
        self._names.statistics()

    def _restart(self) -> None:
        """Start a new NameServer over the same store: it must know the same brokers."""
        before = self._names.statistics()
        self._names = NameServer(self._store, _LIMITS, self._loop.clock)
        assert self._names.statistics() == before
        self._client.reconnect(self._names)

    def close(self) -> None:
        self._client.leave()
        self._store.close()
