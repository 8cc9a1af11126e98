"""Received messages in C. ``litemq.client.messages.received`` describes them."""

from typing import TypeVar

from litemq.client.messages.message import Source
from litemq.errors import LiteMQError
from litemq.format.messages import MessageFields

_M = TypeVar("_M", bound=ReceivedMessage)

class ReceivedMessage:
    __slots__ = (
        "_attempt",
        "_body",
        "_codec",
        "_decoded",
        "_queue_offset",
        "_raw_body",
        "_settled",
        "_source",
        "_undecodable",
    )

    _attempt: int
    _body: bytes | None
    _codec: int
    _decoded: MessageFields | None
    _queue_offset: int
    _raw_body: bytes
    _settled: bool
    _source: Source
    _undecodable: LiteMQError | None

    def _record(self) -> bytes: ...

def runs(messages: list[_M], /) -> list[tuple[Source, int, int, int, bool]]: ...
def mark_settled(messages: list[_M], begin: int, end: int, /) -> None: ...
def decode_received(
    buffer: bytes, begin: int, max_record_bytes: int, kind: type[_M], source: object, messages: list[_M], /
) -> int: ...
