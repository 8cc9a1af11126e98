"""One queue as a feed reads it: the fetch position, and the acknowledged offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from litemq.client.consuming.ack_window import AckWindow
from litemq.client.messages.detached import refuse_to_extend, refuse_to_settle
from litemq.client.messages.message import Message, decode_received
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Failure, SettlePolicy
from litemq.client.settling.settlements import FailedDelivery, Settlements, delivery_position
from litemq.client.settling.settler import Settler
from litemq.errors import ClientClosedError, LiteMQError, UnsupportedFeatureError
from litemq.format.messages import MessageFields

__all__ = ["QueueReader"]

_NONE_LOST: Final[Mapping[Message, LiteMQError]] = MappingProxyType({})


class QueueReader:
    """Decodes pulled records and takes acknowledgements: a message ``Source``."""

    __slots__ = (
        "acks",
        "broker",
        "generation",
        "is_closed",
        "is_lost",
        "is_retry",
        "max_body_bytes",
        "position",
        "queue_id",
        "reset_id",
        "serializers",
        "settle_policy",
        "settler",
    )

    lost: Mapping[Message, LiteMQError] = _NONE_LOST

    def __init__(
        self,
        broker: str,
        queue_id: int,
        start: int,
        serializers: Serializers,
        max_body_bytes: int,
        *,
        settles: bool,
        settler: Settler | None = None,
        settle_policy: SettlePolicy = SettlePolicy(),  # noqa: B008  immutable
        is_retry: bool = False,
        generation: int = 0,
    ) -> None:
        self.broker = broker
        self.queue_id = queue_id
        self.is_retry = is_retry  # the group's retry queue
        self.generation = generation  # of the ownership of the queue
        self.is_lost = False  # the queue may have another owner
        self.is_closed = False  # its consumer commits no more
        self.reset_id = ""  # the group's latest offset reset when reading began
        self.serializers = serializers
        self.max_body_bytes = max_body_bytes
        self.settle_policy = settle_policy
        self.settler = settler
        self.position = start  # the next offset to fetch
        self.acks = AckWindow(start) if settles else None

    @property
    def key(self) -> tuple[str, int, bool]:
        """The identity of its queue."""
        return self.broker, self.queue_id, self.is_retry

    def decode(self, records: bytes) -> list[Message]:
        """Return the messages of ``records`` and move the position after them."""
        messages = decode_received(self, records)
        if messages:
            next_offset = messages[-1].queue_offset + 1
            if self.acks is not None and next_offset - self.position != len(messages):
                self._skip_gaps(self.acks, messages)
            self.position = next_offset
        return messages

    def _skip_gaps(self, acks: AckWindow, messages: list[Message]) -> None:
        """Skip the offsets between the messages, which the filter rejected."""
        expected = self.position
        for each in messages:
            acks.skip_range(expected, each.queue_offset)
            expected = each.queue_offset + 1

    def pass_to(self, offset: int) -> None:
        """Skip the offsets up to ``offset``, which hold no message for this reader."""
        if self.acks is not None:
            self.acks.skip_range(self.position, offset)
        self.position = max(self.position, offset)

    def skip_to(self, offset: int) -> None:
        """Move to ``offset``: earlier messages are gone, or another consumer did them."""
        self.position = max(self.position, offset)
        if self.acks is not None:
            self.acks.skip_to(offset)

    # Settling: the next commit reports acknowledgements. Failures are sent at once.

    def ack(self, message: Message) -> None:
        """Acknowledge ``message``. The next commit reports it."""
        acks = self.acks
        if acks is None or self.is_closed:
            self._refuse_ack()
        acks.ack(message._queue_offset)  # noqa: SLF001  a property costs a call

    def ack_run(self, offset: int, count: int) -> bool:
        """Acknowledge ``count`` messages from ``offset`` on."""
        if self.acks is None or self.is_closed:
            self._refuse_ack()
        self.acks.ack_run(offset, count)
        return True

    def _refuse_ack(self) -> NoReturn:
        if self.acks is None:
            refuse_to_settle()
        raise ClientClosedError("the consumer is closed, and has committed: the message is delivered again")

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """Have the broker store ``message`` for a retry, or as a dead letter.

        Then it counts as acknowledged here.

        Raises:
            UnsupportedFeatureError: This reader keeps its own progress, so no broker can retry the
                message.
        """
        acks = self._require_acks()
        if self.settler is None:
            raise UnsupportedFeatureError(
                "the broker cannot retry this message: its reader keeps its own progress. "
                "Use mq.consumer(topic, group_id=…)"
            )
        position = delivery_position(fields)
        settlements = self.settler.fail(FailedDelivery(position, 0, message.attempt, failure, self))

        def on_stored(outcome: asyncio.Future[None]) -> None:
            if not outcome.cancelled() and outcome.exception() is None:
                acks.ack(fields.queue_offset)

        settlements.outcome(position).add_done_callback(on_stored)
        return settlements

    def release(self, message: Message, fields: MessageFields) -> bool:  # noqa: ARG002
        """Return ``False``: the message stays unsettled until the queue's next owner gets it."""
        return False

    def extend(self, message: Message, fields: MessageFields, length_ms: int) -> Awaitable[None]:  # noqa: ARG002
        """Raise ``UnsupportedFeatureError``: the message is not leased."""
        refuse_to_extend()

    def keep(self, message: Message) -> None:
        """Do nothing: there is no lease to renew."""

    def let_go(self, message: Message) -> None:
        """Do nothing: there is no lease to renew."""

    def _require_acks(self) -> AckWindow:
        if self.acks is None:
            refuse_to_settle()
        return self.acks
