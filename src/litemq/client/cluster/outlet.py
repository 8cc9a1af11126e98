"""The way to one queue of a broker: its link, and the header that every send to it begins with."""

from __future__ import annotations

from typing import Final

from litemq.client.channel import Answered
from litemq.client.cluster.link import Link
from litemq.errors import ConnectionLostError, LiteMQError
from litemq.proto.wire_pb2 import Opcode, SendRequest

__all__ = ["BrokerOutlet"]

_SEND: Final = int(Opcode.SEND)


class BrokerOutlet:
    """Sends records to one queue."""

    __slots__ = ("_header", "_link")

    def __init__(self, link: Link, topic: str, queue_id: int) -> None:
        self._link = link
        self._header = SendRequest(topic=topic, queue_id=queue_id).SerializeToString()

    @property
    def is_open(self) -> bool:
        return self._link.channel is not None

    @property
    def gave_up(self) -> bool:
        return self._link.gave_up

    def send(self, records: bytes, answered: Answered) -> None:
        channel = self._link.channel
        if channel is None:
            raise ConnectionLostError(f"there is no connection to {self._link.name}: look at is_open first")
        channel.call(_SEND, self._header, records, answered)

    def give_up(self, reason: LiteMQError) -> None:
        self._link.give_up(reason)

    def wake(self) -> None:
        self._link.wake()
