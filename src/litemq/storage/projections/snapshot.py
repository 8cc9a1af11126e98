"""Snapshots in the log: everything that is known, written down as a run of control records.

A snapshot makes what came before it dispensable: the state is its rows and the records from its ``as_of`` on. It is believed only whole:
from its begin to an end that has the right count and digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from litemq.format.crc import crc32c
from litemq.proto.control_pb2 import Control, Row, SnapshotBegin, SnapshotEnd, SnapshotRows

__all__ = ["SnapshotReader", "snapshot_begin", "snapshot_rest"]

_BYTES_PER_RECORD: Final = 256 * 1024


def snapshot_begin(as_of: int) -> Control:
    """The record that begins a snapshot of what is known when all records below ``as_of`` are applied."""
    return Control(snapshot_begin=SnapshotBegin(as_of=as_of))


def snapshot_rest(rows: Iterable[Row], begin_offset: int, most_bytes: int) -> Iterator[Control]:
    """The records behind the begin, which stands at log offset ``begin_offset``; none is much larger than ``most_bytes``."""
    most_bytes = min(most_bytes, _BYTES_PER_RECORD)
    size = 0
    count = digest = 0
    gathered: list[Row] = []
    for row in rows:
        count += 1
        serialized = row.SerializeToString(deterministic=True)
        digest = crc32c(serialized, digest)
        gathered.append(row)
        size += len(serialized) + 4
        if size >= most_bytes:
            yield Control(snapshot_rows=SnapshotRows(rows=gathered))
            gathered = []
            size = 0
    if gathered:
        yield Control(snapshot_rows=SnapshotRows(rows=gathered))
    yield Control(snapshot_end=SnapshotEnd(begin_offset=begin_offset, row_count=count, digest=digest))


class SnapshotReader:
    """Takes the control records from a snapshot's begin on, until it is whole or turns out not to be one."""

    def __init__(self, begin_offset: int) -> None:
        self._begin_offset = begin_offset
        self._rows: list[Row] = []
        self._digest = 0
        self.as_of: int | None = None

    def take(self, control: Control) -> list[Row] | None:
        """The rows, once the end has come and fits; ``None`` before. Raises ``ValueError`` where it is no whole snapshot."""
        match control.WhichOneof("change"):
            case "snapshot_begin" if self.as_of is None:
                self.as_of = control.snapshot_begin.as_of
            case "snapshot_rows" if self.as_of is not None:
                for row in control.snapshot_rows.rows:
                    self._digest = crc32c(row.SerializeToString(deterministic=True), self._digest)
                    self._rows.append(row)
            case "snapshot_end" if self.as_of is not None:
                end = control.snapshot_end
                if (end.begin_offset, end.row_count, end.digest) != (self._begin_offset, len(self._rows), self._digest):
                    raise ValueError("the end of the snapshot does not fit its rows")
                return self._rows
            case "snapshot_begin" | "snapshot_rows" | "snapshot_end" as part:
                raise ValueError(f"a {part} stands where another part of the snapshot should")
            case other if self.as_of is None:
                raise ValueError(f"a {other} stands where the snapshot should begin")
            case _:
                pass  # others went on while it was written
        return None
