"""A message to send, and the receipt for a message that was stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

__all__ = ["OutgoingMessage", "SendReceipt"]


class SendReceipt(NamedTuple):
    """Where a message was stored. At durability ``none`` the offset is unknown: -1."""

    topic: str
    message_id: str
    broker: str
    queue_id: int
    queue_offset: int
    store_timestamp: int  # ms since 1970, by the broker's clock


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message of ``send_batch``, with the options of ``send``."""

    body: Any
    tags: str | Sequence[str] = ()
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""
    delay: float | timedelta | None = None
    deliver_at: datetime | None = None
    ttl: float | timedelta | None = None
    priority: int | None = None
    delay_level: int | None = None
    batch_id: str = ""

    @property
    def has_delivery_options(self) -> bool:
        """Whether a due time, a TTL or a priority is set."""
        has_due = not (self.delay is None and self.deliver_at is None and self.delay_level is None)
        return has_due or self.ttl is not None or self.priority is not None
