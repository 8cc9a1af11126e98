"""A fake of an engine's lease methods: it records requests, and answers with prepared results."""

# ruff: noqa: ARG002  the signatures are those of an engine

import asyncio
from collections import deque

from litemq.client.engine.engine import LeasedRecords, LeaseOptions
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.errors import LiteMQError
from litemq.format.record_encode import encode_record
from litemq.types import Record, RecordKind, Stamp

LEASE_OPTIONS = LeaseOptions(lease_ms=400, max_retries=3)
SETTLE_POLICY = SettlePolicy()


def leased_records(first: int, count: int, *, queue_id: int = 0, kind: RecordKind = RecordKind.MESSAGE) -> bytes:
    """Encode ``count`` consecutive stored records of one queue."""
    return b"".join(
        encode_record(
            Record("orders", b"%d" % offset, message_id=f"id-{offset}", born_timestamp=1),
            Stamp(queue_offset=offset, queue_id=queue_id, store_timestamp=1, kind=kind),
        )
        for offset in range(first, first + count)
    )


class LeaseEngine:
    """The lease methods of an engine."""

    def __init__(self) -> None:
        self.grants: deque[LeasedRecords | LiteMQError] = deque()
        self.asked: list[tuple[int, int]] = []  # max_messages and wait_ms
        self.settled: list[tuple[list[LeasedOffsets], list[FailedDelivery]]] = []
        self.extended: list[tuple[int, list[LeasedOffsets]]] = []
        self.extended_at = 0.0  # by the loop's clock, the last time
        self.unsettled: list[Unsettled] = []  # the answer to settle and extend requests
        self.troubles: deque[LiteMQError] = deque()  # the errors of the next settle and extend requests
        self.gate = asyncio.Event()  # settling waits for it
        self.gate.set()
        self.granted = asyncio.Event()  # lease requests wait for it if there are no grants

    async def lease(
        self,
        broker: str,
        topic: str,
        group: str,
        options: LeaseOptions,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
    ) -> LeasedRecords:
        self.asked.append((max_messages, wait_ms))
        if not self.grants and wait_ms:
            self.granted.clear()
            await self.granted.wait()
        if not self.grants:
            return LeasedRecords(b"", 0, [])
        grant = self.grants.popleft()
        if isinstance(grant, LiteMQError):
            raise grant
        return grant

    def grant(
        self, first: int, count: int, *, token: int = 7, attempt: int = 1, kind: RecordKind = RecordKind.MESSAGE
    ) -> None:
        """Prepare the records of a lease."""
        self.grants.append(LeasedRecords(leased_records(first, count, kind=kind), token, [attempt] * count))
        self.granted.set()

    async def settle(
        self,
        broker: str,
        topic: str,
        group: str,
        acked: list[LeasedOffsets],
        failed: list[FailedDelivery],
        *,
        consumer: str,
    ) -> list[Unsettled]:
        self.settled.append((acked, failed))
        await self.gate.wait()
        if self.troubles:
            raise self.troubles.popleft()
        return self.unsettled

    async def extend(
        self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]
    ) -> list[Unsettled]:
        self.extended.append((lease_ms, leases))
        self.extended_at = asyncio.get_running_loop().time()
        if self.troubles:
            raise self.troubles.popleft()
        return self.unsettled
