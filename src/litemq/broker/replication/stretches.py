"""Stretches of the log for another replica of the group, in which they are damaged."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.deferred_answers import DeferredAnswers
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError, OverloadedError
from litemq.format.limits import STORED_LIMITS
from litemq.net.client import Peer
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode, ReadStretchRequest, ReplicaFacts
from litemq.storage.log.repair import Stretch

__all__ = ["MAX_STRETCH_BYTES", "StretchRequests", "StretchSource", "fetch_stretch"]

MAX_STRETCH_BYTES: Final = STORED_LIMITS.max_record_bytes  # each stretch is at least a record
_MAX_WAITING: Final = 2
_CONNECT_S: Final = 2.0
_TIMEOUT_S: Final = 30.0


class StretchSource(Protocol):
    """The log of this replica, open or not."""

    @property
    def store_id(self) -> bytes:
        """The id by which the group knows this data directory."""

    def read_stretch(self, begin: int, end: int) -> bytes:
        """Read a stretch that is damaged in another replica. Raise if it is damaged here, too.

        It may wait for the disk.
        """


class StretchRequests:
    """Answers other replicas of ``group`` with the bytes of ``source``."""

    def __init__(self, group: str, source: StretchSource) -> None:
        self._group = group
        self._source = source
        self._answers = DeferredAnswers()
        self._waiting = 0
        self.handler = Handler(Opcode.READ_STRETCH, Permission.CLUSTER_REPLICATE, self._answer)

    def _answer(self, caller: Caller, frame: Frame) -> None:
        asked = parse(ReadStretchRequest, frame.header)
        if (asked.group, asked.store_id) != (self._group, self._source.store_id):
            raise InvalidArgumentError(
                f"this is the store {self._source.store_id.hex()} of the group {self._group}: another replica was asked"
            )
        if not 0 < asked.end - asked.begin <= MAX_STRETCH_BYTES:
            raise InvalidArgumentError(f"{asked.begin} … {asked.end}: choose 1 … {MAX_STRETCH_BYTES} bytes")
        if self._waiting >= _MAX_WAITING:
            raise OverloadedError(f"this replica reads {_MAX_WAITING} stretches already", 1000)
        self._waiting += 1
        self._answers.look_up(caller, frame, partial(self._look, asked.begin, asked.end))

    def _look(self, begin: int, end: int) -> tuple[bytes, bytes]:
        try:
            return b"", self._source.read_stretch(begin, end)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Read nothing more."""
        self._answers.close()


async def fetch_stretch(replica: ReplicaFacts, group: str, stretch: Stretch, *, client_id: str) -> bytes:
    """Fetch the bytes of ``stretch`` from ``replica``, over a connection of its own."""
    peer = await Peer.connect(replica.host, replica.port, client_id=client_id, timeout=_CONNECT_S)
    try:
        asked = ReadStretchRequest(group=group, store_id=replica.store_id, begin=stretch.begin, end=stretch.end)
        answer = await peer.request(Opcode.READ_STRETCH, asked.SerializeToString(), timeout=_TIMEOUT_S)
    finally:
        peer.close()
    return answer.attachment
