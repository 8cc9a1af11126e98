"""What the parts of the state machine have in common: the records they see, and the rows they touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from litemq.proto.control_pb2 import Control, Row
from litemq.types import RecordKind

__all__ = ["Part", "PlacedPart", "PlacedRecord", "Touch"]

# What a change touched: the name of the part's row, and what tells it from others.
Touch = tuple[object, ...]

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class PlacedRecord(NamedTuple):
    """A record that the broker placed, as far as the parts want to know it.

    Only a dead letter's properties and id come along, and the transaction only of one that waits and came from another record, or of a half that
    died.
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
    """One part of the machine."""

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change; returns which rows are different now."""

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names, as it is now; one that says that it is gone, where there is none any more; ``None``: not mine."""

    def rows(self) -> Iterator[Row]:
        """All of it, in one order whatever the order in which it came."""

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot, unless it is another part's."""

    def copy(self) -> Self:
        """As it is now, while this one goes on."""


class PlacedPart(Part, Protocol):
    """One that looks at records, too, and not only at changes."""

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record; returns which rows are different now."""
