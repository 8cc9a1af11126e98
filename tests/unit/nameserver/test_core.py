"""The NameServer without sockets: registrations, restarts of either side, and refused requests."""

import contextlib
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError, ProtocolError, StorageError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.cluster_store.store import StoredBroker
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.core import NameServerStatistics
from litemq.proto.wire_pb2 import BrokerFacts, Heartbeat, Opcode, TopicQueues
from support.names import Names, broker_facts


def test_a_broker_is_in_the_routes_while_it_sends_heartbeats() -> None:
    names = Names()
    assert not names.heartbeat("a")
    answer = names.register(broker_facts("a", orders=4))
    assert (answer.known, answer.heartbeat_ms, answer.lease_ms) == (True, 1000, 5000)
    for _ in range(10):
        names.pass_time(1)
        assert names.heartbeat("a")
    names.pass_time(4.9)
    assert names.route("orders") == {"a": 4}
    names.pass_time(0.5)
    assert names.route("orders") == {}
    state = names.brokers()["a"]
    assert (state.alive, state.heard_ms_ago) == (False, 5400)
    assert not names.heartbeat("a")  # it must say everything again
    names.register(broker_facts("a", orders=4))
    assert names.route("orders") == {"a": 4}
    assert names.brokers()["a"].alive


def test_a_deregistered_broker_leaves_the_routes_at_once() -> None:
    names = Names()
    names.register(broker_facts("a", orders=4))
    names.register(broker_facts("b", orders=1))
    names.deregister("a")
    names.deregister("never there")
    assert names.route("orders") == {"b": 1}
    assert list(names.brokers()) == ["b"]
    assert [broker.facts.name for broker in names.store.brokers()] == ["b"]


def test_a_registration_replaces_the_previous_one() -> None:
    names = Names()
    names.register(broker_facts("a", orders=4, logs=1))
    names.register(broker_facts("a", orders=4, mails=2))
    assert (names.route("orders"), names.route("logs"), names.route("mails")) == ({"a": 4}, {}, {"a": 2})
    assert names.server.statistics() == NameServerStatistics(alive=1, silent=0, topics=2, placements=2, unsaved=0)


def test_system_topics_have_routes() -> None:
    names = Names()
    facts = broker_facts("a")
    facts.topics.add(topic="%RETRY%group-1", queues=1)
    names.register(facts)
    assert names.route("%RETRY%group-1") == {"a": 1}


def test_the_list_of_brokers_has_all_their_facts() -> None:
    names = Names()
    names.register(broker_facts("a", orders=4))
    assert names.brokers()["a"].facts == broker_facts("a", orders=4)
    names.register(broker_facts("a", orders=4, logs=1))
    names.register(broker_facts("b"))
    assert {name: state.facts for name, state in names.brokers().items()} == {
        "a": broker_facts("a", orders=4, logs=1),
        "b": broker_facts("b"),
    }
    assert names.ask(Opcode.LIST_BROKERS, b"") is names.ask(Opcode.LIST_BROKERS, b"")


# Two brokers of one name --------------------------------------------------------------------------


def test_a_restarted_broker_takes_its_name_over() -> None:
    names = Names()
    names.register(broker_facts("a", started_at=5, port=1000, orders=4))
    assert not names.heartbeat("a", started_at=6)  # it is asked for everything
    names.register(broker_facts("a", started_at=6, port=1000, orders=5))
    (route,) = names.route_answer("orders").brokers
    assert route.queues == 5
    names.deregister("a", started_at=5)  # its former self's last word comes late
    assert names.route("orders") == {"a": 5}


@pytest.mark.parametrize(("started_at", "port"), [(4, 2000), (4, 1000), (5, 2000), (6, 2000)])
def test_a_second_broker_with_a_name_is_refused_while_the_first_is_alive(started_at: int, port: int) -> None:
    names = Names()
    names.register(broker_facts("a", started_at=5, port=1000, orders=4))
    other = broker_facts("a", started_at=started_at, port=port, orders=1)
    with pytest.raises(InvalidArgumentError, match=r"the broker at 127\.0\.0\.1:1000.*broker_name"):
        names.register(other)
    if started_at < 5:
        with pytest.raises(InvalidArgumentError, match="is taken"):
            names.heartbeat("a", started_at=started_at)
    assert names.route("orders") == {"a": 4}
    names.pass_time(5)
    names.register(other)  # its clock was set back while it was down: a lease later it is let in
    assert names.route("orders") == {"a": 1}


