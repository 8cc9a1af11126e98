"""The options of a message to send: one list for the methods that forward them.

``AsyncClient.send`` and ``send_nowait`` name the same options in their signatures: they run once
for each message, and a dictionary of options would cost every call that has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from litemq.client.config import DurabilityName
from litemq.client.messages.outgoing import OutgoingMessage

__all__ = ["GivenOptions", "MessageOptions", "SendOptions", "outgoing_message"]


class MessageOptions(TypedDict, total=False):
    """The options of one message: labels, order and delivery time.

    Each one has the default of ``OutgoingMessage``.
    """

    tags: str | Sequence[str]  # labels that consumers select by
    keys: str | Sequence[str]  # business keys that `mq.admin.find` searches for
    properties: Mapping[str, str] | None  # free text by name
    ordering_key: str  # messages with the same key stay in order
    delay: float | timedelta | None  # seconds until delivery
    deliver_at: datetime | None  # the time of delivery, with a time zone
    ttl: float | timedelta | None  # seconds after which the message expires
    priority: int | None  # 0 … 255, in topics with priorities
    delay_level: int | None  # one of RocketMQ's levels 1 … 18
    batch_id: str  # delayed messages with the same id are cancelled together


class SendOptions(MessageOptions, total=False):
    """The options of ``mq.send``: those of the message, and how safely the broker stores it."""

    durability: DurabilityName | None  # `None`: the client's setting, or else the broker's


# The options of one ``send``, in the order of its signature.
GivenOptions = tuple[
    str | Sequence[str],  # tags
    str | Sequence[str],  # keys
    Mapping[str, str] | None,  # properties
    str,  # ordering_key
    DurabilityName | None,
    float | timedelta | None,  # delay
    datetime | None,  # deliver_at
    float | timedelta | None,  # ttl
    int | None,  # priority
    int | None,  # delay_level
    str,  # batch_id
]

_NAMES: Final = frozenset(MessageOptions.__annotations__)


def outgoing_message(function: str, body: Any, options: MessageOptions) -> OutgoingMessage:
    """Build the message that ``function(body, **options)`` sends.

    Raise ``TypeError`` for an unknown option.
    """
    for name in options:
        if name not in _NAMES:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    fields: dict[str, Any] = {**options}
    if fields.get("properties") is None:
        fields["properties"] = {}
    return OutgoingMessage(body, **fields)
