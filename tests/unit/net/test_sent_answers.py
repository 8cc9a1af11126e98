"""Packed answers to SEND: the same bytes as by protobuf and frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.net.frame import Flag, FrameReader
from litemq.net.sent_answers import SENT_ANSWER_BYTES, pack_sent_answer, pack_sent_answers, unpack_sent_answer
from litemq.proto.wire_pb2 import Opcode, SendAnswer, SentEarlier

pytestmark = pytest.mark.usefixtures("loops")

OFFSETS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 10)
ANSWERS = st.lists(st.tuples(st.integers(0, 2**32 - 1), OFFSETS), max_size=6)


@given(ANSWERS, OFFSETS)
def test_packed_answers_are_valid_frames_and_headers(answers: list[tuple[int, int]], timestamp: int) -> None:
    correlations, offsets = [number for number, _ in answers], [offset for _, offset in answers]
    packed = pack_sent_answers(correlations, offsets, timestamp)
    assert packed == pack_sent_answers(correlations, np.array(offsets, np.int64), timestamp)
    assert len(packed) == SENT_ANSWER_BYTES * len(answers)
    reader = FrameReader(1000)
    reader.feed(packed)
    frames = reader.frames(100)
    assert [(frame.opcode, frame.flags, frame.attachment) for frame in frames] == [
        (Opcode.SEND, Flag.ANSWER, b"")
    ] * len(answers)
    assert [frame.correlation for frame in frames] == correlations
    for frame, offset in zip(frames, offsets, strict=True):
        assert frame.header == pack_sent_answer(offset, timestamp)
        assert unpack_sent_answer(frame.header) == (offset, timestamp)
        parsed = SendAnswer.FromString(frame.header)
        assert (parsed.queue_offset, parsed.store_timestamp, len(parsed.earlier)) == (offset, timestamp, 0)


@given(st.binary(max_size=40) | st.binary(min_size=18, max_size=18))
def test_only_plain_answers_are_unpacked(header: bytes) -> None:
    answer = unpack_sent_answer(header)
    if answer is not None:
        parsed = SendAnswer.FromString(header)
        assert (parsed.queue_offset, parsed.store_timestamp) == answer


def test_an_answer_with_other_fields_is_left_to_the_parser() -> None:
    assert (
        unpack_sent_answer(
            SendAnswer(queue_offset=5, store_timestamp=6, earlier=[SentEarlier(queue_offset=1)]).SerializeToString()
        )
        is None
    )
    assert unpack_sent_answer(SendAnswer(queue_offset=5).SerializeToString()) is None
    assert unpack_sent_answer(bytes(18)) is None


@pytest.mark.parametrize(
    ("correlations", "offsets", "timestamp"),
    [
        ([1], [], 0),
        ([], [1], 0),
        ([2**32], [1], 0),
        ([-1], [1], 0),
        ([1], [2**63], 0),
        ([1], [1], 2**63),
        ([1], [-(2**63) - 1], 0),
        ([2**70], [1], 0),
    ],
)
def test_what_does_not_fit_is_refused(correlations: list[int], offsets: list[int], timestamp: int) -> None:
    with pytest.raises(InvalidArgumentError):
        pack_sent_answers(correlations, offsets, timestamp)


def test_the_loop_takes_lists_of_numbers(loops: str) -> None:
    if loops != "native":
        pytest.skip("this is about the loop")
    odd: list[tuple[Any, Any, Any]] = [
        (["1"], [1], 0),
        ([1], [None], 0),
        ([1], [1.0], 0),
        ([1], [1], "x"),
        ([1, 2], [1], 0),
        ([2**32], [1], 0),
    ]
    for correlations, offsets, timestamp in odd:
        assert native.loops.pack_sent_answers(correlations, offsets, 16, timestamp) is None
    for wrong in ((1,), None, np.array([1])):
        with pytest.raises(TypeError):
            native.loops.pack_sent_answers(wrong, [1], 16, 0)  # type: ignore[arg-type]
