"""Registrations, heartbeats, expiry and restarts in any order give the routes of a plain model."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from litemq.errors import InvalidArgumentError
from support.names import Names, broker_facts

NAMES = st.sampled_from(["a", "b", "c"])
TOPICS = ("orders", "logs", "mails")
QUEUES = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 4))
LEASE, SWEEP_INTERVAL = 5.0, 0.5


@dataclass
class Broker:
    started_at: int
    port: int
    queues: dict[str, int]
    heard_at: float
    alive: bool = True


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.names = Names(heartbeat_ms=1000, lease_ms=int(LEASE * 1000), sweep_interval_ms=int(SWEEP_INTERVAL * 1000))
        self.model: dict[str, Broker] = {}
        self.now = 0.0

    @rule(name=NAMES, started_at=st.integers(1, 3), port=st.integers(1, 2), queues=QUEUES)
    def register(self, name: str, started_at: int, port: int, queues: dict[str, int]) -> None:
        known = self.model.get(name)
        taken = known is not None and known.alive and (known.port != port or started_at < known.started_at)
        try:
            assert self.names.register(broker_facts(name, started_at, port, **queues)).known
            assert not taken
            self.model[name] = Broker(started_at, port, queues, self.now)
        except InvalidArgumentError:
            assert taken

    @rule(name=NAMES, started_at=st.integers(1, 3))
    def heartbeat(self, name: str, started_at: int) -> None:
        broker = self.model.get(name)
        try:
            known = self.names.heartbeat(name, started_at)
        except InvalidArgumentError:
            assert broker is not None
            assert broker.alive
            assert started_at < broker.started_at
            return
        assert known == (broker is not None and broker.alive and broker.started_at == started_at)
        if known and broker is not None:
            broker.heard_at = self.now

    @rule(name=NAMES, started_at=st.integers(1, 3))
    def deregister(self, name: str, started_at: int) -> None:
        self.names.deregister(name, started_at)
        if name in self.model and self.model[name].started_at == started_at:
            del self.model[name]

    @rule(sweeps=st.integers(1, 12))
    def time_passes(self, sweeps: int) -> None:
        for _ in range(sweeps):
            self.now += SWEEP_INTERVAL
            self.names.pass_time(SWEEP_INTERVAL)
            for broker in self.model.values():
                broker.alive = broker.alive and self.now - broker.heard_at < LEASE

    @rule(down=st.floats(0, 100))
    def the_nameserver_restarts(self, down: float) -> None:
        self.names.clock.advance(down)
        self.names.restart()
        for broker in self.model.values():
            broker.heard_at = self.now  # a new lease for every broker

    @rule(seconds=st.floats(10, 100))
    def the_nameserver_pauses(self, seconds: float) -> None:
        self.names.clock.advance(seconds)
        self.names.server.sweep()
        for broker in self.model.values():
            broker.heard_at = self.now

    @invariant()
    def routes_are_those_of_the_model(self) -> None:
        for topic in TOPICS:
            expected = [
                (name, broker.port, broker.queues[topic])
                for name, broker in sorted(self.model.items())
                if broker.alive and topic in broker.queues
            ]
            assert [
                (broker.name, broker.port, broker.queues) for broker in self.names.route_answer(topic).brokers
            ] == expected
        assert {name: state.alive for name, state in self.names.brokers().items()} == {
            name: broker.alive for name, broker in self.model.items()
        }

    @invariant()
    def the_store_has_what_a_restart_needs(self) -> None:
        stored = {broker.facts.name: not broker.silent for broker in self.names.store.brokers()}
        assert stored == {name: broker.alive for name, broker in self.model.items()}
        statistics = self.names.server.statistics()
        assert statistics.placements == sum(len(broker.queues) for broker in self.model.values())
        assert statistics.alive == sum(broker.alive for broker in self.model.values())


TestLives = Lives.TestCase
