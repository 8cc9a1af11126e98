"""The quick yes for a batch of one template.

Most batches come from one producer to one topic: their records differ in time, sequence, id, key and body, and in nothing else. What
does not differ is checked once, in the first record, with plain numbers; what differs is checked for all. That makes a third of the
numpy calls of ``check.py``, which is what a small batch pays for. A no is no verdict: it means that each record must be looked at.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from litemq.errors import RecordFormatError
from litemq.format.batches.header import header_is_sound
from litemq.format.columns.record_columns import RecordColumns, Word
from litemq.format.columns.string_lists import COMPARED_BYTES
from litemq.format.limits import (
    MAX_KEY_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_TAG_BYTES,
    MAX_TAGS,
    RecordLimits,
)
from litemq.format.record import FIXED_BYTES, Stage
from litemq.format.record_decode import decode_list
from litemq.format.record_encode import hash_tags

__all__ = ["are_properties", "hash_of_tags", "is_sound_but_for_crcs", "padding_masks"]

padding_masks: Final = np.array([(1 << (8 * n)) - 1 for n in range(8)], np.uint64)


@lru_cache(maxsize=1024)
def hash_of_tags(tags: bytes) -> int | None:
    """The hash that belongs to encoded tags, or ``None`` where they are no list of tags."""
    try:
        count = len(decode_list(tags, 0, len(tags), 0, MAX_TAGS, MAX_TAG_BYTES))
    except RecordFormatError:
        return None
    return hash_tags([tags[2:]] * count)  # of several tags only their number counts


@lru_cache(maxsize=1024)
def are_properties(properties: bytes) -> bool:
    """Whether bytes are properties: a list of names and values, no name twice."""
    try:
        pairs = decode_list(properties, 0, len(properties), 0, MAX_PROPERTIES_BYTES, MAX_PROPERTIES_BYTES)
    except RecordFormatError:
        return False
    return len(pairs) % 2 == 0 and len(set(pairs[::2])) * 2 == len(pairs)


def is_sound_but_for_crcs(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> bool:
    """Whether the records are those of one template and follow every rule, the checksums aside."""
    words = columns.words
    first = columns.set_everywhere
    if columns.set_anywhere[Word.TAG_HASH] != first[Word.TAG_HASH] or not header_is_sound(columns, stage, limits):
        return False

    if columns.layout is None or columns.layout[-1] > COMPARED_BYTES:
        return False
    *_, tags, keys, properties, width = columns.layout

    size = columns.sizes
    padding = size - words[:, Word.BODY] - (FIXED_BYTES + width)
    if (padding.view(np.uint64) > 7).any():
        return False
    last_eight = np.ndarray((columns.data.size - 7,), ">u8", columns.buffer, 0, (1,))[columns.starts + (size - 8)]
    if (last_eight & padding_masks[padding]).any():
        return False

    rows = columns.rows
    if rows is None or not rows.tobytes().isascii():
        return False
    one = rows[0].tobytes()
    if hash_of_tags(one[tags:keys]) != first[Word.TAG_HASH] or not are_properties(one[properties:]):
        return False
    # One key at most: its length, like the tags and properties, is the same in all.
    fixed_until = keys
    if keys != properties:
        if properties - keys - 2 > MAX_KEY_BYTES or one[keys : keys + 2] != (properties - keys - 2).to_bytes(2, "big"):
            return False
        fixed_until = keys + 2
    count = len(columns)
    same_tags = rows[:, tags:fixed_until].tobytes() == one[tags:fixed_until] * count
    columns.of_one_template = same_tags and rows[:, properties:].tobytes() == one[properties:] * count
    return columns.of_one_template
