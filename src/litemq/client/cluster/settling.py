"""Lease and settle requests and their answers, converted to and from the wire."""

from __future__ import annotations

from litemq.client.engine.engine import LeasedRecords, LeaseOptions
from litemq.client.settling.settlements import DeliveryPosition, FailedDelivery, LeasedOffsets, Unsettled
from litemq.net.failures import error_from_code
from litemq.proto.wire_pb2 import (
    ExtendRequest,
    FailedTry,
    LeaseAnswer,
    Leased,
    LeaseRequest,
    SettleAnswer,
    SettleRequest,
)

__all__ = ["extend_request", "lease_request", "leased_records", "settle_request", "unsettled"]


def lease_request(
    topic: str, group: str, options: LeaseOptions, *, max_messages: int, max_bytes: int, wait_ms: int
) -> bytes:
    """Encode a request for messages."""
    return LeaseRequest(
        topic=topic,
        group=group,
        max_messages=max_messages,
        max_bytes=max_bytes,
        wait_ms=wait_ms,
        lease_ms=options.lease_ms,
        max_retries=options.max_retries,
        filter=options.filter,
        filter_is_sql=options.filter_is_sql,
        from_latest=options.from_latest,
    ).SerializeToString()


def leased_records(header: bytes, records: bytes) -> LeasedRecords:
    """Decode the answer to a lease request."""
    answer = LeaseAnswer.FromString(header)
    return LeasedRecords(records, answer.token, list(answer.counts))


def settle_request(
    topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], consumer: str
) -> SettleRequest:
    """Build the request that settles messages; ``consumer`` is named in dead letters."""
    return SettleRequest(
        topic=topic, group=group, acked=_leased(acked), failed=[_failed(each, consumer) for each in failed]
    )


def _leased(leases: list[LeasedOffsets]) -> list[Leased]:
    return [
        Leased(queue_id=each.queue_id, is_retry=each.is_retry, token=each.token, offsets=each.offsets)
        for each in leases
    ]


def _failed(delivery: FailedDelivery, consumer: str) -> FailedTry:
    position, token, attempt, failure, _queue = delivery
    return FailedTry(
        queue_id=position.queue_id,
        is_retry=position.is_retry,
        token=token,
        offset=position.offset,
        delay_ms=round(failure.delay * 1000),
        max_retries=failure.max_retries,
        is_final=failure.is_final,
        reason=failure.reason,
        detail=failure.detail,
        error=failure.error,
        stack=failure.stack,
        consumer=consumer,
        count=attempt,
        is_untried=failure.is_untried,
    )


def extend_request(topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> ExtendRequest:
    """Build the request that extends leases to ``lease_ms`` from now."""
    return ExtendRequest(topic=topic, group=group, lease_ms=lease_ms, leases=_leased(leases))


def unsettled(header: bytes) -> list[Unsettled]:
    """Decode the answer to a settle or extend request: the deliveries that the broker refused."""
    answer = SettleAnswer.FromString(header)
    return [
        Unsettled(DeliveryPosition(each.queue_id, each.is_retry, each.offset), error_from_code(each.code, each.message))
        for each in answer.unsettled
    ]
