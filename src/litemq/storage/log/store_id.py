"""The id of a replica's data directory: 128 random bits, which its group knows it by.

A replica whose disk was wiped gets a new id: its empty log is not mistaken for the old one. The
file ``store_id`` has the id, and the name of the group. It also marks the directory as a replica's:
a broker without a group would write records that no other replica has.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.files.disk import Disk

__all__ = ["STORE_ID_BYTES", "open_store_id", "refuse_replica"]

STORE_ID_BYTES: Final = 16
_NAME: Final = "store_id"
_CONTENT: Final = re.compile(r"([0-9a-f]{32})\n(?:([A-Za-z0-9_.\-]{1,127})\n)?")


def open_store_id(disk: Disk, directory: Path, group: str = "") -> bytes:
    """Return the id of ``directory``. If it has none yet, create one; it is durable on return.

    Raises:
        StorageError: The directory belongs to another group than ``group``.
    """
    path = directory / _NAME
    if not path.exists():
        _write(disk, path, secrets.token_hex(STORE_ID_BYTES), group)
    store_id, owner = _read(path)
    if group and not owner:
        _write(disk, path, store_id, group)
    elif group and owner != group:
        raise StorageError(
            f"{directory} has a replica of the group {owner}, not of {group}: start it with "
            f"`--broker-name {owner}`, or start with an empty directory"
        )
    return bytes.fromhex(store_id)


def refuse_replica(directory: Path) -> None:
    """Raise ``StorageError`` if ``directory`` is a replica's."""
    path = directory / _NAME
    if path.exists():
        _, owner = _read(path)
        group = f"the group {owner}" if owner else "a group"
        raise StorageError(
            f"{directory} has a replica of {group}: only a broker with the group's `--replicas` may write there. "
            f"If the group is gone for good, remove {path}: then this is a broker of its own"
        )


def _write(disk: Disk, path: Path, store_id: str, group: str) -> None:
    new = path.with_suffix(".new")
    file = disk.open(new, create=True)
    file.truncate(0)
    file.write(f"{store_id}\n{group}\n".encode() if group else f"{store_id}\n".encode(), 0)
    file.sync()
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def _read(path: Path) -> tuple[str, str]:
    """Return the id in hexadecimal, and the group; ``""``: the file does not say."""
    found = _CONTENT.fullmatch(path.read_bytes().decode("utf-8", "replace"))
    if found is None:
        reason = "the file has no id. Move the data directory away: the replica fetches everything again"
        raise CorruptStoreError(str(path), 0, reason)
    return found[1], found[2] or ""