def test_a_replaced_master_is_not_advised_to_change_the_name_of_its_group() -> None:
    names = Names()
    former, present = broker_facts("orders", port=1000), broker_facts("orders", port=2000)
    former.epoch, present.epoch = 1, 2
    names.register(former)
    names.register(present)
    said = r"the master of group orders is the broker at 127\.0\.0\.1:2000 since epoch 2: that of epoch 1 was replaced"
    with pytest.raises(InvalidArgumentError, match=said):
        names.register(former)
    with pytest.raises(InvalidArgumentError, match=said):
        names.ask(Opcode.HEARTBEAT, Heartbeat(name="orders", started_at=1, epoch=1).SerializeToString())
    with pytest.raises(InvalidArgumentError, match="unique broker_name"):
        names.register(broker_facts("orders", port=3000))  # a broker without replicas


# Restarts of the NameServer -----------------------------------------------------------------------


def test_a_restarted_nameserver_gives_every_broker_a_new_lease() -> None:
    names = Names()
    for name in ("a", "b", "dead"):
        names.register(broker_facts(name, orders=1))
    for _ in range(5):
        names.pass_time(1)
        names.heartbeat("a")
        names.heartbeat("b")
    assert names.route("orders") == {"a": 1, "b": 1}
    names.clock.advance(3600)
    names.restart()
    assert names.route("orders") == {"a": 1, "b": 1}  # old routes are better than none; who was silent before still is
    assert not names.heartbeat("dead")
    names.pass_time(1)
    assert names.heartbeat("a")
    names.pass_time(4)
    assert names.route("orders") == {"a": 1}
    names.restart()
    assert names.route("orders") == {"a": 1}
    assert {name: state.alive for name, state in names.brokers().items()} == {"a": True, "b": False, "dead": False}


def test_a_suspended_nameserver_expires_no_broker() -> None:
    names = Names()
    names.register(broker_facts("a", orders=1))
    names.pass_time(1)
    names.clock.advance(100)
    names.server.sweep()
    assert names.route("orders") == {"a": 1}
    names.pass_time(4.9)
    assert names.heartbeat("a")


class _Moody(EmbeddedStore):
    """A store that fails while ``fails`` is set."""

    fails = False
    writes = 0

    def put_broker(self, broker: StoredBroker) -> None:
        self._write()
        super().put_broker(broker)

    def remove_broker(self, name: str) -> None:
        self._write()
        super().remove_broker(name)

    def _write(self) -> None:
        self.writes += 1
        if self.fails:
            raise StorageError("disk full")


def test_routes_do_not_depend_on_a_failing_store(caplog: pytest.LogCaptureFixture) -> None:
    store = _Moody()
    names = Names(store)
    names.register(broker_facts("a", orders=1))
    names.register(broker_facts("b", orders=1))
    store.fails = True
    names.register(broker_facts("a", orders=1, logs=1))
    names.deregister("b")
    names.pass_time(2)
    assert names.route("orders") == {"a": 1}
    assert names.server.statistics().unsaved == 2
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    store.fails = False
    names.pass_time(1)
    assert names.server.statistics().unsaved == 0
    names.restart()
    assert (names.route("orders"), names.route("logs")) == ({"a": 1}, {"a": 1})


def test_only_changes_are_saved() -> None:
    store = _Moody()
    names = Names(store)
    for _ in range(3):
        names.register(broker_facts("a", orders=1))
        names.pass_time(1)
        names.heartbeat("a")
    assert store.writes == 1
    names.pass_time(5)
    assert store.writes == 2  # it is silent now


