"""Errors of a store: locked, failed, full or damaged."""

from __future__ import annotations

from litemq.errors.base import LiteMQError

__all__ = [
    "CorruptStoreError",
    "DiskFullError",
    "IncompleteCopyError",
    "LogDivergedError",
    "NotConfirmedError",
    "OffsetOutOfRangeError",
    "OutdatedStoreError",
    "StorageError",
    "StoreFailedError",
    "StoreLockedError",
]


class StorageError(LiteMQError):
    """The store cannot serve the request. The message gives the reason."""

    code = 20


class StoreLockedError(StorageError):
    """Another process has this data directory open. Stop it, or choose another directory."""

    code = 21


class StoreFailedError(StorageError):
    """A write or fsync failed, so the store refuses all writes. Restart the broker to recover."""

    code = 22


class DiskFullError(StorageError):
    """The disk is full; the store wrote nothing. Free some space, then send again."""

    code = 23
    retriable = True


class CorruptStoreError(StorageError):
    """Bytes at ``offset`` of ``path`` are damaged. Restore a copy of the file, or move it away."""

    code = 24
    _parameters = ("path", "offset", "reason")

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {reason}")
        self.path, self.offset, self.reason = path, offset, reason


class OffsetOutOfRangeError(StorageError):
    """The offset was deleted by retention or is not confirmed yet. The message names the range."""

    code = 25


class LogDivergedError(StorageError):
    """A replica would have to cut off confirmed records to follow its master. It stops instead."""

    code = 26


class OutdatedStoreError(StorageError):
    """A replica's directory lacks messages that it had, such as a backup. It is not in sync now."""

    code = 28


class IncompleteCopyError(StorageError):
    """The data directory has only a part of its master's log. Let the replica complete the copy."""

    code = 27


class NotConfirmedError(StorageError):
    """A change was written, but this broker cannot confirm it: it may last, or be lost.

    Producers resend with the same sequence, so that a message that lasts is not stored twice.
    """

    code = 98
    retriable = True
