"""Bodies round-trip; damaged and too large ones are refused."""

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BodyCodecError, BodyTooLargeError, InvalidArgumentError
from litemq.format.compression import compress, decompress
from litemq.types import BodyCodec

PACKED = [BodyCodec.LZ4, BodyCodec.ZSTD]


@given(st.binary(max_size=3000), st.sampled_from(BodyCodec))
def test_round_trip(body: bytes, codec: BodyCodec) -> None:
    assert decompress(compress(body, codec), codec, max_bytes=len(body)) == body


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused(codec: BodyCodec) -> None:
    with pytest.raises(BodyTooLargeError, match="exceeds 1000000"):
        decompress(compress(bytes(10_000_000), codec), codec, max_bytes=1_000_000)


def test_a_zstd_bomb_of_unknown_size_is_refused() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    bomb = packer.compress(bytes(10_000_000)) + packer.flush()
    with pytest.raises(BodyTooLargeError):
        decompress(bomb, BodyCodec.ZSTD, max_bytes=1_000_000)
    assert decompress(bomb, BodyCodec.ZSTD, max_bytes=10_000_000) == bytes(10_000_000)


def test_a_zstd_frame_with_a_wrong_size_is_refused() -> None:
    honest = compress(bytes(300), BodyCodec.ZSTD)
    assert zstandard.frame_content_size(honest) == 300
    lying = honest.replace((300 - 256).to_bytes(2, "little"), (290 - 256).to_bytes(2, "little"), 1)
    assert zstandard.frame_content_size(lying) == 290
    with pytest.raises(BodyCodecError):
        decompress(lying, BodyCodec.ZSTD)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    "damage", [lambda f: f[:-3], lambda f: f + b"x", lambda f: f + f, lambda _: b"", lambda _: b"noise"]
)
def test_anything_but_one_whole_frame_is_refused(codec: BodyCodec, damage: object) -> None:
    assert callable(damage)
    with pytest.raises(BodyCodecError):
        decompress(damage(compress(b"hello" * 100, codec)), codec)


@pytest.mark.parametrize("codec", [3, 7, None, "zstd"])
def test_an_unknown_codec_is_refused(codec: object) -> None:
    with pytest.raises(InvalidArgumentError, match="codec"):
        decompress(b"", codec)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="codec"):
        compress(b"", codec)  # type: ignore[arg-type]


def test_a_skippable_frame_is_no_body() -> None:
    with pytest.raises(BodyCodecError):
        decompress(bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"skip", BodyCodec.LZ4)


@given(st.binary(max_size=200), st.sampled_from(PACKED))
def test_random_bytes_raise_only_a_codec_error(noise: bytes, codec: BodyCodec) -> None:
    head = lz4.frame.compress(b"abc")[:7] if codec is BodyCodec.LZ4 else zstandard.ZstdCompressor().compress(b"abc")[:5]
    for data in (noise, head + noise):
        try:
            plain = decompress(data, codec, max_bytes=1000)
        except BodyCodecError:
            continue
        assert len(plain) <= 1000
