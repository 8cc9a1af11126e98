"""A broker for the leases of a client, as small as can be: it remembers what it was asked, and answers as it is told."""

# ruff: noqa: ARG002  it is asked as brokers are

import asyncio
from collections import deque

from litemq.client.engine.engine import Granted, LeaseTerms
from litemq.client.settling.ack_policy import Handling
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.errors import LiteMQError
from litemq.format.record_encode import encode_record
from litemq.types import Record, RecordKind, Stamp

TERMS = LeaseTerms(lease_ms=400, max_retries=3)
HANDLING = Handling()


def leased_records(first: int, count: int, *, queue_id: int = 0, kind: RecordKind = RecordKind.MESSAGE) -> bytes:
    """Stored records of one queue, one behind another."""
    return b"".join(
        encode_record(
            Record("orders", b"%d" % offset, message_id=f"id-{offset}", born_timestamp=1),
            Stamp(queue_offset=offset, queue_id=queue_id, store_timestamp=1, kind=kind),
        )
        for offset in range(first, first + count)
    )


class LeaseBackend:
    """What a client sees of a broker that leases."""

    def __init__(self) -> None:
        self.grants: deque[Granted | LiteMQError] = deque()
        self.asked: list[tuple[int, int]] = []  # how many, and for how long
        self.settled: list[tuple[list[LeasedOffsets], list[FailedDelivery]]] = []
        self.extended: list[tuple[int, list[LeasedOffsets]]] = []
        self.extended_at = 0.0  # by the loop's clock, the last time
        self.unsettled: list[Unsettled] = []  # the answer to all that is settled or extended
        self.troubles: deque[LiteMQError] = deque()  # what happens to the next requests to settle or extend
        self.gate = asyncio.Event()  # settling waits for it
        self.gate.set()
        self.granted = asyncio.Event()  # asking for leases waits for it, where there are none

    async def lease(
        self, broker: str, topic: str, group: str, terms: LeaseTerms, *, max_messages: int, max_bytes: int, wait_ms: int
    ) -> Granted:
        self.asked.append((max_messages, wait_ms))
        if not self.grants and wait_ms:
            self.granted.clear()
            await self.granted.wait()
        if not self.grants:
            return Granted(b"", 0, [])
        grant = self.grants.popleft()
        if isinstance(grant, LiteMQError):
            raise grant
        return grant

    def grant(self, first: int, count: int, *, token: int = 7, attempt: int = 1, kind: RecordKind = RecordKind.MESSAGE) -> None:
        """Let somebody have messages."""
        self.grants.append(Granted(leased_records(first, count, kind=kind), token, [attempt] * count))
        self.granted.set()

    async def settle(
        self, broker: str, topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], *, consumer: str
    ) -> list[Unsettled]:
        self.settled.append((acked, failed))
        await self.gate.wait()
        if self.troubles:
            raise self.troubles.popleft()
        return self.unsettled

    async def extend(self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        self.extended.append((lease_ms, leases))
        self.extended_at = asyncio.get_running_loop().time()
        if self.troubles:
            raise self.troubles.popleft()
        return self.unsettled
