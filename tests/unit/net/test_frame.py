"""Frames come out as they went in, however the stream was cut; what cannot be a frame is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import ProtocolError
from litemq.net.frame import PREFIX_BYTES, Frame, FrameReader, frame_prefix

FRAMES = st.lists(
    st.builds(
        Frame, st.integers(0, 2**32 - 1), st.integers(0, 65535), st.integers(0, 65535), st.binary(max_size=60), st.binary(max_size=200)
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


@given(FRAMES, st.data())
def test_frames_come_out_as_they_went_in(frames: list[Frame], data: st.DataObject) -> None:
    stream = _bytes(frames)
    reader = FrameReader(1000)
    found: list[Frame] = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[at : at + size])
        at += size
        while some := reader.frames(data.draw(st.integers(1, 5))):
            found += some
    assert found == frames
    assert reader.buffered == 0


@given(st.binary(min_size=PREFIX_BYTES, max_size=300))
def test_any_bytes_are_frames_or_refused(stream: bytes) -> None:
    reader = FrameReader(200)
    reader.feed(stream)
    try:
        while frames := reader.frames(100):
            assert all(len(frame.header) + len(frame.attachment) <= 200 for frame in frames)
    except ProtocolError:
        pass
    assert reader.buffered <= 300


@pytest.mark.parametrize(("length", "header"), [(1001, 0), (11, 0), (0, 0), (2**32 - 1, 0), (20, 9), (12, 2**32 - 1)])
def test_what_cannot_be_a_frame_is_refused(length: int, header: int) -> None:
    reader = FrameReader(1000)
    reader.feed(length.to_bytes(4, "big") + bytes(8) + header.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="at most 1000"):
        reader.frames(1)
