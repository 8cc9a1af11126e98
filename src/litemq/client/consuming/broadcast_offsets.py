"""How far a client has come in a topic that it reads for itself: a small file, ``<directory>/<group>/<client_id>/<topic>.json``.

The file is written whole under another name and then renamed, so that it is always either the one before or the new one. Beside it stands a
lock: two who read as one would each pass by what the other read.
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
_MOST_BYTES: Final = 64 << 20

Queue = tuple[str, int]  # broker and number


class BroadcastOffsets:
    """The offsets of one client in one topic, for each queue the next one to read. Open it before anything else, and close it."""

    def __init__(self, directory: str | Path, group: str, client_id: str, topic: str) -> None:
        folder = Path(directory).expanduser() / check_name(group, "group") / check_name(client_id, "client")
        self.path = folder / f"{check_name(topic)}.json"
        self.offsets: dict[Queue, int] = {}
        self._lock: int | None = None

    def open(self) -> None:
        """Lock the file and read it; one that is not there yet is empty."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.offsets = self._read()
        except BlockingIOError:
            os.close(lock)
            raise StoreLockedError(
                f"{self.path} is in use: somebody on this host reads for the same group as the same client. Choose another client_id"
            ) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def _read(self) -> dict[Queue, int]:
        try:
            with self.path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return {}
        try:
            told = json.loads(text)
            if len(text) > _MOST_BYTES or told["version"] != _VERSION:
                raise ValueError  # noqa: TRY301  one answer to all that is wrong with it
            offsets = {(broker, int(queue_id)): offset for broker, queues in told["offsets"].items() for queue_id, offset in queues.items()}
            if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
                raise ValueError  # noqa: TRY301
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self.path} is damaged, or of a later version: remove it to begin where auto_offset_reset says, or put back a copy"
            ) from None
        return offsets

    def write(self, offsets: Mapping[Queue, int]) -> None:
        """Keep these, so that nothing but a later write takes them back. It may wait for the disk."""
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
        """Let another one have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
