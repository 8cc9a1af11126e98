"""Snapshots of the state, as control records in the log.

The state is the rows of a snapshot plus the records from its ``as_of`` on; older records are not
needed. A snapshot is valid only if its end record has the right count and digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from litemq.format.crc import crc32c
from litemq.proto.control_pb2 import Control, Row, SnapshotBegin, SnapshotEnd, SnapshotRows

__all__ = ["SnapshotReader", "snapshot_begin", "snapshot_rest"]

_BYTES_PER_RECORD: Final = 256 * 1024


def snapshot_begin(as_of: int) -> Control:
    """Return the begin record of a snapshot of the state after all records below ``as_of``."""
    return Control(snapshot_begin=SnapshotBegin(as_of=as_of))


def snapshot_rest(rows: Iterable[Row], begin_offset: int, max_bytes: int) -> Iterator[Control]:
    """Yield the records after the begin record at ``begin_offset``, each of about ``max_bytes``."""
    max_bytes = min(max_bytes, _BYTES_PER_RECORD)
    size = 0
    count = digest = 0
    pending: list[Row] = []
    for row in rows:
        count += 1
        serialized = row.SerializeToString(deterministic=True)
        digest = crc32c(serialized, digest)
        pending.append(row)
        size += len(serialized) + 4
        if size >= max_bytes:
            yield Control(snapshot_rows=SnapshotRows(rows=pending))
            pending = []
            size = 0
    if pending:
        yield Control(snapshot_rows=SnapshotRows(rows=pending))
    yield Control(snapshot_end=SnapshotEnd(begin_offset=begin_offset, row_count=count, digest=digest))


class SnapshotReader:
    """Reads a snapshot from the control records that follow its begin."""

    def __init__(self, begin_offset: int) -> None:
        self._begin_offset = begin_offset
        self._rows: list[Row] = []
        self._digest = 0
        self.as_of: int | None = None

    def take(self, control: Control) -> list[Row] | None:
        """Take the next control record; return the rows once the snapshot is complete.

        Raise ``ValueError`` if the snapshot is not valid.
        """
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
                    raise ValueError("the end of the snapshot does not match its rows")
                return self._rows
            case "snapshot_begin" | "snapshot_rows" | "snapshot_end" as part:
                raise ValueError(f"unexpected {part} in the snapshot")
            case other if self.as_of is None:
                raise ValueError(f"expected the begin of a snapshot, found {other}")
            case _:
                pass  # other threads appended while the snapshot was written
        return None
