"""What must be so of the delivery whatever its history: it is the same from a snapshot on, and says all that a change touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litemq.proto.control_pb2 import Control
from litemq.storage.state.machine_parts import Delivery, PlacedEvent
from litemq.storage.state.part import Touch
from litemq.storage.state.persistence.rows import is_gone, row_key

__all__ = ["Change", "check_snapshot", "check_touches", "rows_of", "take"]

Change = Control | PlacedEvent


def take(delivery: Delivery, change: Change) -> list[Touch]:
    return delivery.apply(change) if isinstance(change, Control) else delivery.place(change)


def rows_of(delivery: Delivery) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in delivery.rows()]


def check_snapshot(history: Sequence[Change], cut: int, check: Callable[[Delivery, Delivery], None] = lambda _loaded, _whole: None) -> None:
    """A snapshot at ``cut``, its rows in any order, and the rest of a history are the whole; ``check`` compares what no row tells."""
    whole = Delivery()
    for change in history[:cut]:
        take(whole, change)
    loaded = Delivery()
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


def check_touches(history: Sequence[Change]) -> None:
    """The rows that changes touch are all that are different behind them."""
    delivery = Delivery()
    stored: dict[bytes, bytes] = {}
    for change in history:
        for row in delivery.rows_of(take(delivery, change)):
            if is_gone(row):
                stored.pop(row_key(row), None)
            else:
                stored[row_key(row)] = row.SerializeToString(deterministic=True)
        assert sorted(stored.values()) == sorted(rows_of(delivery))
