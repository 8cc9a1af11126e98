"""A checksum for each full block of a file, kept in a file beside it: ``<file>.crc``, a u32 a block of 4 KiB, big-endian."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c_of_blocks
from litemq.storage.files.disk import OpenFile

__all__ = ["BLOCK_BYTES", "crc_path", "read_checked", "write_crcs"]

BLOCK_BYTES: Final = 4096


def crc_path(path: Path) -> Path:
    return path.with_name(path.name + ".crc")


def write_crcs(file: OpenFile, crcs: OpenFile, begin: int, end: int, *, last: bool = False) -> None:
    """Write the checksums of the blocks that a write of ``begin … end`` filled; with ``last`` also that of the block that ends the file."""
    first = begin // BLOCK_BYTES
    behind = -(-end // BLOCK_BYTES) if last else end // BLOCK_BYTES
    if first >= behind:
        return
    data = file.read(min(behind * BLOCK_BYTES, end) - first * BLOCK_BYTES, first * BLOCK_BYTES)
    crcs.write(crc32c_of_blocks(data, BLOCK_BYTES).astype(">u4").tobytes(), first * 4)


def read_checked(file: OpenFile, crcs: Callable[[], OpenFile], begin: int, end: int, stored: int, *, complete: bool) -> bytes:
    """The bytes ``begin … end`` of a file that has ``stored`` bytes, each full block held against its checksum.

    The last block of a ``complete`` file counts as full. ``crcs`` is asked for only where a block is full: before, there may be none.
    """
    first = begin // BLOCK_BYTES
    until = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, stored)
    data = file.read(until - first * BLOCK_BYTES, first * BLOCK_BYTES)
    if len(data) < until - first * BLOCK_BYTES:
        raise CorruptStoreError(str(file.path), first * BLOCK_BYTES + len(data), f"the file ends here, {stored} bytes were stored")
    blocks = -(-len(data) // BLOCK_BYTES) if complete and until == stored else len(data) // BLOCK_BYTES
    if blocks:
        wanted = np.frombuffer(crcs().read(blocks * 4, first * 4).ljust(blocks * 4, b"\0"), ">u4")
        found = crc32c_of_blocks(data, BLOCK_BYTES)[:blocks]
        if (found != wanted).any():
            number = int((found != wanted).argmax())
            raise CorruptStoreError(str(file.path), (first + number) * BLOCK_BYTES, "the checksum of a block does not fit")
    return data[begin - first * BLOCK_BYTES : end - first * BLOCK_BYTES]
