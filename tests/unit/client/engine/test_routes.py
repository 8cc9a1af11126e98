"""Routes: the queues of a topic in one order for every client, and the queue of a key."""

import pytest

from litemq.client.engine.routes import BrokerAddress, Route, queue_for_key
from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.types import Durability


def test_a_key_always_goes_to_the_same_queue() -> None:
    assert [queue_for_key(key, 8) for key in ("a", "b", "customer-17", "é")] == [0, 4, 3, 4]
    route = Route("t", (BrokerAddress("a", "h", 1, 2, Durability.DISK), BrokerAddress("b", "h", 2, 1, Durability.DISK)))
    assert route.queues == [("a", 0), ("a", 1), ("b", 0)]
    assert route.broker("b").port == 2
    with pytest.raises(NoRouteError):
        route.broker("c")


def test_a_key_that_is_not_text_is_rejected() -> None:
    for key in (17, "\udc80"):
        with pytest.raises(InvalidArgumentError, match="UTF-8"):
            queue_for_key(key, 8)  # type: ignore[arg-type]
