"""A data directory as it lies on disk: read without a lock, whoever has it open, and never changed.

What may be read ends at the confirmed offset of the checkpoint; below it no byte changes any more. Only retention takes something away, a
whole segment at a time: then the reader says so, and reading can begin anew.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.format.limits import LARGEST_RECORD, STORED_LIMITS
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import READ_ONLY
from litemq.storage.log.checkpoint import Checkpoint, read_checkpoint
from litemq.storage.log.epochs import read_epochs
from litemq.storage.log.reader import read_log
from litemq.storage.log.segment import Segment, segment_path, segment_starts
from litemq.storage.projections.replay import controls_of, read_snapshot
from litemq.storage.state import State
from litemq.storage.state.persistence.topics_file import ToldTopic, ToldTopics, read_topics

__all__ = ["DirectoryReader", "check_data_directory", "fitting_config"]


def check_data_directory(directory: Path) -> None:
    """Raise unless there is a log."""
    if not directory.exists():
        raise InvalidArgumentError(f"{directory} does not exist")
    if not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is a file: name the data directory that it belongs to")
    if not (directory / "commitlog").is_dir():
        within = f". {directory / 'broker'} is one: name that" if (directory / "broker" / "commitlog").is_dir() else ""
        raise InvalidArgumentError(f"{directory} is no data directory: it has no commitlog{within}")


def fitting_config(directory: Path, config: StoreConfig) -> StoreConfig:
    """The settings, with segments as the directory already has them, and records as large as these can take.

    A message may be larger than what producers may send today: it may have been sent under another limit, or have been compressed then.
    """
    starts = segment_starts(directory / "commitlog") if (directory / "commitlog").is_dir() else []
    segment_bytes = config.segment_bytes
    if len(starts) > 1:
        segment_bytes = starts[1] - starts[0]
    elif starts:
        segment_bytes = segment_path(directory / "commitlog", starts[0]).stat().st_size or segment_bytes
    own_records = STORED_LIMITS.max_record_bytes - LARGEST_RECORD
    return replace(config, segment_bytes=segment_bytes, max_record_bytes=min(LARGEST_RECORD, segment_bytes - own_records))


class DirectoryReader:
    """The log of a data directory up to what was confirmed when this was made, and what else is needed to understand its records."""

    def __init__(self, directory: Path) -> None:
        check_data_directory(directory)
        self._directory = directory
        try:
            # In this order: whatever the checkpoint knows of was written before it.
            self._checkpoint = self._read_checkpoint()
            self._epochs = {epoch.number: epoch.host for epoch in read_epochs(directory / "epochs")}
            # What retention has given up is not read any more, though it may still be there.
            self._starts = [start for start in segment_starts(directory / "commitlog") if start >= self._checkpoint.log_start]
        except FileNotFoundError as error:
            raise CorruptStoreError(str(error.filename), 0, "the file is missing") from None
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {error.filename}: {error.strerror}") from error
        if self.confirmed > 0 and (not self._starts or self._starts[0] > self.confirmed):
            raise CorruptStoreError(str(directory / "commitlog"), self.confirmed, "the log is gone up to here, and it was confirmed")
        self._segment: Segment | None = None

    def _read_checkpoint(self) -> Checkpoint:
        path = self._directory / "checkpoint"
        found = read_checkpoint(path)
        if found is None:
            raise CorruptStoreError(str(path), 0, "neither slot is whole, so nothing is known to be confirmed")
        return found

    @property
    def start(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self._starts[0] if self._starts else self.confirmed

    @property
    def confirmed(self) -> int:
        """Everything below it may be read."""
        return self._checkpoint.confirmed

    @property
    def segment_starts(self) -> list[int]:
        """Where the segments begin that may be read: each with a record."""
        return self._starts

    @property
    def path(self) -> Path:
        """The directory."""
        return self._directory

    def host(self, epoch: int) -> str:
        """Who wrote the records of an epoch."""
        if epoch not in self._epochs:
            raise CorruptStoreError(str(self._directory / "epochs"), 0, f"it has no entry for epoch {epoch}")
        return self._epochs[epoch]

    def segment_of(self, offset: int) -> Segment:
        """The segment that holds an offset. Only one is held open: a segment that retention takes gives its space back soon."""
        if self._segment is None or not self._segment.start <= offset < self._segment.end:
            self._segment = self._open(offset)
        return self._segment

    def read(self, begin: int, end: int) -> bytes:
        """Bytes of one segment."""
        return self.segment_of(begin).read(begin, end)

    def _open(self, offset: int) -> Segment:
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            raise CorruptStoreError(str(self._directory / "commitlog"), offset, "the segment is missing")
        path = segment_path(self._directory / "commitlog", self._starts[at])
        try:
            file = READ_ONLY.open(path)
        except FileNotFoundError:
            raise StorageError(f"{path} is gone: retention took it while it was being read; begin again") from None
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {path}: {error.strerror}") from error
        segment = Segment(file, self._starts[at], file.size)
        if offset >= segment.end:
            raise CorruptStoreError(str(path), file.size, f"the log ends here, and {self.confirmed} was confirmed")
        return segment

    def topics(self) -> ToldTopics:
        """The broker's name, and the topics that there are now: what ``topics.json`` says, and the records since."""
        told = read_topics(self._directory / "topics.json")
        if told is None:
            facts = self.state().topics.values()
            return ToldTopics("", {one.topic_id: ToldTopic(one.name, one.queues) for one in facts if not one.deleted})
        topics = dict(told.topics)
        for window in read_log(self, max(self._checkpoint.state_applied, self.start), self.confirmed, verify_crc=False):
            for _, control in controls_of(window.columns):
                if control.HasField("topic_created"):
                    topic = control.topic_created.topic
                    topics[topic.topic_id] = ToldTopic(topic.name, topic.queues)
                elif control.HasField("topic_deleted"):
                    topics.pop(control.topic_deleted.topic_id, None)
        return ToldTopics(told.broker, topics)

    def state(self) -> State:
        """The topics, and each queue's least offset: the latest snapshot, and what was changed since. How far the queues go is not in it."""
        state, begin = self._read_snapshot()
        for window in read_log(self, max(begin, self.start), self.confirmed, verify_crc=False):
            for _, control in controls_of(window.columns):
                state.apply(control)
        return state

    def _read_snapshot(self) -> tuple[State, int]:
        begin = self._checkpoint.snapshot
        if begin < 0:
            if self.start > 0:
                raise CorruptStoreError(str(self._directory / "checkpoint"), 0, "the log's beginning is gone, and no snapshot is known")
            return State(), 0
        return read_snapshot(self, begin, self.confirmed)
