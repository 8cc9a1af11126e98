"""The table of requests: every request of a broker has one row with the permission it needs."""

import asyncio

import pytest

from litemq.broker.broker import Broker
from litemq.broker.runtime.handlers import Handler, HandlerTable, Permission
from litemq.clock import FakeClock
from litemq.proto.wire_pb2 import Opcode
from litemq.storage.memory_store import MemoryStore

# Requests that never reach the table: the connection answers the first two, a NameServer or the
# master of a replicated group the others.
_REPLICATION = range(Opcode.FOLLOW_LOG, Opcode.REPORT_LOG + 1)
_ELSEWHERE = {Opcode.HELLO, Opcode.PING, *range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1), *_REPLICATION}


def _table() -> HandlerTable:
    async def table() -> HandlerTable:
        broker = Broker(MemoryStore(FakeClock()), FakeClock())
        broker.close()
        return broker.handlers

    return asyncio.run(table())


def test_every_opcode_has_a_handler_with_a_permission() -> None:
    table = _table()
    assert set(table) == {number for number in Opcode.values() if number} - _ELSEWHERE
    for opcode, handler in table.items():
        assert handler.opcode == opcode
        assert isinstance(handler.permission, Permission), (
            f"{Opcode.Name(Opcode.ValueType(opcode))} names no permission"
        )
        assert callable(handler.call)


def test_every_permission_is_needed_by_a_request() -> None:
    needed = {handler.permission for handler in _table().values()}
    assert needed | {Permission.CLUSTER_REPLICATE} == set(Permission)


def test_an_opcode_has_one_handler() -> None:
    def nothing(*_: object) -> None: ...

    row = Handler(Opcode.PULL, Permission.TOPIC_READ, nothing)
    assert list(HandlerTable([row])) == [Opcode.PULL]
    with pytest.raises(ValueError, match="two handlers"):
        HandlerTable([row, row])
