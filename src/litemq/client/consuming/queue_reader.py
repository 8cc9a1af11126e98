"""One queue, as somebody reads it: how far it was fetched, and what of it was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Final

from litemq.client.consuming.ack_window import AckedOffsets
from litemq.client.messages.detached import refuse_to_extend, refuse_to_settle
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Failure, Handling
from litemq.client.settling.settlements import FailedDelivery, Settlements, place_of
from litemq.client.settling.settler import Settler
from litemq.errors import LiteMQError, UnsupportedFeatureError
from litemq.format.messages import MessageFields, decode_messages

__all__ = ["QueueReader"]

_NONE_LOST: Final[Mapping[Message, LiteMQError]] = MappingProxyType({})


class QueueReader:
    """Makes messages of what was pulled, and takes their acknowledgements."""

    __slots__ = (
        "acks",
        "broker",
        "generation",
        "handling",
        "is_retry",
        "max_body_bytes",
        "position",
        "queue_id",
        "reset_id",
        "serializers",
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
        handling: Handling = Handling(),  # noqa: B008  it cannot be changed
        is_retry: bool = False,
        generation: int = 0,
    ) -> None:
        self.broker = broker
        self.queue_id = queue_id
        self.is_retry = is_retry  # the group's own queue of messages that are tried again
        self.generation = generation  # of a member's ownership of the queue
        self.reset_id = ""  # the last time that somebody set the group's offsets, as known when this began
        self.serializers = serializers
        self.max_body_bytes = max_body_bytes
        self.handling = handling
        self.settler = settler
        self.position = start  # the next offset to fetch
        self.acks = AckedOffsets(start) if settles else None

    @property
    def key(self) -> tuple[str, int, bool]:
        """What tells its queue from others."""
        return self.broker, self.queue_id, self.is_retry

    def decode(self, records: bytes) -> list[Message]:
        """The messages of a pull; moves the position behind them."""
        fields = decode_messages(records)
        if fields:
            following = fields[-1].queue_offset + 1
            if self.acks is not None and following - self.position != len(fields):
                self._pass_gaps(self.acks, fields)
            self.position = following
        return [Message(each, self, each.consume_count + 1) for each in fields]

    def _pass_gaps(self, acks: AckedOffsets, fields: list[MessageFields]) -> None:
        """Between the messages stand others, which are not for this reader."""
        expected = self.position
        for each in fields:
            acks.pass_by(expected, each.queue_offset)
            expected = each.queue_offset + 1

    def pass_to(self, offset: int) -> None:
        """What stands between is not for this reader; what it was given before is to be acknowledged as always."""
        if self.acks is not None:
            self.acks.pass_by(self.position, offset)
        self.position = max(self.position, offset)

    def skip_to(self, offset: int) -> None:
        """What is below is gone, or was done by another."""
        self.position = max(self.position, offset)
        if self.acks is not None:
            self.acks.skip_to(offset)

    # Settling: what is acknowledged is told with the next commit; a failed try at once, and then it counts as done here.

    def ack(self, message: Message, fields: MessageFields) -> None:  # noqa: ARG002
        """A message is done."""
        self._settling().ack(fields.queue_offset)

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """A try failed: the broker keeps the message for the next one."""
        acks = self._settling()
        if self.settler is None:
            raise UnsupportedFeatureError("this message was read by one who keeps its own progress: no broker can keep it for another try")
        place = place_of(fields)
        settlements = self.settler.fail(FailedDelivery(place, 0, message.attempt, failure))

        def kept(outcome: asyncio.Future[None]) -> None:
            if not outcome.cancelled() and outcome.exception() is None:
                acks.ack(fields.queue_offset)

        settlements.outcome(place).add_done_callback(kept)
        return settlements

    def release(self, message: Message, fields: MessageFields) -> bool:  # noqa: ARG002
        """It stays as it is, and comes again to whoever reads the queue next."""
        return False

    def extend(self, message: Message, fields: MessageFields, length_ms: int) -> Awaitable[None]:  # noqa: ARG002
        """There is no lease here."""
        refuse_to_extend()

    def keep(self, message: Message) -> None:
        """It stays by itself."""

    def let_go(self, message: Message) -> None:
        """It stays by itself."""

    def _settling(self) -> AckedOffsets:
        if self.acks is None:
            refuse_to_settle()
        return self.acks
