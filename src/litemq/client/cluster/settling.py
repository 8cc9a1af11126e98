"""Leases and settling, as they are written on the wire."""

from __future__ import annotations

from litemq.client.engine.engine import Granted, LeaseTerms
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Place, Unsettled
from litemq.net.failures import error_of
from litemq.proto.wire_pb2 import ExtendRequest, FailedTry, LeaseAnswer, Leased, LeaseRequest, SettleAnswer, SettleRequest

__all__ = ["extend_request", "granted", "lease_request", "settle_request", "unsettled"]


def lease_request(topic: str, group: str, terms: LeaseTerms, *, max_messages: int, max_bytes: int, wait_ms: int) -> bytes:
    """Ask for messages."""
    return LeaseRequest(
        topic=topic,
        group=group,
        max_messages=max_messages,
        max_bytes=max_bytes,
        wait_ms=wait_ms,
        lease_ms=terms.lease_ms,
        max_retries=terms.max_retries,
        filter=terms.filter,
        filter_is_sql=terms.filter_is_sql,
        from_latest=terms.from_latest,
    ).SerializeToString()


def granted(header: bytes, records: bytes) -> Granted:
    """The answer to that."""
    answer = LeaseAnswer.FromString(header)
    return Granted(records, answer.token, list(answer.counts))


def settle_request(topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], consumer: str) -> SettleRequest:
    """What became of messages."""
    return SettleRequest(topic=topic, group=group, acked=_leased(acked), failed=[_failed(each, consumer) for each in failed])


def _leased(leases: list[LeasedOffsets]) -> list[Leased]:
    return [Leased(queue_id=each.queue_id, is_retry=each.is_retry, token=each.token, offsets=each.offsets) for each in leases]


def _failed(delivery: FailedDelivery, consumer: str) -> FailedTry:
    place, token, attempt, failure = delivery
    return FailedTry(
        queue_id=place.queue_id,
        is_retry=place.is_retry,
        token=token,
        offset=place.offset,
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
    """Keep messages for longer."""
    return ExtendRequest(topic=topic, group=group, lease_ms=lease_ms, leases=_leased(leases))


def unsettled(header: bytes) -> list[Unsettled]:
    """What a broker could not do of either."""
    answer = SettleAnswer.FromString(header)
    return [Unsettled(Place(each.queue_id, each.is_retry, each.offset), error_of(each.code, each.message)) for each in answer.unsettled]
