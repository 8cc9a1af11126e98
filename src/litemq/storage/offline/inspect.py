"""Reads a log file record by record, for display. Takes no lock and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError, RecordFormatError
from litemq.format.batches.scan import ScanStop, Version, scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import BLANK_MAGIC, MAGIC
from litemq.format.record_decode import decode_record
from litemq.format.v1.record import MAGIC_V1, decode_record_v1
from litemq.types import StoredRecord

__all__ = ["Inspected", "inspect_file"]

_WINDOW = 4 << 20


class Inspected(NamedTuple):
    """A record, and its position in the file."""

    position: int
    stored: StoredRecord


def inspect_file(path: Path) -> Iterator[Inspected]:
    """Yield the records of a segment, or of a file of version 1 records.

    Raise ``CorruptStoreError`` at a damaged record.
    """
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a directory: pass a log file{_example(path)}")
    try:
        with path.open("rb") as file:
            head = int.from_bytes(file.read(8)[4:8], "big")
            if head not in (0, MAGIC, MAGIC_V1, BLANK_MAGIC):
                raise InvalidArgumentError(f"{path} is not a log file: it begins with 0x{head:08X}, not with a record")
            yield from _records(path, 1 if head == MAGIC_V1 else 2)
    except OSError as error:
        raise InvalidArgumentError(f"cannot read {path}: {error.strerror}") from error


def _example(directory: Path) -> str:
    """Name the first log file in a data directory, or in the one of ``litemq up``."""
    for log in (directory, directory / "commitlog", directory / "broker" / "commitlog"):
        files = sorted(log.glob("[0-9]" * 20))
        if files:
            return f", such as {files[0]}"
    return ""


def _records(path: Path, version: Version) -> Iterator[Inspected]:
    decode = decode_record if version == 2 else decode_record_v1
    size = path.stat().st_size
    at, window = 0, _WINDOW
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            data = file.read(window)
            found = scan(data, version=version, limits=STORED_LIMITS)
            for start in found.starts.tolist():
                try:
                    yield Inspected(at + start, decode(data, start, limits=STORED_LIMITS))
                except RecordFormatError as error:
                    raise CorruptStoreError(str(path), at + start, error.problem) from None
            if found.stop is ScanStop.INCOMPLETE and at + len(data) < size and window <= STORED_LIMITS.max_record_bytes:
                window = _WINDOW if found.end else 2 * window
            elif found.stop in (ScanStop.BROKEN, ScanStop.INCOMPLETE):
                raise CorruptStoreError(str(path), at + found.end, found.stop.value)
            elif found.stop is not ScanStop.END:
                return
            at += found.end
