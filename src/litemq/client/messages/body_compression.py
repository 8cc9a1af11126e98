"""The compression of bodies that a client sends."""

from __future__ import annotations

from typing import Final

from litemq.client.config import ClientConfig
from litemq.errors import BodyTooLargeError
from litemq.format.compression import compress
from litemq.types import BodyCodec

__all__ = ["BodyCompression"]

_NONE: Final = BodyCodec.NONE  # looking up an enum member is slow
_CODECS: Final = {"none": BodyCodec.NONE, "lz4": BodyCodec.LZ4, "zstd": BodyCodec.ZSTD}


class BodyCompression:
    """Compresses bodies as a client's settings say."""

    __slots__ = ("_codec", "_max_bytes", "_min_bytes", "is_on")

    def __init__(self, config: ClientConfig) -> None:
        self._codec = _CODECS[config.compression_type]
        self._min_bytes = config.compression_min_bytes
        self._max_bytes = config.max_body_bytes
        self.is_on = self._codec is not _NONE

    def compress(self, body: bytes) -> tuple[bytes, BodyCodec]:
        """Return ``body``, compressed if that makes it smaller, and its codec.

        Raises:
            BodyTooLargeError: Consumers refuse to decompress so large a body.
        """
        if self._codec is _NONE or len(body) < self._min_bytes:
            return body, _NONE
        if len(body) > self._max_bytes:
            raise BodyTooLargeError(
                f"the body has {len(body)} bytes, and consumers decompress up to {self._max_bytes}: send smaller "
                "messages, or raise max_body_bytes of the client that sends and of those that receive"
            )
        smaller = compress(body, self._codec)
        return (smaller, self._codec) if len(smaller) < len(body) else (body, _NONE)
