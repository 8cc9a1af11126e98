"""The sends of one event-loop tick to one topic, column by column.

The loops over requests are the broker's hottest, so requests are plain tuples and each column is a
list.
"""

from __future__ import annotations

from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError
from litemq.net.frame import Frame

__all__ = ["Earlier", "Known", "Refused", "Request", "SendTick"]

Earlier = list[tuple[int, int]]  # queue offset and store timestamp of records that an earlier try appended
Request = tuple[Caller, Frame, int]  # the last is the queue id
Known = tuple[Caller, Frame, Earlier, int]  # the last is the durability level
Refused = tuple[Caller, Frame, LiteMQError]


class SendTick:
    """The new requests of a tick, which are appended together, and the others, which are not."""

    __slots__ = (
        "batches",
        "callers",
        "counts",
        "delayed",
        "earlier",
        "frames",
        "joined",
        "known",
        "levels",
        "queue_ids",
        "refused",
        "repeated",
    )

    def __init__(self) -> None:
        # New requests, one entry of each list per request.
        self.callers: list[Caller] = []
        self.frames: list[Frame] = []
        self.queue_ids: list[int] = []
        self.batches: list[bytes | memoryview] = []
        self.counts: list[int] = []
        self.levels: list[int] = []
        self.joined: bytearray | None = None  # all batches in one buffer, if the check has joined them
        # By index of a new request: the receipts of its first records, which an earlier try
        # appended.
        self.earlier: dict[int, Earlier] = {}
        # Indexes of the new requests in which a record has a due time.
        self.delayed: list[int] = []
        self.known: list[Known] = []  # an earlier try appended all records of the request
        self.repeated: list[Request] = []  # the first try is in this tick: the next tick knows its receipts
        self.refused: list[Refused] = []
