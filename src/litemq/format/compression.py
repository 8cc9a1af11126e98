"""Compression of bodies, with a limit on the decompressed size."""

from __future__ import annotations

import threading
from typing import Final

import lz4.frame
import zstandard

from litemq.errors import BodyCodecError, BodyTooLargeError, InvalidArgumentError
from litemq.types import BodyCodec

__all__ = ["MAX_BODY_BYTES", "compress", "decompress"]

# The default limit of a decompressed body: the largest record that can be configured.
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_MAX_BYTES: Final = 1 << 31  # the limit of an Arrow column
_LZ4_FRAME: Final = bytes.fromhex("04224d18")  # excludes lz4's skippable frames


class _Contexts(threading.local):
    """zstd contexts of a thread: too expensive to create per body, and not thread-safe."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(body: bytes, codec: BodyCodec) -> bytes:
    """Compress ``body`` to one frame of ``codec``."""
    match _known(codec):
        case BodyCodec.NONE:
            return body
        case BodyCodec.LZ4:
            frame: bytes = lz4.frame.compress(body, content_checksum=False, store_size=True)
            return frame
        case BodyCodec.ZSTD:
            return _contexts.compressor.compress(body)


def decompress(body: bytes, codec: BodyCodec, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Decompress one frame. Raise if it is damaged, has a tail, or exceeds ``max_bytes``."""
    max_bytes = min(max_bytes, _MAX_BYTES)
    match _known(codec):
        case BodyCodec.NONE:
            return body
        case BodyCodec.LZ4:
            return _decompress_lz4(body, max_bytes)
        case BodyCodec.ZSTD:
            return _decompress_zstd(body, max_bytes)


def _known(codec: BodyCodec) -> BodyCodec:
    try:
        return BodyCodec(codec)
    except ValueError:
        raise InvalidArgumentError(f"codec={codec!r}: choose {', '.join(map(str, BodyCodec))}") from None


def _decompress_lz4(body: bytes, max_bytes: int) -> bytes:
    if body[:4] != _LZ4_FRAME:
        raise BodyCodecError("not an lz4 frame")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = decompressor.decompress(body, max_length=max_bytes + 1)
    except (RuntimeError, EOFError) as error:
        raise BodyCodecError(f"not an lz4 frame: {error}") from None
    if len(plain) > max_bytes:
        raise BodyTooLargeError(f"an lz4 body exceeds {max_bytes} bytes when decompressed")
    if not decompressor.eof or decompressor.unused_data:
        raise BodyCodecError("the body is not exactly one lz4 frame")
    return plain


def _decompress_zstd(body: bytes, max_bytes: int) -> bytes:
    decompressor = _contexts.decompressor
    try:
        size = zstandard.frame_content_size(body)
        if size < 0:  # unknown: decompress up to the limit
            with decompressor.stream_reader(body) as reader:
                size = len(reader.read(max_bytes + 1))
        if size > max_bytes:
            raise BodyTooLargeError(f"a zstd body exceeds {max_bytes} bytes when decompressed")
        return decompressor.decompress(body, max_output_size=max(1, size), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BodyCodecError(f"the body is not exactly one zstd frame: {error}") from None
