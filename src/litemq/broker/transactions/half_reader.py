"""Reads the records of undecided transactions. Call it in a thread: it may wait for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.errors import OffsetOutOfRangeError
from litemq.storage.store import Store

__all__ = ["read_halves", "read_transactions"]

_TRIES: Final = 3  # retention may move a half during a read


def read_transactions(store: Store, transactions: Sequence[str], max_bytes: int) -> dict[str, list[bytes]]:
    """Return the records of ``transactions``, about ``max_bytes``, and at least one.

    The last transaction may be incomplete.
    """
    found: dict[str, list[bytes]] = {}
    size = 0
    for name in transactions:
        known = store.state.parts.halves.get(name)
        if known is None:
            continue
        if found and size + known.bytes > max_bytes:
            break
        records = found[name] = read_halves(store, name, max(0, max_bytes - size))
        size += sum(map(len, records))
    return found


def read_halves(store: Store, transaction: str, max_bytes: int) -> list[bytes]:
    """Return the records of a transaction that are neither published nor dead, in order: about
    ``max_bytes``, and at least one.
    """
    for attempt in range(_TRIES):
        known = store.state.parts.halves.get(transaction)
        records: list[bytes] = []
        size = 0
        try:
            for run in [] if known is None else known.left:
                if records and size + run.bytes > max_bytes:
                    break
                records.append(store.read_raw(run.first_log_offset))
                size += len(records[-1])
        except OffsetOutOfRangeError:
            if attempt == _TRIES - 1:
                raise
        else:
            return records
    return []