# Invalid requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "must not be empty"),
        ({"name": "x" * 128}, "at most 127"),
        ({"name": "a/../b"}, "use A-Z"),
        ({"name": "%RETRY%"}, "the broker's own"),
        ({"host": ""}, "no valid host name"),
        ({"host": "x" * 254}, "no valid host name"),
        ({"host": "a b\n"}, "no valid host name"),
        ({"host": "0.0.0.0"}, "advertised_host"),  # noqa: S104
        ({"host": "::"}, "advertised_host"),
        ({"port": 0}, "1 … 65535"),
        ({"port": 65536}, "1 … 65535"),
        ({"started_at": 2**63}, "no valid time"),
        ({"default_durability": 4}, "0 … 3"),
        ({"software": "x" * 65}, "at most 64"),
        ({"software": "\x1b[2J"}, "printable"),
        ({"topics": [TopicQueues(topic="t", queues=0)]}, "1 … 65536"),
        ({"topics": [TopicQueues(topic="t", queues=65537)]}, "1 … 65536"),
        ({"topics": [TopicQueues(topic="", queues=1)]}, "must not be empty"),
        ({"topics": [TopicQueues(topic="a b", queues=1)]}, "use A-Z"),
        ({"topics": [TopicQueues(topic="%" + "x" * 127, queues=1)]}, "at most 127"),
        ({"topics": [TopicQueues(topic="%RETRY%\n", queues=1)]}, "A-Z a-z"),
        ({"topics": [TopicQueues(topic="t", queues=1)] * 2}, "duplicate"),
        ({"topics": [TopicQueues(topic=f"t{n}", queues=1) for n in range(11)]}, "accepts 10 per broker"),
    ],
)
def test_invalid_facts_are_refused(change: dict[str, object], says: str) -> None:
    names = Names(max_topics=10)
    facts = broker_facts("a", orders=4)
    for field in change:
        facts.ClearField(field)
    facts.MergeFrom(BrokerFacts(**change))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=says):
        names.register(facts)
    assert names.brokers() == {}
    assert names.store.brokers() == []


def test_a_refused_registration_keeps_the_previous_one() -> None:
    names = Names()
    names.register(broker_facts("a", orders=4))
    with pytest.raises(InvalidArgumentError):
        names.register(broker_facts("a", started_at=2, port=99999, orders=1))
    assert names.route("orders") == {"a": 4}
    assert names.heartbeat("a")


@pytest.mark.parametrize("opcode", [0, 1, 16, 32, 63, 69, 65535])
def test_an_opcode_that_is_not_the_nameservers_is_refused(opcode: int) -> None:
    with pytest.raises(ProtocolError, match=f"does not support opcode {opcode}"):
        Names().ask(opcode, b"")


@given(st.sampled_from([64, 65, 66, 67, 68]), st.binary(max_size=200))
def test_any_header_is_answered_or_refused(opcode: int, header: bytes) -> None:
    names = Names()
    with contextlib.suppress(ProtocolError, InvalidArgumentError):
        names.ask(opcode, header)
    names.register(broker_facts("a", orders=4))
    assert names.route("orders") == {"a": 4}


def test_unknown_fields_are_not_kept() -> None:
    names = Names()
    facts = broker_facts("a", orders=4).SerializeToString(deterministic=True)
    names.ask(Opcode.REGISTER_BROKER, facts + b"\xfa\x3e\x80\x08" + bytes(1024))
    (stored,) = names.store.brokers()
    assert stored.facts.SerializeToString(deterministic=True) == facts


def test_silent_brokers_are_evicted_and_live_ones_are_not() -> None:
    names = Names(max_brokers=2, max_placements=5)
    names.register(broker_facts("a", t1=1, t2=1))
    names.register(broker_facts("b", t1=1, t2=1))
    with pytest.raises(OverloadedError, match="cannot accept broker c") as caught:
        names.register(broker_facts("c"))
    assert caught.value.retry_after_ms == 5000
    with pytest.raises(OverloadedError, match="cannot accept broker b"):
        names.register(broker_facts("b", t1=1, t2=1, t3=1, t4=1))
    names.pass_time(4)
    names.heartbeat("b")
    names.pass_time(2)
    names.register(broker_facts("c", t1=1, t2=1, t3=1))
    assert list(names.brokers()) == ["b", "c"]
    assert names.route("t1") == {"b": 1, "c": 1}
    assert [broker.facts.name for broker in names.store.brokers()] == ["b", "c"]


def test_a_returning_broker_does_not_evict_itself() -> None:
    names = Names(max_placements=5)
    names.register(broker_facts("a", t1=1, t2=1))
    names.pass_time(1)
    names.register(broker_facts("b", t1=1))
    names.pass_time(6)
    names.register(broker_facts("a", t1=1, t2=1, t3=1, t4=1, t5=1))  # silent for longest, but b is evicted
    assert list(names.brokers()) == ["a"]
    assert names.server.statistics() == NameServerStatistics(alive=1, silent=0, topics=5, placements=5, unsaved=0)


@pytest.mark.parametrize("limits", [{"lease_ms": 1500}, {"heartbeat_ms": 0}, {"max_brokers": -1}])
def test_limits_that_cannot_work_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(LiteMQError, match="choose"):
        NameServerLimits(**limits)
