"""Progress of a stream as a group's offsets, for ``litemq group`` and lag monitoring.

The offsets are only written: the stream itself resumes from Spark's checkpoint.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from litemq.errors import LiteMQError
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import CommitRequest, GroupAssignment, JoinRequest, LeaveRequest, Opcode, QueueOffset
from litemq.spark.fetch import thread_cluster

__all__ = ["GroupOffsets"]

_LOG = logging.getLogger(__name__)
_MEMBER: Final = "spark"


class GroupOffsets:
    """Offsets of a group, committed to each broker as a member that joins, commits and leaves."""

    def __init__(self, url: str, group: str) -> None:
        self._url = url
        self._group = group

    def commit(self, queues: Mapping[str, int]) -> None:
        """Commit the next offset of each queue, named ``topic/broker/number``.

        A failure is only logged: the query does not depend on it.
        """
        offsets_by_topic: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for name, offset in queues.items():
            topic, rest = name.split("/", 1)
            broker, number = rest.rsplit("/", 1)
            offsets_by_topic[broker, topic][int(number)] = offset
        for (broker, topic), offsets in offsets_by_topic.items():
            try:
                self._commit_topic(thread_cluster(self._url).peer(broker), topic, offsets)
            except LiteMQError as error:
                _LOG.warning("could not commit offsets of group %s for %s at %s: %s", self._group, topic, broker, error)

    def _commit_topic(self, peer: BlockingPeer, topic: str, offsets: Mapping[int, int]) -> None:
        join = JoinRequest(group=self._group, topic=topic, member=_MEMBER)
        assigned = GroupAssignment.FromString(peer.request(Opcode.JOIN_GROUP, join.SerializeToString()).header)
        done = [
            QueueOffset(
                queue_id=queue.range.queue_id, offset=offsets[queue.range.queue_id], generation=queue.generation
            )
            for queue in assigned.queues
            if not queue.is_retry and queue.range.queue_id in offsets
        ]
        if done:
            peer.request(
                Opcode.COMMIT_OFFSETS, CommitRequest(group=self._group, topic=topic, offsets=done).SerializeToString()
            )
        leave = LeaveRequest(group=self._group, topic=topic, member=_MEMBER)
        peer.request(Opcode.LEAVE_GROUP, leave.SerializeToString())
