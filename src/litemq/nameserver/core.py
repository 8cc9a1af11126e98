"""The NameServer: brokers register their address and topics, clients look up a topic's brokers.

The state is in memory and changes on one thread; the cluster store keeps a copy for restarts.
Heartbeats change memory only. A lost connection does not end a registration, because clients may
still reach the broker; only missing heartbeats do.

A name belongs to one broker. A broker that started later at the same address is the same broker,
restarted. While the broker with a name is alive, the NameServer refuses any other broker with that
name. A broker that moved can register after its lease has expired, or at once if it deregistered.
The brokers of a replicated group share a name: its master registers, and that of a later epoch
replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from litemq.clock import Clock, SystemClock
from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError, ProtocolError, StorageError
from litemq.nameserver.cluster_store.store import ClusterStore, StoredBroker
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.facts import check_facts, check_topic
from litemq.nameserver.liveness import Liveness
from litemq.nameserver.replica_groups import ReplicaGroups
from litemq.nameserver.reported_group import Caller
from litemq.nameserver.routes import Routes
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import BrokerFacts, BrokersAnswer, BrokerState, Heartbeat, Opcode, Registered, TopicRequest

__all__ = ["Caller", "NameServer", "NameServerStatistics"]

_LOG = logging.getLogger(__name__)
_MS = 1_000_000


class _RegisteredBroker:
    """The last registration of a broker."""

    __slots__ = ("facts", "serialized", "topics")

    def __init__(self, facts: BrokerFacts) -> None:
        self.serialized = facts.SerializeToString(deterministic=True)  # to compare registrations
        self.topics = len(facts.topics)
        self.facts = BrokerFacts(  # without the topics, which are in the routes
            name=facts.name,
            host=facts.host,
            port=facts.port,
            started_at=facts.started_at,
            default_durability=facts.default_durability,
            software=facts.software,
            epoch=facts.epoch,
        )


@dataclass(frozen=True, slots=True)
class NameServerStatistics:
    """Counters of a NameServer."""

    alive: int
    silent: int
    topics: int
    placements: int
    unsaved: int


class NameServer:
    """The services of a NameServer. The process calls ``sweep`` every ``sweep_interval_ms``."""

    def __init__(
        self,
        store: ClusterStore,
        limits: NameServerLimits | None = None,
        clock: Clock | None = None,
        *,
        groups: ReplicaGroups | None = None,
    ) -> None:
        """``groups`` answers the requests of replicas."""
        self._store = store
        self._groups = groups
        self._limits = limits or NameServerLimits()
        self._clock = clock or SystemClock()
        self._liveness = Liveness(
            self._limits.lease_ms * _MS, self._limits.sweep_interval_ms * _MS, self._clock.elapsed_ns()
        )
        self._routes = Routes()
        self._brokers: dict[str, _RegisteredBroker] = {}
        self._placements = 0
        self._unsaved: set[str] = set()
        self._brokers_answer: bytes | None = None
        timings = {"heartbeat_ms": self._limits.heartbeat_ms, "lease_ms": self._limits.lease_ms}
        self._accepted = Registered(known=True, **timings).SerializeToString()
        self._unknown = Registered(known=False, **timings).SerializeToString()
        self._services: dict[int, Callable[[bytes], bytes]] = {
            Opcode.REGISTER_BROKER: self._register,
            Opcode.HEARTBEAT: self._heartbeat,
            Opcode.DEREGISTER_BROKER: self._deregister,
            Opcode.FETCH_ROUTE: self._fetch_route,
            Opcode.LIST_BROKERS: self._list_brokers,
        }
        if groups is None:
            self._services[Opcode.LIST_REPLICA_GROUPS] = lambda _header: b""  # there are none
        for broker in store.brokers():
            self._restore(broker)

    def _restore(self, broker: StoredBroker) -> None:
        """Restore a broker from the store. A broker that was alive gets a new lease."""
        name, now = broker.facts.name, self._clock.elapsed_ns()
        known = self._brokers[name] = _RegisteredBroker(broker.facts)
        self._placements += known.topics
        if broker.silent:
            self._liveness.restore_silent(name, now)
        else:
            self._liveness.register(name, now)
            self._routes.put(broker.facts, {topic.topic: topic.queues for topic in broker.facts.topics})

    def handle(self, caller: Caller, frames: list[Frame]) -> None:
        """Answer ``frames`` in their order."""
        for frame in frames:
            try:
                service = self._services.get(frame.opcode)
                if service is None and self._groups is not None and frame.opcode in self._groups.opcodes:
                    self._groups.handle(caller, frame)
                    continue
                if service is None:
                    raise ProtocolError(
                        f"a NameServer does not support opcode {frame.opcode}: send this request to a broker"
                    )
                caller.answer(frame, service(frame.header))
            except DecodeError as error:
                caller.refuse(frame, ProtocolError(f"invalid header of opcode {frame.opcode}: {error}"))
            except LiteMQError as error:
                caller.refuse(frame, error)

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting requests of ``caller``; its registration does not depend on it."""
        if self._groups is not None:
            self._groups.caller_gone(caller)

    def sweep(self) -> None:
        """Remove silent brokers from the routes, elect masters, and retry saves that failed."""
        if self._groups is not None:
            self._groups.sweep()
        self._brokers_answer = None
        for name in self._liveness.expire(self._clock.elapsed_ns()):
            self._routes.remove(name)
            _LOG.warning(
                "broker %s sent no heartbeat for %g s: removed from the routes", name, self._limits.lease_ms / 1000
            )
            self._save(name)
        for name in list(self._unsaved):
            if not self._save(name):
                break

    def statistics(self) -> NameServerStatistics:
        alive = self._liveness.alive
        silent = len(self._brokers) - alive
        return NameServerStatistics(alive, silent, len(self._routes.topics), self._placements, len(self._unsaved))

    # Requests of brokers --------------------------------------------------------------------------

    def _register(self, header: bytes) -> bytes:
        facts = BrokerFacts.FromString(header)
        name = facts.name
        known = self._brokers.get(name)
        if known is None or known.serialized != header or not self._liveness.is_alive(name):
            facts.DiscardUnknownFields()
            queues = check_facts(facts, self._limits, self._routes.topics)
            if known is not None and self._liveness.is_alive(name):
                _check_same_or_later(facts, known.facts)
            self._ensure_capacity(facts, known)
            if known is None or _run(known.facts) != _run(facts):
                _LOG.info("broker %s registered at %s:%d", name, facts.host, facts.port)
            self._placements += len(facts.topics) - (known.topics if known is not None else 0)
            self._brokers[name] = _RegisteredBroker(facts)
            self._routes.put(facts, queues)
            self._liveness.register(name, self._clock.elapsed_ns())
            self._save(name)
        else:
            self._liveness.record_heartbeat(name, self._clock.elapsed_ns())
        return self._accepted

    def _heartbeat(self, header: bytes) -> bytes:
        beat = Heartbeat.FromString(header)
        known = self._brokers.get(beat.name)
        if known is None or not self._liveness.is_alive(beat.name) or _run(beat) > _run(known.facts):
            return self._unknown
        if _run(beat) < _run(known.facts):
            raise _name_taken(known.facts, beat)
        self._liveness.record_heartbeat(beat.name, self._clock.elapsed_ns())
        return self._accepted

    def _deregister(self, header: bytes) -> bytes:
        beat = Heartbeat.FromString(header)
        known = self._brokers.get(beat.name)
        if known is not None and _run(known.facts) == _run(beat):  # else an earlier run's
            _LOG.info("broker %s deregistered", beat.name)
            self._remove(beat.name)
        return b""

    # Requests of clients --------------------------------------------------------------------------

    def _fetch_route(self, header: bytes) -> bytes:
        return self._routes.answer(check_topic(TopicRequest.FromString(header).topic))

    def _list_brokers(self, _header: bytes) -> bytes:
        # All topics of all brokers: the answer may be large, so it is cached until the next sweep.
        if self._brokers_answer is None:
            now = self._clock.elapsed_ns()
            self._brokers_answer = b"".join(
                _nested(BrokersAnswer.BROKERS_FIELD_NUMBER, self._state(name, now)) for name in sorted(self._brokers)
            )
        return self._brokers_answer

    def _state(self, name: str, now: int) -> bytes:
        """Return the serialized ``BrokerState`` of a broker."""
        heard_ms_ago = (now - self._liveness.heard_at(name)) // _MS
        state = BrokerState(alive=self._liveness.is_alive(name), heard_ms_ago=heard_ms_ago)
        return _nested(BrokerState.FACTS_FIELD_NUMBER, self._brokers[name].serialized) + state.SerializeToString()

    # Registrations --------------------------------------------------------------------------------

    def _ensure_capacity(self, facts: BrokerFacts, known: _RegisteredBroker | None) -> None:
        """Evict the longest silent brokers until ``facts`` fits the limits, or raise."""
        limits = self._limits
        brokers = len(self._brokers) + (known is None)
        placements = self._placements + len(facts.topics) - (known.topics if known is not None else 0)
        victims: list[str] = []
        for name in self._liveness.silent():
            if brokers <= limits.max_brokers and placements <= limits.max_placements:
                break
            if name != facts.name:
                victims.append(name)
                brokers -= 1
                placements -= self._brokers[name].topics
        if brokers > limits.max_brokers or placements > limits.max_placements:
            raise OverloadedError(
                f"this NameServer has {len(self._brokers)} of {limits.max_brokers} brokers and {self._placements} of "
                f"{limits.max_placements} topic placements: it cannot accept broker {facts.name}",
                limits.lease_ms,
            )
        for name in victims:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._placements -= self._brokers.pop(name).topics
        self._liveness.remove(name)
        self._routes.remove(name)
        self._save(name)

    def _save(self, name: str) -> bool:
        """Save a broker's state in the store; if that fails, ``sweep`` retries."""
        self._brokers_answer = None
        known = self._brokers.get(name)
        try:
            if known is None:
                self._store.remove_broker(name)
            else:
                facts = BrokerFacts.FromString(known.serialized)
                self._store.put_broker(StoredBroker(facts, not self._liveness.is_alive(name)))
        except StorageError as error:
            if not self._unsaved:
                _LOG.error("cannot save registrations, will retry: %s", error)
            self._unsaved.add(name)
            return False
        self._unsaved.discard(name)
        return True


