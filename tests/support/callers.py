"""A broker in this process, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import Clock, FakeClock
from litemq.format.batches.scan import scan
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import CreateTopicRequest, Opcode, SendAnswer, SendRequest
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.memory_store import MemoryStore
from litemq.storage.store import Store
from litemq.testing.local_channel import LocalChannel
from litemq.types import Durability

Kind = Literal["memory", "disk"]


class Asking:
    """A client without a network, with a method for each request."""

    def __init__(self, broker: Broker, client_id: str = "tester") -> None:
        self.channel = LocalChannel("broker", client_id, broker)

    async def create(self, topic: str = "orders", queues: int = 4) -> None:
        await self.channel.ask(Opcode.CREATE_TOPIC, CreateTopicRequest(topic=topic, queues=queues).SerializeToString())

    async def send(self, batch: bytes, queue_id: int = 0, topic: str = "orders") -> SendAnswer:
        answer: Answer = await self.channel.ask(
            Opcode.SEND, SendRequest(topic=topic, queue_id=queue_id).SerializeToString(), batch
        )
        return SendAnswer.FromString(answer.header)


def records(
    count: int = 1,
    *,
    first: int = 0,
    producer_id: int = 0,
    topic: str = "orders",
    level: Durability = Durability.DISK,
    body: bytes = b"body",
    **fields: int,
) -> bytes:
    """Encode ``count`` records of one producer, one after another."""
    template = RecordTemplate(topic, producer_id=producer_id, reliability=level)
    return b"".join(
        template.encode(body, message_id=f"m-{sequence}", sequence=sequence, **fields)  # type: ignore[arg-type]
        for sequence in range(first, first + count)
    )


def queue_offsets(stored: bytes) -> list[int]:
    """Return the queue offset of each record in the answer to a pull."""
    stamps = [decode_record(stored, int(at)).stamp for at in scan(stored).starts]
    return [stamp.queue_offset for stamp in stamps if stamp is not None]


@asynccontextmanager
async def running_broker(
    kind: Kind,
    directory: Path,
    limits: BrokerLimits | None = None,
    clock: Clock | None = None,
    disk: Disk = DISK,
) -> AsyncIterator[Broker]:
    """Run a broker over a new store.

    Without ``clock``, its time does not advance, so no lease or session expires on a slow machine.
    """
    clock = clock or FakeClock()
    store: Store
    if kind == "memory":
        store = MemoryStore(clock)
    else:
        store = DiskStore(directory, StoreConfig(segment_bytes=8 << 20), clock, disk=disk)
    broker = Broker(store, clock, limits)
    try:
        yield broker
    finally:
        broker.close()
        store.close()
