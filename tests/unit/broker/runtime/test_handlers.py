"""The table of requests: every request of a broker has one row with the permission it needs."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.replication.shipping import Shipping
from litemq.broker.replication.stretches import StretchRequests
from litemq.broker.runtime.handlers import Handler, HandlerTable, Permission
from litemq.clock import FakeClock
from litemq.proto.wire_pb2 import Opcode
from support.replicas import open_replica
from support.stores import CONFIG

# Requests that never reach the table: the connection answers the first two, NameServers the others.
_ELSEWHERE = {
    Opcode.HELLO,
    Opcode.PING,
    *range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1),
    *range(Opcode.REPORT_REPLICA, Opcode.LIST_REPLICA_GROUPS + 1),
    *range(Opcode.HAND_OVER, Opcode.ELECT_UNCLEAN + 1),
}


@pytest.fixture
def table(tmp_path: Path) -> HandlerTable:
    """The requests of the master of a replicated group, which has the most."""

    async def make() -> HandlerTable:
        store = open_replica(tmp_path, CONFIG, FakeClock())
        begun = store.begin_writing(1).end
        alone = InSyncSet(frozenset({store.store_id}), 1)
        in_sync = InSyncTracker(store.store_id, begun, alone, min_in_sync=1, max_lag_ns=0, now=0)
        shipping = Shipping(store, in_sync, FakeClock(), group="orders")
        broker = Broker(store, FakeClock())
        process = [
            Handler(Opcode.SWITCH_MASTER, Permission.CLUSTER_UPDATE, lambda *_: None),
            StretchRequests("orders", store).handler,
        ]
        broker.ship(shipping, *process)
        broker.close()
        store.abandon()
        return broker.handlers

    return asyncio.run(make())


def test_every_opcode_has_a_handler_with_a_permission(table: HandlerTable) -> None:
    assert set(table) == {number for number in Opcode.values() if number} - _ELSEWHERE
    for opcode, handler in table.items():
        assert handler.opcode == opcode
        assert isinstance(handler.permission, Permission), (
            f"{Opcode.Name(Opcode.ValueType(opcode))} names no permission"
        )
        assert callable(handler.call)


def test_every_permission_is_needed_by_a_request(table: HandlerTable) -> None:
    assert {handler.permission for handler in table.values()} == set(Permission)


def test_an_opcode_has_one_handler() -> None:
    def nothing(*_: object) -> None: ...

    row = Handler(Opcode.PULL, Permission.TOPIC_READ, nothing)
    assert list(HandlerTable([row])) == [Opcode.PULL]
    with pytest.raises(ValueError, match="two handlers"):
        HandlerTable([row, row])
