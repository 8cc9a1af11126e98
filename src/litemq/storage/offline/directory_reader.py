"""A read-only view of a data directory, which a broker may have open. Takes no lock.

Reads end at the checkpoint's confirmed offset; no byte below it changes. If retention removes a
segment during a read, the reader raises, and the caller starts again.
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
from litemq.storage.log.log_directory import refuse_incomplete_copy
from litemq.storage.log.reader import read_log
from litemq.storage.log.segment import Segment, segment_path, segment_starts
from litemq.storage.projections.replay import decode_controls, read_snapshot
from litemq.storage.state import State
from litemq.storage.state.persistence.topics_file import ListedTopic, TopicList, read_topics

__all__ = ["DirectoryReader", "adapt_config", "check_data_directory"]


def check_data_directory(directory: Path) -> None:
    """Raise ``InvalidArgumentError`` unless ``directory`` has a log, and all of it."""
    if not directory.exists():
        raise InvalidArgumentError(f"{directory} does not exist")
    if not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is a file: pass its data directory")
    if not (directory / "commitlog").is_dir():
        broker = directory / "broker"
        hint = f". Pass {broker}, which is one" if (broker / "commitlog").is_dir() else ""
        raise InvalidArgumentError(f"{directory} is not a data directory: it has no commitlog{hint}")
    refuse_incomplete_copy(directory)


def adapt_config(directory: Path, config: StoreConfig) -> StoreConfig:
    """Return ``config`` with the directory's segment size, and the largest records that fit it.

    A stored message may exceed the producers' limit: it may have been sent under another limit, or
    compressed.
    """
    starts = segment_starts(directory / "commitlog") if (directory / "commitlog").is_dir() else []
    segment_bytes = config.segment_bytes
    if len(starts) > 1:
        segment_bytes = starts[1] - starts[0]
    elif starts:
        segment_bytes = segment_path(directory / "commitlog", starts[0]).stat().st_size or segment_bytes
    elif (directory / "checkpoint").exists():
        checkpoint = read_checkpoint(directory / "checkpoint")
        segment_bytes = (checkpoint.segment_bytes if checkpoint is not None else 0) or segment_bytes
    own_records = STORED_LIMITS.max_record_bytes - LARGEST_RECORD
    max_record_bytes = min(LARGEST_RECORD, segment_bytes - own_records)
    return replace(config, segment_bytes=segment_bytes, max_record_bytes=max_record_bytes)


class DirectoryReader:
    """The log of a data directory up to its confirmed offset, and its topics and epochs."""

    def __init__(self, directory: Path) -> None:
        check_data_directory(directory)
        self._directory = directory
        try:
            # The checkpoint first: everything that it refers to was written before it.
            self._checkpoint = self._read_checkpoint()
            self._epochs = {epoch.number: epoch.host for epoch in read_epochs(directory / "epochs")}
            # Segments before log_start are given up by retention, even if they still exist.
            starts = segment_starts(directory / "commitlog")
            self._starts = [start for start in starts if start >= self._checkpoint.log_start]
        except FileNotFoundError as error:
            raise CorruptStoreError(str(error.filename), 0, "the file is missing") from None
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {error.filename}: {error.strerror}") from error
        if self.confirmed > 0 and (not self._starts or self._starts[0] > self.confirmed):
            reason = f"the log is missing up to its confirmed offset {self.confirmed}"
            raise CorruptStoreError(str(directory / "commitlog"), self.confirmed, reason)
        self._segment: Segment | None = None

    def _read_checkpoint(self) -> Checkpoint:
        path = self._directory / "checkpoint"
        found = read_checkpoint(path)
        if found is None:
            raise CorruptStoreError(str(path), 0, "neither slot is valid, so the confirmed offset is unknown")
        return found

    @property
    def start(self) -> int:
        """The offset of the oldest retained byte."""
        return self._starts[0] if self._starts else self.confirmed

    @property
    def confirmed(self) -> int:
        """The offset below which everything may be read."""
        return self._checkpoint.confirmed

    @property
    def segment_starts(self) -> list[int]:
        """The start offsets of the readable segments."""
        return self._starts

    @property
    def path(self) -> Path:
        """The data directory."""
        return self._directory

    def host(self, epoch: int) -> str:
        """Return the host that wrote the records of ``epoch``."""
        if epoch not in self._epochs:
            raise CorruptStoreError(str(self._directory / "epochs"), 0, f"the file has no entry for epoch {epoch}")
        return self._epochs[epoch]

    def segment_of(self, offset: int) -> Segment:
        """Return the segment that contains ``offset``.

        Only one is kept open, so that the space of a removed segment is freed soon.
        """
        if self._segment is None or not self._segment.start <= offset < self._segment.end:
            self._segment = self._open(offset)
        return self._segment

    def read(self, begin: int, end: int) -> bytes:
        """Read bytes of one segment."""
        return self.segment_of(begin).read(begin, end)

    def _open(self, offset: int) -> Segment:
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            raise CorruptStoreError(str(self._directory / "commitlog"), offset, "the segment is missing")
        path = segment_path(self._directory / "commitlog", self._starts[at])
        try:
            file = READ_ONLY.open(path)
        except FileNotFoundError:
            raise StorageError(f"retention removed {path} during the read: start again") from None
        except OSError as error:
            raise InvalidArgumentError(f"cannot read {path}: {error.strerror}") from error
        segment = Segment(file, self._starts[at], file.size)
        if offset >= segment.end:
            raise CorruptStoreError(str(path), file.size, f"the log ends here, but {self.confirmed} was confirmed")
        return segment

    def topics(self) -> TopicList:
        """Read the broker's name and the current topics: ``topics.json``, and the records since."""
        listed = read_topics(self._directory / "topics.json")
        if listed is None:
            facts = self.state().topics.values()
            return TopicList("", {one.topic_id: ListedTopic(one.name, one.queues) for one in facts if not one.deleted})
        topics = dict(listed.topics)
        for window in read_log(self, max(self._checkpoint.state_applied, self.start), self.confirmed, verify_crc=False):
            for _, control in decode_controls(window.columns):
                if control.HasField("topic_created"):
                    topic = control.topic_created.topic
                    topics[topic.topic_id] = ListedTopic(topic.name, topic.queues)
                elif control.HasField("topic_deleted"):
                    topics.pop(control.topic_deleted.topic_id, None)
        return TopicList(listed.broker, topics)

    def state(self) -> State:
        """Read the topics and queues' start offsets: the latest snapshot, and the changes since.

        The end offsets of the queues are not up to date.
        """
        state, begin = self._read_snapshot()
        for window in read_log(self, max(begin, self.start), self.confirmed, verify_crc=False):
            for _, control in decode_controls(window.columns):
                state.apply(control)
        return state

    def _read_snapshot(self) -> tuple[State, int]:
        begin = self._checkpoint.snapshot
        if begin < 0:
            if self.start > 0:
                reason = "the beginning of the log is missing, and the checkpoint has no snapshot"
                raise CorruptStoreError(str(self._directory / "checkpoint"), 0, reason)
            return State(), 0
        return read_snapshot(self, begin, self.confirmed)
