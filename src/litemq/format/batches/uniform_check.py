"""Quick validation of uniform batches.

Most batches come from one producer to one topic: their records differ only in time, sequence, id,
key and body. The common fields are checked once, in the first record; the others for all records.
That takes a third of the numpy calls of ``check.py``, which dominate the cost of small batches.
``False`` means unknown: then ``check.py`` checks each record.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from litemq.errors import RecordFormatError
from litemq.format.batches.header import headers_are_valid
from litemq.format.columns.record_columns import HeaderWord, RecordColumns
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

__all__ = ["are_valid_properties", "encoded_tags_hash", "is_uniform_and_valid", "padding_masks"]

padding_masks: Final = np.array([(1 << (8 * n)) - 1 for n in range(8)], np.uint64)


@lru_cache(maxsize=1024)
def encoded_tags_hash(tags: bytes) -> int | None:
    """Return the tag hash of encoded tags; ``None`` if they are invalid."""
    try:
        count = len(decode_list(tags, 0, len(tags), 0, MAX_TAGS, MAX_TAG_BYTES))
    except RecordFormatError:
        return None
    return hash_tags([tags[2:]] * count)  # the hash of several tags depends on their number only


@lru_cache(maxsize=1024)
def are_valid_properties(properties: bytes) -> bool:
    """Return whether the bytes are a list of names and values with unique names."""
    try:
        pairs = decode_list(properties, 0, len(properties), 0, MAX_PROPERTIES_BYTES, MAX_PROPERTIES_BYTES)
    except RecordFormatError:
        return False
    return len(pairs) % 2 == 0 and len(set(pairs[::2])) * 2 == len(pairs)


def is_uniform_and_valid(columns: RecordColumns, stage: Stage, limits: RecordLimits) -> bool:
    """Return ``True`` if the batch is uniform and valid, apart from checksums."""
    words = columns.words
    first = columns.set_everywhere
    if columns.set_anywhere[HeaderWord.TAG_HASH] != first[HeaderWord.TAG_HASH] or not headers_are_valid(
        columns, stage, limits
    ):
        return False

    if columns.layout is None or columns.layout[-1] > COMPARED_BYTES:
        return False
    *_, tags, keys, properties, width = columns.layout

    size = columns.sizes
    padding = size - words[:, HeaderWord.BODY] - (FIXED_BYTES + width)
    if (padding.view(np.uint64) > 7).any():
        return False
    every_eight = np.ndarray((columns.data.size - 7,), ">u8", columns.buffer, 0, (1,))
    last_eight = every_eight[columns.starts + (size - 8)]
    if (last_eight & padding_masks[padding]).any():
        return False

    rows = columns.rows
    if rows is None or not rows.tobytes().isascii():
        return False
    one = rows[0].tobytes()
    if encoded_tags_hash(one[tags:keys]) != first[HeaderWord.TAG_HASH] or not are_valid_properties(one[properties:]):
        return False
    # At most one key: its length is the same in all records, like the tags and properties.
    fixed_until = keys
    if keys != properties:
        if properties - keys - 2 > MAX_KEY_BYTES or one[keys : keys + 2] != (properties - keys - 2).to_bytes(2, "big"):
            return False
        fixed_until = keys + 2
    count = len(columns)
    same_tags = rows[:, tags:fixed_until].tobytes() == one[tags:fixed_until] * count
    columns.is_uniform = same_tags and rows[:, properties:].tobytes() == one[properties:] * count
    return columns.is_uniform
