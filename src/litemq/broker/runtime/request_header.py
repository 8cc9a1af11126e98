"""Parses the headers of requests."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from litemq.errors import ProtocolError

__all__ = ["parse"]

M = TypeVar("M", bound=Message)


def parse(kind: type[M], header: bytes) -> M:
    """Return ``header`` as a message of ``kind``, or raise ``ProtocolError``."""
    try:
        return kind.FromString(header)
    except DecodeError as error:
        raise ProtocolError(f"the request header ({kind.__name__}) cannot be read: {error}") from error
