"""Bodies, compressed and back, with a bound on what they may grow to."""

from __future__ import annotations

import threading
from typing import Final

import lz4.frame
import zstandard

from litemq.errors import BodyCodecError, BodyTooLargeError, InvalidArgumentError
from litemq.types import BodyCodec

__all__ = ["MAX_BODY_BYTES", "compress", "decompress"]

# What a body may grow to unless the caller says otherwise: the largest record that can be configured.
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_LARGEST: Final = 1 << 31  # what one column of Arrow can hold
_LZ4_FRAME: Final = bytes.fromhex("04224d18")  # not one of the frames that hold nothing and are skipped


class _Contexts(threading.local):
    """zstd's contexts cost more than a small body to make, and may not be shared between threads."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3, write_content_size=True)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(body: bytes, codec: BodyCodec) -> bytes:
    """The body as one frame of the codec."""
    match _known(codec):
        case BodyCodec.NONE:
            return body
        case BodyCodec.LZ4:
            frame: bytes = lz4.frame.compress(body, content_checksum=False, store_size=True)
            return frame
        case BodyCodec.ZSTD:
            return _contexts.compressor.compress(body)


def decompress(body: bytes, codec: BodyCodec, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """What ``compress`` was given. A frame that is damaged, followed by anything, or grows beyond ``max_bytes`` raises."""
    max_bytes = min(max_bytes, _LARGEST)
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
        raise BodyTooLargeError(f"an lz4 body grows beyond {max_bytes} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise BodyCodecError("not one whole lz4 frame")
    return plain


def _decompress_zstd(body: bytes, max_bytes: int) -> bytes:
    decompressor = _contexts.decompressor
    try:
        size = zstandard.frame_content_size(body)
        if size < 0:  # the frame does not say: see how far it goes
            with decompressor.stream_reader(body) as reader:
                size = len(reader.read(max_bytes + 1))
        if size > max_bytes:
            raise BodyTooLargeError(f"a zstd body grows beyond {max_bytes} bytes")
        return decompressor.decompress(body, max_output_size=max(1, size), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BodyCodecError(f"not one whole zstd frame: {error}") from None
