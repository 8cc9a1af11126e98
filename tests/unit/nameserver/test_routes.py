"""Routes: cached answers equal computed ones."""

from litemq.nameserver.routes import Routes
from litemq.proto.wire_pb2 import BrokerFacts, RouteAnswer
from support.names import broker_facts


def _place(routes: Routes, facts: BrokerFacts) -> None:
    routes.put(facts, {topic.topic: topic.queues for topic in facts.topics})


def _queues(routes: Routes, topic: str) -> list[tuple[str, int, int]]:
    return [
        (broker.name, broker.port, broker.queues) for broker in RouteAnswer.FromString(routes.answer(topic)).brokers
    ]


def test_a_topic_has_a_route_to_each_of_its_brokers() -> None:
    routes = Routes()
    _place(routes, broker_facts("b", orders=4, logs=1))
    _place(routes, broker_facts("a", orders=2))
    assert _queues(routes, "orders") == [("a", 10911, 2), ("b", 10911, 4)]
    assert _queues(routes, "logs") == [("b", 10911, 1)]
    assert _queues(routes, "nothing") == []
    (first, _) = RouteAnswer.FromString(routes.answer("orders")).brokers
    assert (first.host, first.default_durability) == ("127.0.0.1", 2)


def test_an_answer_is_cached_until_it_changes() -> None:
    routes = Routes()
    _place(routes, broker_facts("a", orders=2, logs=1))
    orders, logs = routes.answer("orders"), routes.answer("logs")
    _place(routes, broker_facts("a", orders=2, logs=3))
    assert routes.answer("orders") is orders
    assert routes.answer("logs") != logs
    logs = routes.answer("logs")
    _place(routes, broker_facts("b", orders=1))
    assert _queues(routes, "orders") == [("a", 10911, 2), ("b", 10911, 1)]
    assert routes.answer("logs") is logs
    _place(routes, broker_facts("a", port=7, orders=2, logs=3))  # moved
    assert _queues(routes, "orders") == [("a", 7, 2), ("b", 10911, 1)]
    assert _queues(routes, "logs") == [("a", 7, 3)]


def test_a_route_has_the_priorities_flag() -> None:
    routes = Routes()
    facts = broker_facts("a", orders=8, logs=1)
    _place(routes, facts)
    plain, logs = routes.answer("orders"), routes.answer("logs")
    for topic in facts.topics:
        topic.has_priorities = topic.topic == "orders"
    _place(routes, facts)
    assert [broker.has_priorities for broker in RouteAnswer.FromString(routes.answer("orders")).brokers] == [True]
    assert routes.answer("logs") is logs
    _place(routes, broker_facts("a", orders=8, logs=1))
    assert routes.answer("orders") == plain
    _place(routes, facts)
    routes.remove("a")
    assert not any(vars(routes).values())


def test_removed_brokers_and_topics_leave_nothing_behind() -> None:
    routes = Routes()
    _place(routes, broker_facts("a", orders=2, logs=1))
    routes.answer("logs")
    _place(routes, broker_facts("a", orders=2))
    assert _queues(routes, "logs") == []
    routes.answer("orders")
    routes.remove("a")
    routes.remove("a")
    assert _queues(routes, "orders") == []
    assert routes.topics == set()
    assert not any(vars(routes).values())


def test_lookups_of_unknown_topics_are_not_cached() -> None:
    routes = Routes()
    for n in range(100):
        assert routes.answer(f"topic-{n}") == b""
    assert not any(vars(routes).values())
