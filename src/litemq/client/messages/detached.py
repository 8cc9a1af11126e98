"""Messages from a list, a search or a check-back: they have no group, and cannot be settled."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import NoReturn

from litemq.client.messages.message import Message, decode_received
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Failure, SettlePolicy
from litemq.client.settling.settlements import Settlements
from litemq.errors import LiteMQError, UnsupportedFeatureError
from litemq.format.messages import MessageFields

__all__ = ["DetachedSource", "refuse_to_extend", "refuse_to_settle"]


def refuse_to_settle() -> NoReturn:
    """Raise the error for settling a message that was read without a group."""
    raise UnsupportedFeatureError(
        "this message was read without a group, so it cannot be settled: "
        "use mq.consumer(topic, group_id=…) or mq.receive(…)"
    )


def refuse_to_extend() -> NoReturn:
    """Raise the error for extending a message that is not leased."""
    raise UnsupportedFeatureError(
        "this message is not leased, so there is no lease to extend: use mq.receive(…) or mq.consumer(…, mode='lease')"
    )


class DetachedSource:
    """A source of messages without a group: settling one raises ``UnsupportedFeatureError``."""

    lost: Mapping[Message, LiteMQError] = MappingProxyType({})
    settle_policy = SettlePolicy()

    def __init__(self, broker: str, serializers: Serializers, max_body_bytes: int) -> None:
        self.broker = broker
        self.serializers = serializers
        self.max_body_bytes = max_body_bytes

    def decode(self, records: bytes) -> list[Message]:
        """Return the messages of stored ``records``."""
        return decode_received(self, records)

    def ack(self, message: Message) -> Settlements | None:  # noqa: ARG002
        refuse_to_settle()

    def ack_run(self, offset: int, count: int) -> bool:  # noqa: ARG002
        """Return ``False``: acknowledge each."""
        return False

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:  # noqa: ARG002
        refuse_to_settle()

    def release(self, message: Message, fields: MessageFields) -> bool:  # noqa: ARG002
        return False

    def extend(self, message: Message, fields: MessageFields, length_ms: int) -> Awaitable[None]:  # noqa: ARG002
        refuse_to_extend()

    def keep(self, message: Message) -> None:
        """Do nothing: there is no lease to renew."""

    def let_go(self, message: Message) -> None:
        """Do nothing: there is no lease to return."""
