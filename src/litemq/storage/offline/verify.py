"""Verification of a data directory, read-only. Reports damage by file and position."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.format.crc import crc32c
from litemq.proto.control_pb2 import Queue, Topic
from litemq.storage.files.block_crcs import BLOCK_BYTES, crc_path
from litemq.storage.files.disk import READ_ONLY
from litemq.storage.log.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.epochs import EpochFile
from litemq.storage.log.reader import read_log
from litemq.storage.log.recovery import find_log_end, find_segments
from litemq.storage.log.segment import segment_path, segment_starts
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.projections.replay import decode_controls, replay_into_queues
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.state import QueueKey
from litemq.storage.state.persistence.database import SIDE_FILES, StateDatabase
from litemq.storage.state.topics import SYSTEM_TOPICS

__all__ = ["Finding", "Verified", "verify_directory"]

_ATTEMPTS: Final = 3


class Finding(NamedTuple):
    """One defect of a data directory."""

    path: str
    offset: int
    reason: str


class Verified(NamedTuple):
    """The totals of a verification, and its findings."""

    segments: int
    records: int
    queue_files: int
    index_files: int
    above_checkpoint_bytes: int  # not verified: recovery decides at the next opening
    findings: list[Finding]


def verify_directory(directory: Path, *, on_file_checked: Callable[[Path], None] = lambda _path: None) -> Verified:
    """Check every record, queue entry and index block, the checkpoint, the epochs and ``state.db``.

    Call ``on_file_checked(path)`` after each file.
    """
    check_data_directory(directory)
    findings: list[Finding] = []
    checkpoint = _checkpoint(directory, findings)
    findings += _epochs(directory)
    derived: list[Finding] = []
    segments, records, unchecked = _log_and_queues(directory, checkpoint, findings, derived, on_file_checked)
    queue_files, index_files = (_files(directory / part) for part in ("consumequeue", "index"))
    named = {
        (finding.path, finding.offset // BLOCK_BYTES) for finding in derived
    }  # reported with a more exact position than their block
    for path in queue_files + index_files:
        derived += [finding for finding in _blocks(path) if (finding.path, finding.offset // BLOCK_BYTES) not in named]
        on_file_checked(path)
    findings += _first_of_each_file(derived)  # of the log, each damaged record is reported
    findings += _state(directory)
    return Verified(segments, records, len(queue_files), len(index_files), unchecked, findings)


def _files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file() and path.suffix != ".crc"]


def _checkpoint(directory: Path, findings: list[Finding]) -> Checkpoint | None:
    path = directory / "checkpoint"
    if not path.exists():
        findings.append(Finding(str(path), 0, "the file is missing"))
        return None
    file = CheckpointFile(READ_ONLY, path)
    findings += [Finding(str(path), slot * BLOCK_BYTES, "the slot is torn or damaged") for slot in file.damaged_slots]
    if file.latest is None and not file.damaged_slots:
        findings.append(Finding(str(path), 0, "the file is empty"))
    return file.latest


def _epochs(directory: Path) -> Iterator[Finding]:
    path = directory / "epochs"
    if not path.exists():
        yield Finding(str(path), 0, "the file is missing")
    elif path.stat().st_size == 0:
        yield Finding(str(path), 0, "the file is empty")
    elif path.stat().st_size % EpochFile.ENTRY_BYTES:
        yield Finding(
            str(path), path.stat().st_size // EpochFile.ENTRY_BYTES * EpochFile.ENTRY_BYTES, "the last entry is torn"
        )
    else:
        raw = path.read_bytes()
        for at in range(0, len(raw), EpochFile.ENTRY_BYTES):
            entry = raw[at : at + EpochFile.ENTRY_BYTES]
            if entry[:4] != crc32c(entry[4:]).to_bytes(4, "big"):
                yield Finding(str(path), at, "checksum mismatch in an epoch")


def _log_and_queues(
    directory: Path,
    checkpoint: Checkpoint | None,
    findings: list[Finding],
    derived: list[Finding],
    on_file_checked: Callable[[Path], None],
) -> tuple[int, int, int]:
    """Verify the log and the queues; count segments, records and bytes above the checkpoint.

    Bytes above the checkpoint are no damage: the next opening truncates a torn tail. Add findings
    of the log to ``findings``, those of the queues to ``derived``.
    """
    folder = directory / "commitlog"
    sizes = [segment_path(folder, start).stat().st_size for start in segment_starts(folder)]
    if not sizes:
        if checkpoint is not None and checkpoint.flushed:
            findings.append(Finding(str(folder), 0, f"the log is missing; {checkpoint.flushed} bytes were flushed"))
        return 0, 0, 0
    segment_bytes = (checkpoint.segment_bytes if checkpoint is not None else 0) or max(sizes)
    try:
        segments = find_segments(READ_ONLY, folder, segment_bytes)
    except CorruptStoreError as error:
        findings.append(Finding(error.path, error.offset, error.reason))
        return len(sizes), 0, 0
    end = checkpoint.flushed if checkpoint is not None else find_log_end(segments, segments[0].start)
    log = CommitLog(READ_ONLY, folder, segments, end, segment_bytes, hot_bytes=0)
    if checkpoint is not None and segments[0].start > checkpoint.log_start:
        reason = f"the segment is missing; the first segment is {segments[0].start:020d}"
        findings.append(Finding(str(folder), checkpoint.log_start, reason))
    queues = _StoredQueues(
        directory / "consumequeue", checkpoint.queues_applied if checkpoint is not None else 0, derived
    )
    if not segments[0].start <= end <= segments[-1].end:
        reason = f"the log has only {segments[0].start} … {segments[-1].end}, and {end} was flushed"
        findings.append(Finding(str(folder), end, reason))
        end = min(end, segments[-1].end)
    records = 0
    current = segments[0].file.path

    def on_damage(error: CorruptStoreError) -> None:
        findings.append(Finding(error.path, error.offset, error.reason))

    for window in read_log(log, log.start, end, on_damage=on_damage):
        records += len(window.columns)
        for _, control in decode_controls(window.columns):
            queues.add_topics([control.topic_created.topic, *(row.topic for row in control.snapshot_rows.rows)])
            queues.add_starts(control.retention_crossed.queues)
        replay_into_queues(window, 0, queues)
        path = log.segment_of(window.base).file.path
        if path != current:
            on_file_checked(current)
            current = path
    queues.finish()
    above = find_log_end(segments, end) - end if end < segments[-1].end else 0
    return len(segments), records, above


def _first_of_each_file(findings: list[Finding]) -> list[Finding]:
    """Return the first finding of each file and reason, with the number of others like it.

    In a truncated file, every later entry is wrong.
    """
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.path, finding.reason), []).append(finding)
    return [
        first._replace(reason=f"{first.reason} (and {len(others)} more in this file)") if others else first
        for first, *others in alike.values()
    ]


class _StoredQueues:
    """Compares the queue files with the entries that the log gives."""

    def __init__(self, directory: Path, applied: int, findings: list[Finding]) -> None:
        self._directory = directory
        self._files = QueueFiles(READ_ONLY, directory)
        self._applied = applied
        self._findings = findings
        self._names = {facts.topic_id: facts.name for facts in SYSTEM_TOPICS}
        self._starts: dict[QueueKey, int] = {}
        # For each batch with wrong entries: its queue, their queue offsets, the file, and the
        # position that an entry of offset 0 would have in it.
        self._wrong: list[tuple[QueueKey, npt.NDArray[np.int64], Path, int]] = []

    def add_topics(self, topics: list[Topic]) -> None:
        """Add the names of topics from control records."""
        self._names |= {topic.topic_id: topic.name for topic in topics if topic.topic_id}

    def add_starts(self, queues: Iterable[Queue]) -> None:
        """Add the start offsets of queues from a record of retention."""
        for queue in queues:
            key = QueueKey(queue.topic_id, queue.queue_id)
            self._starts[key] = max(queue.least, self._starts.get(key, 0))

    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None:
        expected = entries[entries["log_offset"] < self._applied].astype(QUEUE_ENTRY, copy=False)
        name = self._names.get(key.topic_id)
        if name is None or expected.size == 0:
            return  # retention dropped the topic's creation, and no snapshot has been read yet
        path, offset, stored = self._files.raw(name, key.queue_id, first, expected.size)
        if stored != expected.tobytes():
            rows = np.frombuffer(stored.ljust(expected.nbytes, b"\0"), np.uint8).reshape(-1, QUEUE_ENTRY.itemsize)
            is_wrong = (rows != np.frombuffer(expected.tobytes(), np.uint8).reshape(rows.shape)).any(axis=1)
            self._wrong.append((key, first + np.flatnonzero(is_wrong), path, offset - first * QUEUE_ENTRY.itemsize))

    def finish(self) -> None:
        """Report the first wrong entry of each batch. Call it after the last record.

        Messages before the start of their queue are still in the log, but need no entry.
        """
        for key, queue_offsets, path, base in self._wrong:
            needed = queue_offsets[queue_offsets >= self._starts.get(key, 0)]
            if needed.size:
                at = base + int(needed[0]) * QUEUE_ENTRY.itemsize
                self._findings.append(Finding(str(path), at, "the entry does not match the log"))


def _blocks(path: Path) -> Iterator[Finding]:
    sums = crc_path(path).read_bytes() if crc_path(path).exists() else b""
    with path.open("rb") as file:
        for number in range(len(sums) // 4):
            file.seek(number * BLOCK_BYTES)
            wanted = sums[number * 4 : number * 4 + 4]
            # An active index file has no header and slots yet: the checksums of their blocks are 0.
            if any(wanted) and crc32c(file.read(BLOCK_BYTES)).to_bytes(4, "big") != wanted:
                yield Finding(str(path), number * BLOCK_BYTES, "block checksum mismatch")


def _state(directory: Path) -> Iterator[Finding]:
    """Check a copy of ``state.db``: SQLite writes even when it only reads.

    A copy made during a commit may be torn: try again.
    """
    path = directory / "state.db"
    if not path.exists():
        return
    finding = None
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory() as scratch:
            for suffix in SIDE_FILES[:2]:
                source = path.with_name(path.name + suffix)
                if source.exists():
                    shutil.copy(source, Path(scratch) / source.name)
            try:
                database = StateDatabase(Path(scratch) / path.name)
                try:
                    database.load()
                finally:
                    database.close()
                return
            except CorruptStoreError as error:
                finding = Finding(str(path), 0, error.reason)
            except sqlite3.Error as error:
                finding = Finding(str(path), 0, str(error))
    if finding is not None:
        yield finding
