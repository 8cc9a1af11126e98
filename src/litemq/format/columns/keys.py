"""Hashes for lookups: of ``topic#key`` for each key, of ``topic#message_id``, and of tags.

The hash is crc32c. Hashes can collide: the record decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format import native
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.columns.string_lists import StringLists, Strings, all_equal
from litemq.format.crc import crc32c, crc32c_of_strings
from litemq.format.record import SEVERAL_TAGS

__all__ = ["KeyHashes", "hash_key", "hash_keys", "tag_hashes"]


def hash_key(topic: str, key: str) -> int:
    """Return the hash of a key or message id of ``topic``."""
    return crc32c(f"{topic}#{key}".encode())


class KeyHashes(NamedTuple):
    """Hashes, and the index of the record that owns each."""

    hashes: npt.NDArray[np.uint32]
    owners: npt.NDArray[np.int64]


def hash_keys(columns: RecordColumns) -> KeyHashes:
    """Hash all message ids and keys of valid records, in the batch's order: id first, then keys."""
    if native.enabled:
        found = native.loops.hash_keys(columns.buffer, columns.starts)
        if found is not None:
            return KeyHashes(np.frombuffer(found[0], np.uint32), np.frombuffer(found[1], np.int64))
    count = len(columns)
    ids, keys = columns.part("message_id"), columns.keys.lists
    # The stable sort puts a record's id before its keys.
    owners = np.concatenate((np.arange(count), np.repeat(np.arange(count), keys.counts)))
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    strings = Strings(
        np.concatenate((ids.positions, keys.strings.positions))[order],
        np.concatenate((ids.lengths, keys.strings.lengths))[order],
    )
    named = strings.lengths > 0  # records without an id have no hash of it
    strings, owners = strings.select(named), owners[named]
    topics = columns.part("topic")
    view = memoryview(columns.buffer)
    if count and all_equal(columns.data, topics):
        prefix = _prefix(view, topics, 0)
        return KeyHashes(crc32c_of_strings(columns.data, *strings, prefix), owners)
    # Several topics: continue the checksum of the topic, one call per key.
    seeds = [crc32c(_prefix(view, topics, number)) for number in range(count)]
    each = zip(owners.tolist(), strings.positions.tolist(), strings.lengths.tolist(), strict=True)
    hashes = np.fromiter((crc32c(view[p : p + n], seeds[owner]) for owner, p, n in each), np.uint32, owners.size)
    return KeyHashes(hashes, owners)


def _prefix(view: memoryview, topics: Strings, number: int) -> bytes:
    begin = int(topics.positions[number])
    return bytes(view[begin : begin + int(topics.lengths[number])]) + b"#"


def tag_hashes(data: npt.NDArray[np.uint8], tags: StringLists) -> npt.NDArray[np.uint32]:
    """Return the tag hash of every record: ``record_encode.hash_tags`` for a column."""
    counts = tags.counts
    expected = np.where(counts > 1, np.uint32(SEVERAL_TAGS), np.uint32(0))
    single = np.flatnonzero(counts == 1)
    hashes = crc32c_of_strings(data, *tags.strings.select(tags.offsets[single]))
    hashes[(hashes == 0) | (hashes == SEVERAL_TAGS)] = 1
    expected[single] = hashes
    return expected
