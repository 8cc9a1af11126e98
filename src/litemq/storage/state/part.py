"""The interface of the parts of the state machine: the records they see and the rows they touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from litemq.proto.control_pb2 import Control, Row
from litemq.types import RecordKind

__all__ = ["Part", "PlacedPart", "PlacedRecord", "Touch"]

# Identifies a changed row: the kind of row, then its key.
Touch = tuple[object, ...]

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class PlacedRecord(NamedTuple):
    """A record that the broker has placed in a queue: the fields that the parts use.

    ``origin`` is the log offset of the record that this one replaces or ends, or -1 if there is
    none: a retry names the failed record, a redriven message its dead letter, and a carried copy
    the old record.
    ``properties`` and ``message_id`` are set only for a dead letter. ``transaction`` is set only
    for a pending record with an origin, and for a dead letter made from a half.
    """

    log_offset: int
    kind: RecordKind
    origin: int
    topic_id: int
    queue_id: int
    queue_offset: int
    consume_count: int
    delay_time: int
    size: int
    store_timestamp: int
    properties: Mapping[str, str] = _NO_PROPERTIES
    transaction: str = ""
    message_id: str = ""


class Part(Protocol):
    """A part of the state machine. Only records change it."""

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""

    def row(self, touch: Touch) -> Row | None:
        """Return the current row that ``touch`` names, or ``None`` if it belongs to another part.

        If the row no longer exists, return one that is marked as gone.
        """

    def rows(self) -> Iterator[Row]:
        """Yield every row, in an order that does not depend on the history."""

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""

    def copy(self) -> Self:
        """Return an independent copy."""


class PlacedPart(Part, Protocol):
    """A part that applies records besides control records."""

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply ``record`` and return the rows it touches."""
