"""A NameServer without sockets, and its requests."""

import weakref

from litemq.clock import FakeClock
from litemq.errors import LiteMQError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.cluster_store.store import ClusterStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.core import NameServer
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    BrokerFacts,
    BrokersAnswer,
    BrokerState,
    Heartbeat,
    Opcode,
    Registered,
    RouteAnswer,
    TopicQueues,
    TopicRequest,
)


def broker_facts(name: str, started_at: int = 1, port: int = 10911, **queues: int) -> BrokerFacts:
    """Return the facts of a broker with ``queues``."""
    topics = [TopicQueues(topic=topic, queues=count) for topic, count in sorted(queues.items())]
    return BrokerFacts(
        name=name,
        host="127.0.0.1",
        port=port,
        started_at=started_at,
        default_durability=2,
        topics=topics,
        software="test",
    )


class Asker:
    """A caller with one request at a time, which raises the error of a refusal."""

    def __init__(self, names: NameServer) -> None:
        self._names = names
        self._answers: list[bytes | LiteMQError] = []

    def answer(self, _frame: Frame, header: bytes) -> None:
        self._answers.append(header)

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        self._answers.append(error)

    def ask(self, opcode: int, header: bytes) -> bytes:
        self._names.handle(self, [Frame(1, opcode, 0, header, b"")])
        (answer,) = self._answers
        self._answers.clear()
        if isinstance(answer, LiteMQError):
            raise answer
        return answer


class Names:
    """A NameServer with a manual clock."""

    def __init__(self, store: ClusterStore | None = None, **limits: int) -> None:
        self.store = store or EmbeddedStore()
        self.limits = NameServerLimits(**limits)
        self.clock = FakeClock()
        weakref.finalize(self, self.store.close)
        self.restart()

    def restart(self) -> None:
        self.server = NameServer(self.store, self.limits, self.clock)
        self.ask = Asker(self.server).ask

    def register(self, facts: BrokerFacts) -> Registered:
        return Registered.FromString(self.ask(Opcode.REGISTER_BROKER, facts.SerializeToString()))

    def heartbeat(self, name: str, started_at: int = 1) -> bool:
        beat = Heartbeat(name=name, started_at=started_at)
        return Registered.FromString(self.ask(Opcode.HEARTBEAT, beat.SerializeToString())).known

    def deregister(self, name: str, started_at: int = 1) -> None:
        assert (
            self.ask(Opcode.DEREGISTER_BROKER, Heartbeat(name=name, started_at=started_at).SerializeToString()) == b""
        )

    def route(self, topic: str) -> dict[str, int]:
        """Return the queues of a topic by broker."""
        return {broker.name: broker.queues for broker in self.route_answer(topic).brokers}

    def route_answer(self, topic: str) -> RouteAnswer:
        return RouteAnswer.FromString(self.ask(Opcode.FETCH_ROUTE, TopicRequest(topic=topic).SerializeToString()))

    def brokers(self) -> dict[str, BrokerState]:
        return {
            state.facts.name: state for state in BrokersAnswer.FromString(self.ask(Opcode.LIST_BROKERS, b"")).brokers
        }

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with a sweep every ``sweep_interval_ms``."""
        step = self.limits.sweep_interval_ms / 1000
        while seconds > 1e-9:
            self.clock.advance(min(step, seconds))
            seconds -= step
            self.server.sweep()
