"""Block checksums: ``<file>.crc`` has a u32 (big-endian) for each full 4 KiB block."""

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
    """Write the checksums of the blocks that a write of ``begin … end`` filled.

    If ``last``, the file is complete, and its last block gets a checksum even if it is not full.
    """
    first = begin // BLOCK_BYTES
    until = -(-end // BLOCK_BYTES) if last else end // BLOCK_BYTES
    if first >= until:
        return
    data = file.read(min(until * BLOCK_BYTES, end) - first * BLOCK_BYTES, first * BLOCK_BYTES)
    crcs.write(crc32c_of_blocks(data, BLOCK_BYTES).astype(">u4").tobytes(), first * 4)


def read_checked(
    file: OpenFile, crcs: Callable[[], OpenFile], begin: int, end: int, stored: int, *, complete: bool
) -> bytes:
    """Read the bytes ``begin … end`` of a file with ``stored`` bytes, and verify each full block.

    The last block of a ``complete`` file counts as full. ``crcs()`` opens the checksums; it is
    called only if a block is full, because the file may not exist before. Raise
    ``CorruptStoreError`` at the first bad block.
    """
    first = begin // BLOCK_BYTES
    until = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, stored)
    data = file.read(until - first * BLOCK_BYTES, first * BLOCK_BYTES)
    if len(data) < until - first * BLOCK_BYTES:
        reason = f"the file ends here, but {stored} bytes were stored"
        raise CorruptStoreError(str(file.path), first * BLOCK_BYTES + len(data), reason)
    blocks = -(-len(data) // BLOCK_BYTES) if complete and until == stored else len(data) // BLOCK_BYTES
    if blocks:
        wanted = np.frombuffer(crcs().read(blocks * 4, first * 4).ljust(blocks * 4, b"\0"), ">u4")
        found = crc32c_of_blocks(data, BLOCK_BYTES)[:blocks]
        if (found != wanted).any():
            number = int((found != wanted).argmax())
            raise CorruptStoreError(str(file.path), (first + number) * BLOCK_BYTES, "block checksum mismatch")
    return data[begin - first * BLOCK_BYTES : end - first * BLOCK_BYTES]
