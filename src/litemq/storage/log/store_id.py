"""The id of a data directory: 128 random bits, which a group knows its replicas by.

A replica whose disk was wiped gets a new id: its empty log is not mistaken for the old one.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from litemq.errors import CorruptStoreError
from litemq.storage.files.disk import Disk

__all__ = ["STORE_ID_BYTES", "open_store_id"]

STORE_ID_BYTES: Final = 16


def open_store_id(disk: Disk, directory: Path) -> bytes:
    """Return the id of ``directory``. If it has none yet, create one; it is durable on return."""
    path = directory / "store_id"
    if not path.exists():
        new = path.with_suffix(".new")
        file = disk.open(new, create=True)
        file.write(secrets.token_hex(STORE_ID_BYTES).encode() + b"\n", 0)
        file.sync()
        disk.rename(new, path)
        disk.sync_directory(directory)
    try:
        found = bytes.fromhex(path.read_text("ascii"))
    except ValueError:
        found = b""
    if len(found) != STORE_ID_BYTES:
        reason = "the file has no id. Move the data directory away: the replica fetches everything again"
        raise CorruptStoreError(str(path), 0, reason)
    return found
