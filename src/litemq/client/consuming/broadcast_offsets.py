"""The progress file of a broadcast consumer: ``<directory>/<group>/<client_id>/<topic>.json``.

A write replaces the file atomically. A lock file beside it keeps a second consumer with the same
``client_id`` out, because each would skip what the other has read.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from litemq.errors import InvalidArgumentError, StorageError, StoreLockedError
from litemq.types import check_name

__all__ = ["BroadcastOffsets"]

_VERSION: Final = 1
_MAX_BYTES: Final = 64 << 20

Queue = tuple[str, int]  # broker and number


class BroadcastOffsets:
    """The next offset of each queue, for one client in one topic.

    Call ``open`` first, and ``close`` last.
    """

    def __init__(self, directory: str | Path, group: str, client_id: str, topic: str) -> None:
        folder = Path(directory).expanduser() / check_name(group, "group") / check_name(client_id, "client")
        self.path = folder / f"{check_name(topic)}.json"
        self.offsets: dict[Queue, int] = {}
        self._lock: int | None = None

    def open(self) -> None:
        """Lock and read the file. A missing file is empty.

        Raises:
            StoreLockedError: Another consumer has locked the file.
            StorageError: The file is damaged.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.offsets = self._read()
        except BlockingIOError:
            os.close(lock)
            raise StoreLockedError(
                f"{self.path} is in use: another consumer on this host has the same group and client_id. "
                "Choose another client_id"
            ) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def _read(self) -> dict[Queue, int]:
        try:
            with self.path.open("rb") as file:
                text = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        try:
            stored = json.loads(text)
            if len(text) > _MAX_BYTES or stored["version"] != _VERSION:
                raise ValueError  # noqa: TRY301  one message for all kinds of damage
            offsets = {
                (broker, int(queue_id)): offset
                for broker, queues in stored["offsets"].items()
                for queue_id, offset in queues.items()
            }
            if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
                raise ValueError  # noqa: TRY301
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self.path} is damaged, or of a later version: "
                "restore a copy, or remove it to start at auto_offset_reset"
            ) from None
        return offsets

    def write(self, offsets: Mapping[Queue, int]) -> None:
        """Replace the file with ``offsets`` and sync it to disk. Blocks."""
        if self._lock is None:
            raise InvalidArgumentError(f"{self.path} is not open")
        by_broker: dict[str, dict[str, int]] = {}
        for (broker, queue_id), offset in sorted(offsets.items()):
            by_broker.setdefault(broker, {})[str(queue_id)] = offset
        new = self.path.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"version": _VERSION, "offsets": by_broker}, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.offsets = dict(offsets)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
