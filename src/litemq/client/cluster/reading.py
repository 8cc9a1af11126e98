"""Reading from a cluster's brokers: membership of groups, pulls, commits, leases and settling, asked over the wire."""

from __future__ import annotations

from collections.abc import Sequence

from litemq.client.cluster import settling
from litemq.client.cluster.links import Links
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Assignment, CommittedOffset, Granted, LeaseTerms, Pulled, QueueFact
from litemq.client.engine.groups import Joining
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.proto.wire_pb2 import (
    CommitRequest,
    GroupAssignment,
    GroupHeartbeat,
    JoinRequest,
    LeaveRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    PullAnswer,
    PullRequest,
    QueueOffset,
    QueueRange,
    ReleaseRequest,
)

__all__ = ["ClusterReading", "queue_fact"]


class ClusterReading:
    """The part of a ``Backend`` that reads. Each request goes to the broker that it names."""

    def __init__(self, links: Links, config: ClientConfig) -> None:
        self._links = links
        self._ask = links.ask
        self._patience = config.request_timeout_ms / 1000

    async def join(self, broker: str, joining: Joining, held: Sequence[int], held_retry: bool) -> Assignment:
        request = JoinRequest(
            group=joining.group,
            topic=joining.topic,
            member=joining.member,
            session_timeout_ms=joining.session_timeout_ms,
            strategy=joining.strategy,
            zone=joining.zone,
            held=held,
            held_retry=held_retry,
        )
        return _assignment(broker, GroupAssignment.FromString(await self._ask(broker, Opcode.JOIN_GROUP, request, vital=True)))

    async def heartbeat(self, broker: str, joining: Joining, session: int, version: int, wait_ms: int) -> Assignment | None:
        request = GroupHeartbeat(
            group=joining.group, topic=joining.topic, member=joining.member, session=session, version=version, wait_ms=wait_ms
        )
        patience = wait_ms / 1000 + self._patience
        header, _ = await self._links.to(broker).request(
            Opcode.GROUP_HEARTBEAT, request.SerializeToString(), answered_within=patience, vital=True
        )
        answer = GroupAssignment.FromString(header)
        return None if answer.unchanged else _assignment(broker, answer)

    async def release(self, broker: str, joining: Joining, session: int, generations: Sequence[int]) -> None:
        request = ReleaseRequest(group=joining.group, topic=joining.topic, member=joining.member, session=session, generations=generations)
        await self._ask(broker, Opcode.RELEASE_QUEUES, request, vital=True)

    async def leave(self, broker: str, joining: Joining) -> None:
        if self._links.to(broker).is_open:  # if not, the broker ends the membership by itself
            request = LeaveRequest(group=joining.group, topic=joining.topic, member=joining.member)
            await self._ask(broker, Opcode.LEAVE_GROUP, request)

    async def pull(
        self,
        broker: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        group: str,
        generation: int = 0,
        is_retry: bool = False,
        selection: Selection = EVERYTHING,
    ) -> Pulled:
        request = PullRequest(
            topic=topic,
            queue_id=queue_id,
            offset=offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            group=group,
            generation=generation,
            is_retry=is_retry,
            filter=selection.text,
            filter_is_sql=selection.is_sql,
        )
        patience = wait_ms / 1000 + self._patience
        header, records = await self._links.to(broker).request(
            Opcode.PULL, request.SerializeToString(), answered_within=patience, vital=True
        )
        answer = PullAnswer.FromString(header)
        return Pulled(records, answer.next_offset, answer.damaged)

    async def commit(self, broker: str, topic: str, group: str, offsets: Sequence[CommittedOffset]) -> None:
        done = [
            QueueOffset(queue_id=each.queue_id, offset=each.offset, generation=each.generation, is_retry=each.is_retry) for each in offsets
        ]
        await self._ask(broker, Opcode.COMMIT_OFFSETS, CommitRequest(group=group, topic=topic, offsets=done), vital=True)

    async def lease(
        self, broker: str, topic: str, group: str, terms: LeaseTerms, *, max_messages: int, max_bytes: int, wait_ms: int
    ) -> Granted:
        request = settling.lease_request(topic, group, terms, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms)
        patience = wait_ms / 1000 + self._patience
        header, records = await self._links.to(broker).request(Opcode.LEASE, request, answered_within=patience, vital=True)
        return settling.granted(header, records)

    async def settle(
        self, broker: str, topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], *, consumer: str
    ) -> list[Unsettled]:
        request = settling.settle_request(topic, group, acked, failed, consumer)
        return settling.unsettled(await self._ask(broker, Opcode.SETTLE, request, vital=True))

    async def extend(self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        request = settling.extend_request(topic, group, lease_ms, leases)
        return settling.unsettled(await self._ask(broker, Opcode.EXTEND, request, vital=True))

    async def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp: int) -> int:
        request = OffsetAtTimeRequest(topic=topic, queue_id=queue_id, store_timestamp=store_timestamp)
        return OffsetAnswer.FromString(await self._ask(broker, Opcode.OFFSET_AT_TIME, request)).offset


def queue_fact(broker: str, queue: QueueRange) -> QueueFact:
    """Return a queue as ``broker`` describes it."""
    archived_from = queue.archived_from if queue.HasField("archived_from") else queue.least
    return QueueFact(broker, queue.queue_id, queue.least, queue.next, earliest=archived_from)


def _assignment(broker: str, answer: GroupAssignment) -> Assignment:
    queues = tuple(
        queue_fact(broker, queue.range)._replace(committed=queue.committed, is_retry=queue.is_retry, generation=queue.generation)
        for queue in answer.queues
    )
    return Assignment(answer.session, answer.version, queues, tuple(answer.release), answer.reset_id, answer.session_timeout_ms)
