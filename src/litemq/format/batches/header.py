"""The rules for the fixed part of a record, for a whole batch.

Which bits are set anywhere and everywhere in a batch answers most of the questions for all its records at once: if no record has a
bit above the limit, none is above the limit. Only where that leaves a doubt is each record asked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from litemq.format.columns.record_columns import RecordColumns, Word
from litemq.format.limits import MAX_MESSAGE_ID_BYTES, MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES, RecordLimits
from litemq.format.record import FIXED_BYTES, MAGIC, Stage
from litemq.types import LATEST_TIME_MS

__all__ = ["faulty_headers", "header_is_sound"]

_LATEST_HIGH = LATEST_TIME_MS >> 32


def header_is_sound(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> bool:
    """Whether all headers surely follow the rules. A no is no verdict."""
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    if anywhere[Word.MAGIC] != MAGIC or everywhere[Word.MAGIC] != MAGIC or anywhere[Word.SIZE] & 7:
        return False
    if anywhere[Word.SIZE] > limits.max_record_bytes or anywhere[Word.PROPERTIES] > MAX_PROPERTIES_BYTES:
        return False
    if max(anywhere[Word.BORN], anywhere[Word.DUE], anywhere[Word.EXPIRE]) >= _LATEST_HIGH:
        return False
    flags, meaning = anywhere[Word.FLAGS], anywhere[Word.MEANING]
    if flags & ~0b1011 or flags & 0b0011 == 0b0011 or meaning >= 5 << 24 or meaning & 0x0000FCFF or anywhere[Word.HOST_AND_ZERO] & 0xFFFF:
        return False
    id_length, topic_length = divmod(anywhere[Word.ID_AND_TOPIC], 1 << 16)
    if id_length > MAX_MESSAGE_ID_BYTES or topic_length > MAX_TOPIC_BYTES or not everywhere[Word.ID_AND_TOPIC] & 0xFFFF:
        return False
    if stage is Stage.SENT:
        return not any(anywhere[Word.BROKER_CRC : Word.BORN])
    if (anywhere[Word.COMMITLOG] | anywhere[Word.QUEUE]) >> 31 or anywhere[Word.STORED] >= _LATEST_HIGH or anywhere[Word.KIND] & 0xF8FF0000:
        return False
    without_origin = everywhere[Word.ORIGIN] == everywhere[Word.ORIGIN_LOW] == 0xFFFFFFFF
    return without_origin or not anywhere[Word.ORIGIN] >> 31


def faulty_headers(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> npt.NDArray[np.bool_]:
    """Which headers break a rule; whether the lengths add up is not asked here."""
    marks = np.zeros(len(columns), np.bool_)
    if header_is_sound(columns, stage, limits):
        return marks
    words = columns.words
    longs = columns.header.view(">u8").reshape(len(columns), FIXED_BYTES // 8)
    meaning, flags, lengths = words[:, Word.MEANING], words[:, Word.FLAGS], words[:, Word.ID_AND_TOPIC]
    marks |= words[:, Word.MAGIC] != MAGIC
    marks |= words[:, Word.SIZE] & 7 != 0
    marks |= words[:, Word.SIZE] > limits.max_record_bytes
    marks |= words[:, Word.PROPERTIES] > MAX_PROPERTIES_BYTES
    marks |= (meaning & 0x0000FCFF) != 0  # reliability above 3, or the zero byte behind it
    marks |= meaning >= 5 << 24  # type
    marks |= ((flags & ~np.uint32(0b1011)) != 0) | ((flags & 0b0011) == 0b0011)
    marks |= (words[:, Word.HOST_AND_ZERO] & 0xFFFF) != 0
    marks |= lengths >= (MAX_MESSAGE_ID_BYTES + 1) << 16
    marks |= (lengths & 0xFFFF) - np.uint32(1) >= MAX_TOPIC_BYTES  # 0 wraps around to a huge number
    # Compared as unsigned, a negative time is beyond the latest, too.
    marks |= (longs[:, Word.BORN // 2 : Word.PRODUCER_ID // 2] > LATEST_TIME_MS).any(axis=1)
    if stage is Stage.SENT:
        marks |= words[:, Word.BROKER_CRC : Word.BORN].any(axis=1)
    else:
        marks |= (words[:, Word.KIND] & 0xF8FF0000) != 0  # kind above 7, or the zero byte behind it
        marks |= ((words[:, Word.COMMITLOG] | words[:, Word.QUEUE]) >> 31) != 0
        marks |= longs[:, Word.STORED // 2] > LATEST_TIME_MS
        marks |= columns.header["origin"] < -1
    return marks
