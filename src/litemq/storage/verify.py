"""Every check of a data directory, without opening it: nothing is changed, and what is wrong is named by file and byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.crc import crc32c
from litemq.storage.block_crcs import BLOCK_BYTES, crc_path
from litemq.storage.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.epochs import EpochFile
from litemq.storage.files import DISK
from litemq.storage.inspect import inspect_file

__all__ = ["Finding", "Verified", "verify_directory"]


class Finding(NamedTuple):
    """Something that is not as it should be."""

    path: str
    offset: int
    reason: str


class Verified(NamedTuple):
    """What was looked at."""

    segments: int
    records: int
    queue_files: int
    findings: list[Finding]


def verify_directory(directory: Path, *, after_file: Callable[[Path], None] = lambda _path: None) -> Verified:
    """Check the log record by record, the checkpoint, the epochs, and every full block of the queues."""
    if not (directory / "commitlog").is_dir():
        raise InvalidArgumentError(f"{directory} is no data directory: it has no commitlog")
    findings: list[Finding] = []
    checkpoint = _checkpoint(directory, findings)
    findings += _epochs(directory)
    segments = sorted(path for path in (directory / "commitlog").iterdir() if path.name.isdigit())
    records = 0
    for path in segments:
        counted = _segment(path, checkpoint.flushed, findings)
        records += counted
        after_file(path)
    queue_files = [path for path in sorted((directory / "consumequeue").rglob("*")) if path.is_file() and path.suffix != ".crc"]
    for path in queue_files:
        findings += _blocks(path)
        after_file(path)
    return Verified(len(segments), records, len(queue_files), findings)


def _checkpoint(directory: Path, findings: list[Finding]) -> Checkpoint:
    path = directory / "checkpoint"
    if not path.exists():
        findings.append(Finding(str(path), 0, "the file is missing"))
        return Checkpoint()
    file = CheckpointFile(DISK, path)
    findings += [Finding(str(path), slot * 4096, "the slot is torn or damaged") for slot in file.damaged_slots]
    return file.latest or Checkpoint()


def _epochs(directory: Path) -> Iterator[Finding]:
    path = directory / "epochs"
    if not path.exists():
        yield Finding(str(path), 0, "the file is missing")
    elif path.stat().st_size % EpochFile.ENTRY_BYTES:
        yield Finding(str(path), path.stat().st_size // EpochFile.ENTRY_BYTES * EpochFile.ENTRY_BYTES, "the last entry is torn")
    else:
        raw = path.read_bytes()
        for at in range(0, len(raw), EpochFile.ENTRY_BYTES):
            entry = raw[at : at + EpochFile.ENTRY_BYTES]
            if entry[:4] != crc32c(entry[4:]).to_bytes(4, "big"):
                yield Finding(str(path), at, "the checksum of an epoch does not fit")


def _segment(path: Path, flushed: int, findings: list[Finding]) -> int:
    """How many records are whole; the first that is not is a finding, unless it stands above what was flushed."""
    start = int(path.name)
    records = end = 0
    try:
        for position, stored in inspect_file(path):
            if stored.stamp is None or stored.stamp.commitlog_offset != start + position:
                findings.append(Finding(str(path), position, "the record belongs elsewhere"))
                return records
            records += 1
            end = position + stored.size
        if end == 0 and start < flushed:
            findings.append(Finding(str(path), 0, "the log ends here, before what was flushed does"))
    except CorruptStoreError as error:
        if start + error.offset < flushed:
            findings.append(Finding(str(path), error.offset, error.reason))
    return records


def _blocks(path: Path) -> Iterator[Finding]:
    sums = crc_path(path).read_bytes() if crc_path(path).exists() else b""
    with path.open("rb") as file:
        for number in range(len(sums) // 4):
            block = file.read(BLOCK_BYTES)
            if crc32c(block).to_bytes(4, "big") != sums[number * 4 : number * 4 + 4]:
                yield Finding(str(path), number * BLOCK_BYTES, "the checksum of a block does not fit")
