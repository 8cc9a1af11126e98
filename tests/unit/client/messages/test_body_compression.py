"""Bodies are compressed if that makes them smaller, and if consumers would decompress them."""

import os

import pytest

from litemq.client.config import ClientConfig
from litemq.client.messages.body_compression import BodyCompression
from litemq.errors import BodyTooLargeError
from litemq.format.compression import decompress
from litemq.types import BodyCodec


def test_only_bodies_that_become_smaller_are_compressed() -> None:
    compression = BodyCompression(ClientConfig(compression_type="zstd", compression_min_bytes=100))
    assert compression.compress(bytes(99)) == (bytes(99), BodyCodec.NONE)
    noise = os.urandom(1000)
    assert compression.compress(noise) == (noise, BodyCodec.NONE)
    smaller, codec = compression.compress(bytes(1000))
    assert codec is BodyCodec.ZSTD
    assert decompress(smaller, codec) == bytes(1000)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_body_that_no_consumer_would_decompress_is_refused(codec: str) -> None:
    compression = BodyCompression(ClientConfig(compression_type=codec, max_body_bytes=1 << 20))  # type: ignore[arg-type]
    body, used = compression.compress(bytes(1 << 20))
    assert decompress(body, used, max_bytes=1 << 20) == bytes(1 << 20)
    with pytest.raises(BodyTooLargeError, match=r"1048577 bytes, .* up to 1048576: .*max_body_bytes"):
        compression.compress(bytes((1 << 20) + 1))


def test_without_compression_the_size_of_the_record_is_the_limit() -> None:
    compression = BodyCompression(ClientConfig(max_body_bytes=1 << 20))
    assert not compression.is_on
    assert compression.compress(bytes(2 << 20))[1] is BodyCodec.NONE