def _run(broker: BrokerFacts | Heartbeat) -> tuple[int, int]:
    """Return what distinguishes the runs of a broker, or the masters of a group; it rises."""
    return broker.epoch, broker.started_at


def _check_same_or_later(facts: BrokerFacts, alive: BrokerFacts) -> None:
    is_same_address = (facts.host, facts.port) == (alive.host, alive.port)
    is_next_master = facts.epoch > alive.epoch > 0
    if not (is_same_address or is_next_master) or _run(facts) < _run(alive):
        raise _name_taken(alive, facts)


def _name_taken(alive: BrokerFacts, caller: BrokerFacts | Heartbeat) -> InvalidArgumentError:
    if caller.epoch and alive.epoch > caller.epoch:  # the replicas of a group share a name
        return InvalidArgumentError(
            f"the master of group {alive.name} is the broker at {alive.host}:{alive.port} since epoch {alive.epoch}: "
            f"that of epoch {caller.epoch} was replaced"
        )
    return InvalidArgumentError(
        f"the broker name {alive.name} is taken by the broker at {alive.host}:{alive.port}. "
        "Set a unique broker_name for each broker, or stop the other one"
    )


def _nested(field: int, message: bytes) -> bytes:
    """Encode a serialized ``message`` as field ``field`` of another message."""
    prefix, size = bytearray([field << 3 | 2]), len(message)
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + message
