"""The store of a simulated replica, which reports acknowledgements and reads that break I6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from litemq.errors import LiteMQError
from litemq.storage.log_copy import LogCopy
from litemq.storage.queue_view import QueueView
from litemq.storage.reading import StoreReader
from litemq.storage.replica_store import ReplicaStore
from litemq.storage.state import QueueKey
from support.sim.process import PROCESS

__all__ = ["CHECKED_READS", "WatchedCopy", "WatchedStore"]

_SIZE: Final = slice(0, 4)  # in a record
_LOG_OFFSET: Final = slice(16, 24)


class WatchedStore(ReplicaStore):
    """A store that its process is known to have. An acknowledgement asks for ``lease_refusal``."""

    def _open_as_follower(self) -> None:
        super()._open_as_follower()
        process = PROCESS.get()
        if process is not None:
            process.store = self

    @property
    def lease_refusal(self) -> LiteMQError | None:
        refusal = super().lease_refusal
        process = PROCESS.get()
        if refusal is None and process is not None:
            process.on_ack(self.last_epoch)
        return refusal


class WatchedCopy(LogCopy):
    """A copy of a master's log that is reported once it is complete."""

    def finish(self) -> None:
        super().finish()
        process = PROCESS.get()
        if process is not None:
            process.on_copy()


def _end_of_records(data: bytes | memoryview | None) -> int:
    """Return the log offset by which the latest record in ``data`` ends."""
    at, end = 0, 0
    while data is not None and at < len(data):
        size = int.from_bytes(data[at:][_SIZE], "big")
        end = max(end, int.from_bytes(data[at:][_LOG_OFFSET], "big") + size)
        at += size
    return end


def _end_of_entries(entries: npt.NDArray[np.void] | None) -> int:
    """Return the log offset by which the latest record of ``entries`` ends."""
    if entries is None or not entries.size:
        return 0
    return int((entries["log_offset"].astype(np.int64) + entries["size"].astype(np.int64)).max())


def _checked(read: Callable[..., Any], end_of: Callable[[Any], int]) -> Callable[..., Any]:
    """Return ``read``, which reports a record that is not confirmed (I6).

    Only consumers of a topic that shows received messages may get one.
    """

    def checked(view: QueueView, key: QueueKey, *arguments: Any, **options: Any) -> Any:
        found = read(view, key, *arguments, **options)
        end, confirmed = end_of(found), view._parts.confirmation.offset
        is_allowed = not isinstance(view, StoreReader) and view._state.shows_received(key)
        process = PROCESS.get()
        if end > confirmed and not is_allowed and process is not None:
            process.on_fault(f"I6: {process.name} reads {key} up to {end}, and only {confirmed} is confirmed")
        return found

    return checked


CHECKED_READS: Final = tuple(
    (QueueView, read.__name__, _checked(read, end_of))
    for read, end_of in (
        (QueueView.read_queue, _end_of_records),
        (QueueView.read_if_hot, _end_of_records),
        (QueueView.read_chosen, _end_of_records),
        (QueueView.read_entries, _end_of_entries),
    )
)
