"""CRC32C of one byte string, and of thousands of short ones at once.

CRC32C is the only checksum and the only hash of the format: of records, tags and keys. It is
linear: with ``raw(m)`` the part that depends on the bytes and ``crc(zeros)`` the part that depends
on the length alone,

    crc(m) = crc(zeros(len m)) ^ raw(m)
    raw(m) = xor over i of T[distance of byte i from the end][byte i]

so the checksums of many short strings take one table lookup per byte and one xor-reduction, without
a loop over messages.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from litemq.format import native

__all__ = ["crc32c", "crc32c_of_blocks", "crc32c_of_records", "crc32c_of_rows", "crc32c_of_strings"]

_DISTANCES: Final = 256  # keys and tags are shorter than this
_FLAT_BYTES: Final = 1 << 18  # lookups at once, so that the working set stays in the cache


def _raw_table() -> npt.NDArray[np.uint32]:
    """Return T: ``T[d * 256 + b]`` is the share of byte ``b`` at distance ``d`` from the end."""
    table = np.empty((_DISTANCES, 256), np.uint32)
    zero = crc32c(b"\0")
    table[0] = [crc32c(bytes([b])) ^ zero for b in range(256)]
    for d in range(1, _DISTANCES):
        table[d] = (table[d - 1] >> 8) ^ table[0][table[d - 1] & 0xFF]
    return table.ravel()


_RAW: Final = _raw_table()


@lru_cache(maxsize=1024)
def _crc_of_prefix_and_zeros(prefix: bytes) -> npt.NDArray[np.uint32]:
    """Return ``crc(prefix + zeros(n))`` for every n below ``_DISTANCES``."""
    crcs = np.empty(_DISTANCES, np.uint32)
    crc = crc32c(prefix)
    for n in range(_DISTANCES):
        crcs[n] = crc
        crc = crc32c(b"\0", crc)
    crcs.setflags(write=False)
    return crcs


def crc32c_of_strings(
    data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], prefix: bytes = b""
) -> npt.NDArray[np.uint32]:
    """Return the checksums of ``prefix + data[p : p + n]`` for all positions and lengths."""
    count = positions.size
    if count == 0:
        return np.empty(0, np.uint32)
    if native.enabled:
        crcs = np.empty(count, np.uint32)
        strings = np.ascontiguousarray(positions, np.int64), np.ascontiguousarray(lengths, np.int64)
        native.loops.crc32c_of_strings(data, *strings, crc32c(prefix), crcs)
        return crcs
    longest = int(lengths.max())
    if longest >= _DISTANCES:
        view = data.data
        seed = crc32c(prefix)
        pairs = zip(positions.tolist(), lengths.tolist(), strict=True)
        return np.fromiter((crc32c(view[p : p + n], seed) for p, n in pairs), np.uint32, count)
    crcs = _crc_of_prefix_and_zeros(prefix)[lengths]
    if longest == 0:
        return crcs
    if int(lengths.min()) == longest:
        columns = np.arange(longest)
        weights = (longest - 1 - columns) << 8
        step = max(1, _FLAT_BYTES // longest)
        for a in range(0, count, step):
            taken = data[positions[a : a + step, None] + columns] + weights
            crcs[a : a + step] ^= np.bitwise_xor.reduce(_RAW.take(taken), axis=1)
        return crcs
    nonempty = np.flatnonzero(lengths)
    ends = np.cumsum(lengths[nonempty])
    cuts = [0, nonempty.size]
    if ends[-1] > _FLAT_BYTES:
        cuts[1:1] = np.searchsorted(ends, np.arange(_FLAT_BYTES, int(ends[-1]), _FLAT_BYTES)).tolist()
    for a, b in pairwise(cuts):
        if a == b:
            continue
        chosen = nonempty[a:b]
        n = lengths[chosen]
        stops = np.cumsum(n)
        begins = stops - n
        flat = np.arange(int(stops[-1]))
        taken = data[flat + np.repeat(positions[chosen] - begins, n)] + ((np.repeat(stops - 1, n) - flat) << 8)
        crcs[chosen] ^= np.bitwise_xor.reduceat(_RAW.take(taken), begins)
    return crcs


def crc32c_of_rows(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the checksums of the rows of a byte matrix, less than 256 wide.

    The stamps of one batch differ in a few bytes only. By linearity it is enough to look up the
    bytes that differ from the first row.
    """
    count, width = rows.shape
    if count == 0:
        return np.empty(0, np.uint32)
    if native.enabled:
        crcs = np.empty(count, np.uint32)
        native.loops.crc32c_of_rows(np.ascontiguousarray(rows), width, crcs)
        return crcs
    if width % 8:
        return np.array([crc32c(row.tobytes()) for row in rows], np.uint32)
    first = crc32c(rows[0].tobytes())
    words = np.ascontiguousarray(rows).view(np.uint64)
    difference = words ^ words[0]
    varying = np.flatnonzero(np.bitwise_or.reduce(difference, axis=0).view(np.uint16)).tolist()
    crcs = np.full(count, first, np.uint32)
    pairs = difference.view(">u2")
    for column in varying:
        crcs ^= _raw_of_pairs(width - 2 - 2 * column).take(pairs[:, column])
    return crcs


@lru_cache(maxsize=_DISTANCES // 2)
def _raw_of_pairs(distance: int) -> npt.NDArray[np.uint32]:
    """Return the share of each pair of bytes whose second byte is at ``distance`` from the end."""
    first, second = _RAW[(distance + 1) << 8 :][:256], _RAW[distance << 8 :][:256]
    return (first[:, None] ^ second).ravel()


def crc32c_of_blocks(data: bytes, block_bytes: int) -> npt.NDArray[np.uint32]:
    """Return the checksums of the consecutive blocks of ``data``; the last may be shorter."""
    whole = len(data) // block_bytes
    if not native.enabled:
        return np.array([crc32c(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes)], np.uint32)
    crcs = np.empty(-(-len(data) // block_bytes), np.uint32)
    native.loops.crc32c_of_rows(np.frombuffer(data, np.uint8)[: whole * block_bytes], block_bytes, crcs[:whole])
    if crcs.size > whole:
        crcs[whole] = crc32c(data[whole * block_bytes :])
    return crcs


def crc32c_of_records(buffer: memoryview, begins: list[int], ends: list[int]) -> list[int]:
    """Return the checksums of ``buffer[begin:end]`` for all pairs; fast for long ones."""
    if native.enabled:
        positions, crcs = np.array(begins, np.int64), np.empty(len(begins), np.uint32)
        native.loops.crc32c_of_strings(buffer, positions, np.array(ends, np.int64) - positions, 0, crcs)
        return crcs.tolist()
    return [crc32c(buffer[a:b]) for a, b in zip(begins, ends, strict=True)]
