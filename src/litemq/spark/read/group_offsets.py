"""A stream's progress as a group's offsets, so that ``litemq group`` and what watches lag can see it. Nothing is read from them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from litemq.errors import LiteMQError
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import CommitRequest, GroupAssignment, JoinRequest, LeaveRequest, Opcode, QueueOffset
from litemq.spark.fetch import links_to

__all__ = ["GroupOffsets"]

_LOG = logging.getLogger(__name__)
_MEMBER: Final = "spark"


class GroupOffsets:
    """Says it to each broker: as a member that comes, commits, and leaves again."""

    def __init__(self, url: str, group: str) -> None:
        self._url = url
        self._group = group

    def tell(self, queues: Mapping[str, int]) -> None:
        """The next offset of each queue, by ``topic/broker/number``. Whatever goes wrong is only said: the query does not need it."""
        places: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for name, offset in queues.items():
            topic, rest = name.split("/", 1)
            broker, number = rest.rsplit("/", 1)
            places[broker, topic][int(number)] = offset
        for (broker, topic), offsets in places.items():
            try:
                self._commit(links_to(self._url).peer(broker), topic, offsets)
            except LiteMQError as error:
                _LOG.warning("group %s was not told how far the query is in %s at %s: %s", self._group, topic, broker, error)

    def _commit(self, peer: BlockingPeer, topic: str, offsets: Mapping[int, int]) -> None:
        join = JoinRequest(group=self._group, topic=topic, member=_MEMBER)
        assigned = GroupAssignment.FromString(peer.request(Opcode.JOIN_GROUP, join.SerializeToString()).header)
        done = [
            QueueOffset(queue_id=queue.range.queue_id, offset=offsets[queue.range.queue_id], generation=queue.generation)
            for queue in assigned.queues
            if not queue.is_retry and queue.range.queue_id in offsets
        ]
        if done:
            peer.request(Opcode.COMMIT_OFFSETS, CommitRequest(group=self._group, topic=topic, offsets=done).SerializeToString())
        leave = LeaveRequest(group=self._group, topic=topic, member=_MEMBER)
        peer.request(Opcode.LEAVE_GROUP, leave.SerializeToString())
