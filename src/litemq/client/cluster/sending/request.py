"""One request to one queue: the records that travel together, and who waits for them."""

from __future__ import annotations

import asyncio
from enum import IntEnum

from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import LiteMQError
from litemq.format.renumber import renumber

__all__ = ["Doubt", "Request"]


class Doubt(IntEnum):
    """What is not known about a request whose answer was lost."""

    NONE = 0  # no try of it can have been appended
    PAST = 1  # one may have been appended, but none will be from now on: its connection ended at the broker's side
    FUTURE = 2  # one may still lie in a buffer of the broker's, and be appended later


_NO_DOUBT = Doubt.NONE  # a member of an enum costs several times as much to look up


class Request:
    """Records that go to one queue in one frame. It grows until it is ripe; afterwards only its numbers may change."""

    __slots__ = (
        "attempt",
        "born_at",
        "doubt",
        "first",
        "ids",
        "pinned",
        "producer_id",
        "records",
        "refusal",
        "ripe",
        "sent_at",
        "size",
        "waiters",
    )

    def __init__(self, producer_id: int, first: int, born_at: float) -> None:
        self.producer_id = producer_id
        self.first = first  # the sequence of its first record
        self.born_at = born_at
        self.attempt = 0  # how often it was sent
        self.sent_at = born_at
        self.records: list[bytes] = []
        self.ids: list[str] = []
        self.waiters: list[asyncio.Future[SendReceipt]] = []
        self.size = 0
        self.ripe = False
        self.pinned = False  # a record has an ordering key: this queue or none
        self.doubt = _NO_DOUBT
        self.refusal: LiteMQError | None = None

    def number(self, producer_id: int, first: int) -> None:
        """Give its records other numbers. Only for a request that has not been appended, and will not be."""
        self.producer_id, self.first = producer_id, first
        self.records = [renumber(record, producer_id, sequence) for sequence, record in enumerate(self.records, first)]
        self.doubt = Doubt.NONE
