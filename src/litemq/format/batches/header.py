"""Validation of the fixed parts of all records of a batch.

The bits that are set in any record, and those set in all, answer most questions for the whole
batch: if no record has a bit above the limit, no value is above it. Only if that is inconclusive,
each record is checked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from litemq.format.columns.record_columns import HeaderWord, RecordColumns
from litemq.format.limits import MAX_MESSAGE_ID_BYTES, MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES, RecordLimits
from litemq.format.record import FIXED_BYTES, MAGIC, Stage
from litemq.types import LATEST_TIME_MS

__all__ = ["headers_are_valid", "mark_invalid_headers"]

_LATEST_HIGH = LATEST_TIME_MS >> 32


def headers_are_valid(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> bool:
    """Return ``True`` if all headers are valid; ``False`` means unknown."""
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    if anywhere[HeaderWord.MAGIC] != MAGIC or everywhere[HeaderWord.MAGIC] != MAGIC or anywhere[HeaderWord.SIZE] & 7:
        return False
    if anywhere[HeaderWord.SIZE] > limits.max_record_bytes or anywhere[HeaderWord.PROPERTIES] > MAX_PROPERTIES_BYTES:
        return False
    if max(anywhere[HeaderWord.BORN], anywhere[HeaderWord.DUE], anywhere[HeaderWord.EXPIRE]) >= _LATEST_HIGH:
        return False
    flags, attributes = anywhere[HeaderWord.FLAGS], anywhere[HeaderWord.ATTRIBUTES]
    if (
        flags & ~0b1011
        or flags & 0b0011 == 0b0011
        or attributes >= 5 << 24
        or attributes & 0x0000FCFF
        or anywhere[HeaderWord.HOST_AND_ZERO] & 0xFFFF
    ):
        return False
    id_length, topic_length = divmod(anywhere[HeaderWord.ID_AND_TOPIC], 1 << 16)
    if (
        id_length > MAX_MESSAGE_ID_BYTES
        or topic_length > MAX_TOPIC_BYTES
        or not everywhere[HeaderWord.ID_AND_TOPIC] & 0xFFFF
    ):
        return False
    if stage is Stage.SENT:
        return not any(anywhere[HeaderWord.BROKER_CRC : HeaderWord.BORN])
    if (
        (anywhere[HeaderWord.COMMITLOG] | anywhere[HeaderWord.QUEUE]) >> 31
        or anywhere[HeaderWord.STORED] >= _LATEST_HIGH
        or anywhere[HeaderWord.KIND] & 0xF8FF0000
    ):
        return False
    without_origin = everywhere[HeaderWord.ORIGIN] == everywhere[HeaderWord.ORIGIN_LOW] == 0xFFFFFFFF
    return without_origin or not anywhere[HeaderWord.ORIGIN] >> 31


def mark_invalid_headers(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> npt.NDArray[np.bool_]:
    """Mark the headers that break a rule. Does not check that the lengths add up."""
    marks = np.zeros(len(columns), np.bool_)
    if headers_are_valid(columns, stage, limits):
        return marks
    words = columns.words
    longs = columns.header.view(">u8").reshape(len(columns), FIXED_BYTES // 8)
    attributes, flags, lengths = (
        words[:, HeaderWord.ATTRIBUTES],
        words[:, HeaderWord.FLAGS],
        words[:, HeaderWord.ID_AND_TOPIC],
    )
    marks |= words[:, HeaderWord.MAGIC] != MAGIC
    marks |= words[:, HeaderWord.SIZE] & 7 != 0
    marks |= words[:, HeaderWord.SIZE] > limits.max_record_bytes
    marks |= words[:, HeaderWord.PROPERTIES] > MAX_PROPERTIES_BYTES
    marks |= (attributes & 0x0000FCFF) != 0  # reliability above 3, or the zero byte after it
    marks |= attributes >= 5 << 24  # type
    marks |= ((flags & ~np.uint32(0b1011)) != 0) | ((flags & 0b0011) == 0b0011)
    marks |= (words[:, HeaderWord.HOST_AND_ZERO] & 0xFFFF) != 0
    marks |= lengths >= (MAX_MESSAGE_ID_BYTES + 1) << 16
    marks |= (lengths & 0xFFFF) - np.uint32(1) >= MAX_TOPIC_BYTES  # 0 wraps around to a huge number
    # As an unsigned number, a negative time exceeds the latest, too.
    marks |= (longs[:, HeaderWord.BORN // 2 : HeaderWord.PRODUCER_ID // 2] > LATEST_TIME_MS).any(axis=1)
    if stage is Stage.SENT:
        marks |= words[:, HeaderWord.BROKER_CRC : HeaderWord.BORN].any(axis=1)
    else:
        marks |= (words[:, HeaderWord.KIND] & 0xF8FF0000) != 0  # kind above 7, or the next byte
        marks |= ((words[:, HeaderWord.COMMITLOG] | words[:, HeaderWord.QUEUE]) >> 31) != 0
        marks |= longs[:, HeaderWord.STORED // 2] > LATEST_TIME_MS
        marks |= columns.header["origin"] < -1
    return marks
