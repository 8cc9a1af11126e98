"""The reading part of a cluster's engine: group membership, pulls, commits, leases and settling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from litemq.client.cluster import settling
from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.replica_reads import ReplicaReads
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import (
    Assignment,
    CommittedOffset,
    LeasedRecords,
    LeaseOptions,
    PulledRecords,
    QueueInfo,
)
from litemq.client.engine.groups import GroupJoin
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

__all__ = ["ClusterReader", "queue_from_wire"]


class ClusterReader:
    """The methods of ``Engine`` that read. Each request goes to the broker that it names."""

    def __init__(self, connections: BrokerConnections, reads: ReplicaReads, config: ClientConfig) -> None:
        self._connections = connections
        self._reads = reads
        self._ask = connections.ask
        self._timeout = config.request_timeout_ms / 1000

    async def join(self, broker: str, join: GroupJoin, held: Sequence[int], held_retry: bool) -> Assignment:
        request = JoinRequest(
            group=join.group,
            topic=join.topic,
            member=join.member,
            session_timeout_ms=join.session_timeout_ms,
            strategy=join.strategy,
            zone=join.zone,
            held=held,
            held_retry=held_retry,
        )
        return _assignment(
            broker, GroupAssignment.FromString(await self._ask(broker, Opcode.JOIN_GROUP, request, vital=True))
        )

    async def heartbeat(
        self, broker: str, join: GroupJoin, session: int, version: int, wait_ms: int
    ) -> Assignment | None:
        request = GroupHeartbeat(
            group=join.group, topic=join.topic, member=join.member, session=session, version=version, wait_ms=wait_ms
        )
        timeout = wait_ms / 1000 + self._timeout
        header, _ = await self._connections.to(broker).request(
            Opcode.GROUP_HEARTBEAT, request.SerializeToString(), answered_within=timeout, vital=True
        )
        answer = GroupAssignment.FromString(header)
        return None if answer.unchanged else _assignment(broker, answer)

    async def release(self, broker: str, join: GroupJoin, session: int, generations: Sequence[int]) -> None:
        request = ReleaseRequest(
            group=join.group, topic=join.topic, member=join.member, session=session, generations=generations
        )
        await self._ask(broker, Opcode.RELEASE_QUEUES, request, vital=True)

    async def leave(self, broker: str, join: GroupJoin) -> None:
        if self._connections.to(broker).is_open:  # else the broker has ended the membership
            request = LeaveRequest(group=join.group, topic=join.topic, member=join.member)
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
        on_part: Callable[[PulledRecords], None] | None = None,
    ) -> PulledRecords:
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
            in_parts=on_part is not None,
        )
        timeout = wait_ms / 1000 + self._timeout
        send = self._connections.to(broker).request if group else partial(self._reads.request, broker)
        header, records = await send(
            Opcode.PULL,
            request.SerializeToString(),
            answered_within=timeout,
            vital=True,
            on_part=None if on_part is None else lambda header, records: on_part(_pulled(header, records)),
        )
        return _pulled(header, records)

    async def commit(self, broker: str, topic: str, group: str, offsets: Sequence[CommittedOffset]) -> None:
        done = [
            QueueOffset(queue_id=each.queue_id, offset=each.offset, generation=each.generation, is_retry=each.is_retry)
            for each in offsets
        ]
        await self._ask(
            broker, Opcode.COMMIT_OFFSETS, CommitRequest(group=group, topic=topic, offsets=done), vital=True
        )

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
        request = settling.lease_request(
            topic, group, options, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
        )
        timeout = wait_ms / 1000 + self._timeout
        header, records = await self._connections.to(broker).request(
            Opcode.LEASE, request, answered_within=timeout, vital=True
        )
        return settling.leased_records(header, records)

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
        request = settling.settle_request(topic, group, acked, failed, consumer)
        return settling.unsettled(await self._ask(broker, Opcode.SETTLE, request, vital=True))

    async def extend(
        self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]
    ) -> list[Unsettled]:
        request = settling.extend_request(topic, group, lease_ms, leases)
        return settling.unsettled(await self._ask(broker, Opcode.EXTEND, request, vital=True))

    async def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp: int) -> int:
        request = OffsetAtTimeRequest(topic=topic, queue_id=queue_id, store_timestamp=store_timestamp)
        answer = await self._reads.request(broker, Opcode.OFFSET_AT_TIME, request.SerializeToString())
        return OffsetAnswer.FromString(answer.header).offset


def _pulled(header: bytes, records: bytes) -> PulledRecords:
    if not header:
        return PulledRecords(records, 0, "")
    answer = PullAnswer.FromString(header)
    return PulledRecords(records, answer.next_offset, answer.damaged)


def queue_from_wire(broker: str, queue: QueueRange) -> QueueInfo:
    """Convert a queue of ``broker`` from its wire form."""
    archived_from = queue.archived_from if queue.HasField("archived_from") else queue.least
    return QueueInfo(broker, queue.queue_id, queue.least, queue.next, earliest=archived_from)


def _assignment(broker: str, answer: GroupAssignment) -> Assignment:
    queues = tuple(
        queue_from_wire(broker, queue.range)._replace(
            committed=queue.committed, is_retry=queue.is_retry, generation=queue.generation
        )
        for queue in answer.queues
    )
    return Assignment(
        answer.session, answer.version, queues, tuple(answer.release), answer.reset_id, answer.session_timeout_ms
    )
