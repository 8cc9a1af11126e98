"""Destinations of sends: headers are parsed once, and long ones are not kept."""

from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.proto.wire_pb2 import LeaseRequest, Opcode, SendRequest
from support.callers import Asking, records, running_broker
from support.on_loop import on_loop


def _with_unknown_field(header: bytes, size: int) -> bytes:
    """Append a field that no version knows, of ``size`` bytes."""
    length = bytes([0x80 | size & 0x7F, 0x80 | size >> 7 & 0x7F, size >> 14])
    return header + b"\x8a\x7f" + length + bytes(size)


@pytest.mark.parametrize("size", [0, 1 << 20])
@on_loop
async def test_long_headers_are_not_kept(tmp_path: Path, size: int) -> None:
    async with running_broker("memory", tmp_path) as broker:
        asking = Asking(broker)
        await asking.create()
        header = SendRequest(topic="orders", queue_id=1).SerializeToString()
        lease = LeaseRequest(topic="orders", group="billing", max_messages=1, lease_ms=1000).SerializeToString()
        for number in range(3):
            await asking.channel.ask(Opcode.SEND, _with_unknown_field(header, size), records(first=number))
            await asking.channel.ask(Opcode.LEASE, _with_unknown_field(lease, size))
        assert _kept(broker) == (0 if size else 2)


def _kept(broker: Broker) -> int:
    lease_requests = broker.handlers[Opcode.LEASE].call.__self__  # type: ignore[attr-defined]
    return len(broker._destinations.known) + len(lease_requests._parsed)
