"""A client that leases and settles messages, without a network."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from litemq.format.limits import STORED_LIMITS
from litemq.format.offset_runs import RunSet, pack_runs
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import (
    ExtendRequest,
    FailedTry,
    LeaseAnswer,
    Leased,
    LeaseRequest,
    Opcode,
    SettleAnswer,
    SettleRequest,
)
from litemq.types import RecordKind, StoredRecord
from support.callers import Asking


class Got(NamedTuple):
    """A message under a lease."""

    queue_id: int
    is_retry: bool
    offset: int
    token: int
    deadline: int
    tries: int
    stored: StoredRecord

    @property
    def message_id(self) -> str:
        return self.stored.record.message_id


class Leaser(Asking):
    """A client of lease mode, with a method for each request."""

    def ask_for(
        self,
        most: int = 100,
        *,
        group: str = "billing",
        topic: str = "orders",
        wait_ms: int = 0,
        lease_ms: int = 1000,
        max_retries: int = 16,
        max_bytes: int = 0,
        from_latest: bool = False,
        filter: str = "",  # noqa: A002
        filter_is_sql: bool = False,
    ) -> asyncio.Future[list[Got]]:
        request = LeaseRequest(
            topic=topic,
            group=group,
            max_messages=most,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            lease_ms=lease_ms,
            max_retries=max_retries,
            from_latest=from_latest,
            filter=filter,
            filter_is_sql=filter_is_sql,
        )
        return asyncio.ensure_future(self._lease(request))

    async def _lease(self, request: LeaseRequest) -> list[Got]:
        answer = await self.channel.ask(Opcode.LEASE, request.SerializeToString())
        lease_answer = LeaseAnswer.FromString(answer.header)
        got: list[Got] = []
        at = 0
        for count in lease_answer.counts:
            stored = decode_record(answer.attachment, at, limits=STORED_LIMITS)
            at += stored.size
            stamp = stored.stamp
            assert stamp is not None
            is_retry = stamp.kind is RecordKind.RETRY
            got.append(
                Got(
                    0 if is_retry else stamp.queue_id,
                    is_retry,
                    stamp.queue_offset,
                    lease_answer.token,
                    lease_answer.deadline,
                    count,
                    stored,
                )
            )
        assert at == len(answer.attachment)
        return got

    async def ack(self, *messages: Got, group: str = "billing", topic: str = "orders") -> list[tuple[int, int]]:
        """Acknowledge messages; return the refused ones as (offset, code)."""
        request = SettleRequest(topic=topic, group=group, acked=_leases(messages))
        return await self._settle(Opcode.SETTLE, request.SerializeToString())

    async def fail(
        self,
        *messages: Got,
        group: str = "billing",
        topic: str = "orders",
        delay_ms: int = 0,
        max_retries: int = 16,
        final: bool = False,
        reason: int = 0,
        error: str = "",
    ) -> list[tuple[int, int]]:
        failed = [
            FailedTry(
                queue_id=one.queue_id,
                is_retry=one.is_retry,
                token=one.token,
                offset=one.offset,
                delay_ms=delay_ms,
                max_retries=max_retries,
                is_final=final,
                reason=reason,
                error=error,
            )
            for one in messages
        ]
        return await self._settle(
            Opcode.SETTLE, SettleRequest(topic=topic, group=group, failed=failed).SerializeToString()
        )

    async def extend(
        self, *messages: Got, lease_ms: int = 1000, group: str = "billing", topic: str = "orders"
    ) -> list[tuple[int, int]]:
        request = ExtendRequest(topic=topic, group=group, lease_ms=lease_ms, leases=_leases(messages))
        return await self._settle(Opcode.EXTEND, request.SerializeToString())

    async def _settle(self, opcode: int, request: bytes) -> list[tuple[int, int]]:
        answer = await self.channel.ask(opcode, request)
        return [(one.offset, one.code) for one in SettleAnswer.FromString(answer.header).unsettled]


def _leases(messages: tuple[Got, ...]) -> list[Leased]:
    runs: dict[tuple[int, bool, int], RunSet] = {}
    for one in messages:
        runs.setdefault((one.queue_id, one.is_retry, one.token), RunSet()).add(one.offset, one.offset + 1)
    return [
        Leased(queue_id=queue_id, is_retry=is_retry, token=token, offsets=pack_runs(of_token))
        for (queue_id, is_retry, token), of_token in runs.items()
    ]
