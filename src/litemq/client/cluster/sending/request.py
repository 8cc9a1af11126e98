"""One send request to one queue: its records, and the futures of their receipts."""

from __future__ import annotations

from enum import IntEnum

from litemq.client.cluster.sending.batch import Batch
from litemq.errors import LiteMQError
from litemq.format.renumber import renumber as renumber_record

__all__ = ["AppendRisk", "Request"]


class AppendRisk(IntEnum):
    """Whether a request whose answer was lost may be appended to the log."""

    NONE = 0  # no attempt was or will be appended
    PAST = 1  # an attempt may have been appended, but none will be: the broker closed the connection
    FUTURE = 2  # an attempt may be in a buffer of the broker, and be appended later


_NO_RISK = AppendRisk.NONE  # looking up an enum member costs several times as much


class Request(Batch):
    """Records for one queue in one frame.

    Once it is sealed, only its sequence numbers may change.
    """

    __slots__ = (
        "attempt",
        "born_at",
        "pinned",
        "producer_id",
        "refusal",
        "risk",
        "sent_at",
    )

    def __init__(self, producer_id: int, first: int, born_at: float) -> None:
        super().__init__()
        self.producer_id = producer_id
        self.first = first
        self.born_at = born_at
        self.attempt = 0  # how many times it was sent
        self.sent_at = born_at
        self.pinned = False  # a record has an ordering key: the request must stay in this queue
        self.risk = _NO_RISK
        self.refusal: LiteMQError | None = None

    def renumber(self, producer_id: int, first: int) -> None:
        """Give the records new sequence numbers. The request must have no append risk."""
        self.producer_id, self.first = producer_id, first
        self.records = [
            renumber_record(record, producer_id, sequence) for sequence, record in enumerate(self.records, first)
        ]
        self.risk = AppendRisk.NONE
