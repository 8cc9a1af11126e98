"""The checks of a follower's handshake that need nothing of the master's log."""

from __future__ import annotations

from itertools import pairwise

from litemq.broker.replication.common_end import EpochStart
from litemq.errors import InvalidArgumentError, NotMasterError
from litemq.proto.wire_pb2 import FollowLogRequest
from litemq.storage.log.store_id import STORE_ID_BYTES

__all__ = ["check_follow"]


def check_follow(asked: FollowLogRequest, group: str, store_id: bytes, epoch: int) -> list[EpochStart]:
    """Return the epochs of the follower's log; raise unless it may follow the master of ``epoch``.

    The master belongs to ``group``, and its store is ``store_id``.
    """
    if asked.group != group:
        raise InvalidArgumentError(f"this is a broker of the group {group}, not of {asked.group[:127]!r}")
    if len(asked.store_id) != STORE_ID_BYTES or asked.store_id == store_id:
        raise InvalidArgumentError("the store id of a follower has 16 bytes, and is not its master's")
    theirs = [EpochStart(each.number, each.start) for each in asked.epochs]
    rising = all(a.number < b.number and a.start_offset < b.start_offset for a, b in pairwise(theirs))
    if not rising or asked.log_start > asked.log_end or (theirs and theirs[-1].start_offset >= asked.log_end):
        raise InvalidArgumentError("the epochs of a follower's log rise, and each has a record in it")
    if theirs and theirs[-1].number > epoch:
        raise NotMasterError(
            f"the log of the follower has epoch {theirs[-1].number}: the master of epoch {epoch} was replaced"
        )
    return theirs
