"""Invariants of the delivery state: it equals its snapshot, and reports every changed row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litemq.proto.control_pb2 import Control
from litemq.storage.state.machine_parts import MachineParts, PlacedEvent
from litemq.storage.state.part import Touch
from litemq.storage.state.persistence.rows import is_gone, row_key

__all__ = ["Change", "check_snapshot", "check_touches", "rows_of", "take"]

Change = Control | PlacedEvent


def take(parts: MachineParts, change: Change) -> list[Touch]:
    return parts.apply(change) if isinstance(change, Control) else parts.place(change)


def rows_of(parts: MachineParts) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in parts.rows()]


def check_snapshot(
    history: Sequence[Change],
    cut: int,
    check: Callable[[MachineParts, MachineParts], None] = lambda _loaded, _whole: None,
) -> None:
    """Check that a snapshot at ``cut`` and the rest of a history give the same state.

    The rows of the snapshot come in any order. ``check`` compares state that no row has.
    """
    whole = MachineParts()
    for change in history[:cut]:
        take(whole, change)
    loaded = MachineParts()
    for row in reversed(list(whole.rows())):
        assert loaded.put(row)
    copied, before = whole.copy(), rows_of(whole)
    assert rows_of(loaded) == before
    for change in history[cut:]:
        take(whole, change)
        take(loaded, change)
        assert rows_of(loaded) == rows_of(whole)
        check(loaded, whole)
    assert rows_of(copied) == before
    after = rows_of(whole)
    for change in history[cut:]:
        take(copied, change)
    assert rows_of(copied) == rows_of(whole) == after  # the changes of the copy are its own


def check_touches(history: Sequence[Change]) -> None:
    """Check that all rows that differ after a change are reported as touched."""
    parts = MachineParts()
    stored: dict[bytes, bytes] = {}
    for change in history:
        for row in parts.rows_of(take(parts, change)):
            if is_gone(row):
                stored.pop(row_key(row), None)
            else:
                stored[row_key(row)] = row.SerializeToString(deterministic=True)
        assert sorted(stored.values()) == sorted(rows_of(parts))
