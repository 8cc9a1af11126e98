"""Frames round-trip, however the stream is cut; invalid frames are refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import ProtocolError
from litemq.format import native
from litemq.net import frame as frame_module
from litemq.net.frame import PREFIX_BYTES, Frame, FrameReader, frame_prefix

pytestmark = pytest.mark.usefixtures("loops")

FRAMES = st.lists(
    st.builds(
        Frame,
        st.integers(0, 2**32 - 1),
        st.integers(0, 65535),
        st.integers(0, 65535),
        st.binary(max_size=60),
        st.binary(max_size=200),
    ),
    max_size=12,
)


def _bytes(frames: list[Frame]) -> bytes:
    return b"".join(
        frame_prefix(frame.correlation, frame.opcode, frame.flags, len(frame.header), len(frame.attachment))
        + frame.header
        + frame.attachment
        for frame in frames
    )


@given(FRAMES, st.sampled_from([40, 1 << 16]), st.data())
def test_frames_round_trip(frames: list[Frame], long_frame: int, data: st.DataObject) -> None:
    stream = _bytes(frames)
    reader = FrameReader(1000)
    found: list[Frame] = []
    at = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_module, "_LONG_FRAME", long_frame)  # a longer one is put together from its pieces
        while at < len(stream):
            size = data.draw(st.integers(1, len(stream)))
            reader.feed(stream[at : at + size])
            at += size
            if data.draw(st.booleans()) or at >= len(stream):
                while some := reader.frames(data.draw(st.integers(1, 5))):
                    found += some
    assert found == frames
    assert reader.buffered == 0


def test_a_long_frame_in_many_pieces_is_whole() -> None:
    sent = [Frame(1, 2, 3, b"header", bytes(300_000)), Frame(2, 2, 3, b"", b"next")]
    stream = _bytes(sent)
    reader = FrameReader(1 << 20)
    found: list[Frame] = []
    for at in range(0, len(stream), 65_536):
        reader.feed(stream[at : at + 65_536])
        while some := reader.frames(10):
            found += some
    assert found == sent


def test_a_long_frame_above_a_lowered_limit_is_refused() -> None:
    reader = FrameReader(1 << 20)
    stream = _bytes([Frame(1, 2, 3, b"", bytes(300_000))])
    reader.feed(stream[:100])
    assert not reader.frames(10)
    reader.limit_frames(1000)
    reader.feed(stream[100:200])
    reader.feed(stream[200:])
    with pytest.raises(ProtocolError):
        reader.frames(10)


@given(st.binary(min_size=PREFIX_BYTES, max_size=300))
def test_any_bytes_are_frames_or_a_protocol_error(stream: bytes) -> None:
    reader = FrameReader(200)
    reader.feed(stream)
    try:
        while frames := reader.frames(100):
            assert all(len(frame.header) + len(frame.attachment) <= 200 for frame in frames)
    except ProtocolError:
        pass
    assert reader.buffered <= 300


@pytest.mark.parametrize(("length", "header"), [(1001, 0), (11, 0), (0, 0), (2**32 - 1, 0), (20, 9), (12, 2**32 - 1)])
def test_an_invalid_frame_is_refused(length: int, header: int) -> None:
    reader = FrameReader(1000)
    reader.feed(length.to_bytes(4, "big") + bytes(8) + header.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="at most 1000"):
        reader.frames(1)


def test_frames_are_read_up_to_the_limit() -> None:
    reader = FrameReader(1000)
    reader.feed(_bytes([Frame(number, 1, 0, b"", bytes(100)) for number in range(10)]) + bytes(3))
    found = [frame.correlation for _ in range(5) for frame in reader.frames(2)]
    assert found == list(range(10))
    assert (reader.frames(2), reader.buffered) == ([], 3)


def test_an_incomplete_frame_waits_for_its_rest() -> None:
    reader = FrameReader(1000)
    stream = _bytes([Frame(1, 1, 0, b"h", b"a" * 100), Frame(2, 1, 0, b"h", b"b" * 100)])
    reader.feed(stream[:150])
    assert [frame.correlation for frame in reader.frames(9)] == [1]
    reader.feed(stream[150:-1])
    assert reader.frames(9) == []
    reader.feed(stream[-1:])
    assert reader.frames(9) == [Frame(2, 1, 0, b"h", b"b" * 100)]
    assert reader.buffered == 0


STREAMS = st.tuples(
    FRAMES, st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=3), st.binary(max_size=30)
)


@settings(max_examples=300)
@given(STREAMS, st.data())
def test_c_and_python_find_the_same_frames(
    streams: tuple[list[Frame], list[tuple[int, int]], bytes], data: st.DataObject
) -> None:
    if not native.enabled:
        return
    frames, changes, behind = streams
    stream = bytearray(_bytes(frames) + behind)
    for at, value in changes if stream else []:
        stream[at % len(stream)] = value
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    pieces = [bytes(stream[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    most = data.draw(st.integers(1, 4))
    with pytest.MonkeyPatch.context() as patch:
        quick = _read(pieces, most)
        patch.setattr(native, "enabled", False)
        assert quick == _read(pieces, most)


def _read(pieces: list[bytes], most: int) -> list[object]:
    """Return everything that a reader returns or raises for ``pieces``."""
    reader = FrameReader(400)
    said: list[object] = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while frames := reader.frames(most):
                said.append(frames)
        except ProtocolError as error:
            said.append(str(error))
        said.append(reader.buffered)
    return said


def test_equal_headers_are_one_object(loops: str) -> None:
    if loops != "native":
        pytest.skip("this is about the loop")
    reader = FrameReader(1000)
    reader.feed(
        _bytes(
            [
                Frame(number, 1, 0, header, b"x" * 9)
                for number, header in enumerate([b"orders", b"orders", b"others", b"others"])
            ]
        )
    )
    first, second, third, fourth = reader.frames(4)
    assert first.header is second.header
    assert third.header is fourth.header
    assert type(first) is Frame
    assert hash(first) == hash(tuple(first))


def test_the_loop_begins_inside_its_bytes(loops: str) -> None:
    if loops != "native":
        pytest.skip("this is about the loop")
    assert native.loops.split_frames(bytes(4), 4, 9, 1000, Frame) == ([], 4, PREFIX_BYTES)
    for begin in (-1, 5, 2**62):
        with pytest.raises(IndexError):
            native.loops.split_frames(bytes(4), begin, 9, 1000, Frame)
    wrong: list[Any] = [(bytearray(4), Frame), (bytes(4), tuple), (bytes(4), int), (bytes(4), None)]
    for data, frame_type in wrong:
        with pytest.raises(TypeError):
            native.loops.split_frames(data, 0, 9, 1000, frame_type)
