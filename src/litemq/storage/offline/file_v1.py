"""Reads a file of version 1 records by column, up to its end or to the zeros that fill it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError, RecordFormatError
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.v1.columns import RecordColumnsV1, find_faults_v1
from litemq.format.v1.record import MAGIC_V1, decode_record_v1

__all__ = ["WindowV1", "read_file_v1"]

_WINDOW: Final = 4 << 20


class WindowV1(NamedTuple):
    """Valid records, and ``base``, the position in the file at which their buffer begins."""

    base: int
    columns: RecordColumnsV1


def read_file_v1(path: Path, size: int) -> Iterator[WindowV1]:
    """Yield the records in the first ``size`` bytes of a file.

    Raise ``CorruptStoreError`` at a damaged record, and ``InvalidArgumentError`` if the file does
    not begin with a version 1 record.
    """
    at, window = 0, _WINDOW
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            data = file.read(min(window, size - at))
            if at == 0 and data[4:8].strip(b"\0") not in (b"", MAGIC_V1.to_bytes(4, "big")):
                magic = f"0x{data[4:8].hex().upper()}"
                raise InvalidArgumentError(f"{path} is not a file of version 1 records: it begins with {magic}")
            found = scan(data, version=1, limits=STORED_LIMITS)
            columns = RecordColumnsV1(data, found.starts)
            faults = find_faults_v1(columns, limits=STORED_LIMITS)
            if faults.size:
                raise _damage(path, at, data, int(found.starts[faults[0]]))
            if found.starts.size:
                yield WindowV1(at, columns)
            if found.stop is ScanStop.ZERO and _is_zero_from(path, at + found.end):
                return  # the file was allocated at full size
            goes_on = found.stop is ScanStop.END or (found.stop is ScanStop.INCOMPLETE and at + len(data) < size)
            if not goes_on:
                raise _damage(path, at, data, found.end)
            window = _WINDOW if found.end else 2 * window  # the window is smaller than the record
            at += found.end


def _is_zero_from(path: Path, position: int) -> bool:
    with path.open("rb") as file:
        file.seek(position)
        return not any(any(piece) for piece in iter(lambda: file.read(_WINDOW), b""))


def _damage(path: Path, base: int, data: bytes, position: int) -> CorruptStoreError:
    reason = ScanStop.BROKEN.value
    try:
        decode_record_v1(data, position, limits=STORED_LIMITS)
    except RecordFormatError as error:
        reason = f"{error.problem} ({error.detail})" if error.detail else error.problem
    return CorruptStoreError(str(path), base + position, reason)
