"""The records of transactions that are not decided, for those who have to decide or bury them. From a thread: it may wait for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.errors import OffsetOutOfRangeError
from litemq.storage.store import Store

__all__ = ["halves_of", "records_of"]

_TRIES: Final = 3  # retention may carry a half elsewhere while it is looked for


def records_of(store: Store, transactions: Sequence[str], most_bytes: int) -> dict[str, list[bytes]]:
    """The records of some transactions, and of the last of them perhaps not all: about so many bytes, but of one transaction at least one."""
    found: dict[str, list[bytes]] = {}
    size = 0
    for name in transactions:
        known = store.state.delivery.halves.get(name)
        if known is None:
            continue
        if found and size + known.bytes > most_bytes:
            break
        records = found[name] = halves_of(store, name, max(0, most_bytes - size))
        size += sum(map(len, records))
    return found


def halves_of(store: Store, transaction: str, most_bytes: int) -> list[bytes]:
    """The records of a transaction that are neither messages nor dead, in their order: about so many bytes, but at least one."""
    for attempt in range(_TRIES):
        known = store.state.delivery.halves.get(transaction)
        records: list[bytes] = []
        size = 0
        try:
            for run in [] if known is None else known.left:
                if records and size + run.bytes > most_bytes:
                    break
                records.append(store.read_raw(run.first_log_offset))
                size += len(records[-1])
        except OffsetOutOfRangeError:
            if attempt == _TRIES - 1:
                raise
        else:
            return records
    return []
