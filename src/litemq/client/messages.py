"""What is sent and what is received, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["OutgoingMessage", "SendReceipt"]


class SendReceipt(NamedTuple):
    """Where a message was stored. At durability ``none`` nobody knows: the offset is -1."""

    topic: str
    message_id: str
    broker: str
    queue_id: int
    queue_offset: int
    store_timestamp: int  # ms since 1970, by the broker's clock


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message of ``send_batch``."""

    body: Any
    tags: str | Sequence[str] = ()
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""
