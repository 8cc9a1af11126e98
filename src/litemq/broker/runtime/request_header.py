"""The headers of requests, as messages."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from litemq.errors import ProtocolError

__all__ = ["parse"]

M = TypeVar("M", bound=Message)


def parse(kind: type[M], header: bytes) -> M:
    """A request's header. Raises ``ProtocolError`` for what is none."""
    try:
        return kind.FromString(header)
    except DecodeError as error:
        raise ProtocolError(f"the header of a {kind.__name__} cannot be read: {error}") from error
