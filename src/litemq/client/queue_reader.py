"""One queue, as somebody reads it: how far it was fetched, and what of it was acknowledged."""

from __future__ import annotations

from litemq.client.acks import AckedOffsets
from litemq.client.messages import Message
from litemq.client.serializers import Serializers
from litemq.errors import UnsupportedFeatureError
from litemq.format.messages import decode_messages

__all__ = ["QueueReader"]


class QueueReader:
    """Makes messages of what was pulled, and takes their acknowledgements."""

    __slots__ = ("acks", "broker", "generation", "is_retry", "max_body_bytes", "position", "queue_id", "reset_id", "serializers")

    def __init__(
        self,
        broker: str,
        queue_id: int,
        start: int,
        serializers: Serializers,
        max_body_bytes: int,
        *,
        settles: bool,
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
            self.position = fields[-1].queue_offset + 1
        return [Message(each, self) for each in fields]

    def ack(self, offset: int) -> None:
        """A message is done."""
        if self.acks is None:
            raise UnsupportedFeatureError(
                "this message was read without a group: there is no offset to move. Use mq.consumer(topic, group_id=…)"
            )
        self.acks.ack(offset)

    def skip_to(self, offset: int) -> None:
        """What is below is gone, or was done by another."""
        self.position = max(self.position, offset)
        if self.acks is not None:
            self.acks.skip_to(offset)
