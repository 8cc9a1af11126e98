"""The id of a replica's data directory: 128 random bits, which its group knows it by.

A replica whose disk was wiped gets a new id: its empty log is not mistaken for the old one. The
file ``store_id`` has a line for each of the id, the name of the group and the ``broker_id`` of the
replica; older files lack the last ones. It marks the directory as a replica's: a broker without a
group would write records that no other replica has. A copy of the directory has the same id, and
would count as the original. So another replica refuses it.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.files.disk import Disk

__all__ = ["STORE_ID_BYTES", "check_owner", "open_store_id", "refuse_replica"]

STORE_ID_BYTES: Final = 16
_FILE: Final = "store_id"
_NAME: Final = r"[A-Za-z0-9_.\-]{1,127}"
_CONTENT: Final = re.compile(rf"([0-9a-f]{{32}})\n(?:({_NAME})\n(?:({_NAME})\n)?)?")


class _Owned(NamedTuple):
    """The content of the file. A name is empty if the file does not have it."""

    store_id: str  # in hexadecimal
    group: str = ""
    broker_id: str = ""


def open_store_id(disk: Disk, directory: Path, group: str = "", broker_id: str = "") -> bytes:
    """Return the id of ``directory``. If it has none yet, create one; it is durable on return.

    A ``broker_id`` needs a ``group``. Names that the file does not have yet are added.

    Raises:
        StorageError: The directory belongs to another group or replica than the named one.
    """
    path = directory / _FILE
    owned = _read(path) if path.exists() else None
    if owned is not None:
        _check(path, owned, group, broker_id)
    before = owned or _Owned(secrets.token_hex(STORE_ID_BYTES))
    after = before._replace(group=before.group or group, broker_id=before.broker_id or broker_id)
    if after != owned:
        _write(disk, path, after)
        after = _read(path)
    return bytes.fromhex(after.store_id)


def check_owner(directory: Path, group: str, broker_id: str) -> None:
    """Raise ``StorageError`` if ``directory`` belongs to another group or replica."""
    path = directory / _FILE
    if path.exists():
        _check(path, _read(path), group, broker_id)


def _check(path: Path, owned: _Owned, group: str, broker_id: str) -> None:
    if group and owned.group not in ("", group):
        raise StorageError(
            f"{path.parent} has a replica of the group {owned.group}, not of {group}: start it with "
            f"`--broker-name {owned.group}`, or start with an empty directory"
        )
    if broker_id and owned.broker_id not in ("", broker_id):
        raise StorageError(
            f"{path.parent} is the directory of replica {owned.broker_id}, or a copy of it, but this is replica "
            f"{broker_id}. Start {broker_id} with an empty directory: it copies the log. To rename {owned.broker_id} "
            f"itself, change the last line of {path}"
        )


def refuse_replica(directory: Path) -> None:
    """Raise ``StorageError`` if ``directory`` is a replica's."""
    path = directory / _FILE
    if path.exists():
        owner = _read(path).group
        group = f"the group {owner}" if owner else "a group"
        raise StorageError(
            f"{directory} has a replica of {group}: only a broker with the group's `--replicas` may write there. "
            f"If the group is gone for good, remove {path}: then this is a broker of its own"
        )


def _write(disk: Disk, path: Path, owned: _Owned) -> None:
    new = path.with_suffix(".new")
    file = disk.open(new, create=True)
    file.truncate(0)
    file.write("".join(f"{line}\n" for line in owned if line).encode(), 0)
    file.sync()
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def _read(path: Path) -> _Owned:
    found = _CONTENT.fullmatch(path.read_bytes().decode("utf-8", "replace"))
    if found is None:
        reason = "the file has no id. Move the data directory away: the replica fetches everything again"
        raise CorruptStoreError(str(path), 0, reason)
    return _Owned(*(part or "" for part in found.groups()))
