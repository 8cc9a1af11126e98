"""Planning of a log read: the driver cuts each log into parts, reading only a few bytes of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from litemq.errors import InvalidArgumentError
from litemq.format.record import MAGIC
from litemq.format.v1.record import MAGIC_V1
from litemq.spark.log.options import LogOptions
from litemq.spark.log.reading import LogPart
from litemq.spark.log.splits import part_bytes, split_file_v1, split_log, within_times
from litemq.spark.options import nearest
from litemq.storage.offline.directory_reader import DirectoryReader
from litemq.storage.offline.record_boundaries import RecordBoundaries
from litemq.storage.state.topics import SYSTEM_TOPICS
from litemq.types import is_system_name

__all__ = ["plan_parts"]

_MAGIC_AT: Final = slice(4, 8)
_STORE_TIMESTAMP_AT: Final = 32


def plan_parts(options: LogOptions) -> list[LogPart]:
    """Return the parts of all logs, in the order of the paths."""
    logs = [_open(path, options) for path in options.found_paths()]
    _check_topics(options, logs)
    size = part_bytes(sum(log.size for log in logs), options.max_partition_bytes, options.min_partitions)
    return [part for log in logs for part in log.parts(size)]


class _Log(Protocol):
    @property
    def size(self) -> int: ...

    @property
    def topics(self) -> Iterable[str] | None: ...

    def parts(self, size: int) -> list[LogPart]: ...


def _open(path: Path, options: LogOptions) -> _Log:
    if not path.is_file():
        return _Directory(path, options)
    with path.open("rb") as file:
        magic = int.from_bytes(file.read(8)[_MAGIC_AT], "big")
    if magic == MAGIC:
        raise InvalidArgumentError(f"{path} is a log segment: give the data directory that it belongs to")
    if magic != MAGIC_V1 and path.stat().st_size:
        raise InvalidArgumentError(
            f"{path} is not a file of version 1: it begins with 0x{magic:08X}, not with a record"
        )
    return _FileV1(path, options.broker)


def _check_topics(options: LogOptions, logs: list[_Log]) -> None:
    """Raise if a requested topic is in none of the logs.

    A file of version 1 does not list its topics.
    """
    existing: set[str] = set()
    for log in logs:
        if log.topics is None:
            return
        existing |= set(log.topics)
    for topic in options.topics:
        if topic in existing:
            continue
        if is_system_name(topic) and not options.include_system:
            raise InvalidArgumentError(f"topic {topic!r} is a system topic: set includeSystem to true to read it")
        users = sorted(name for name in existing if not is_system_name(name))
        raise InvalidArgumentError(
            f"no topic {topic!r} in {', '.join(options.paths)}.{nearest(topic, existing)} "
            f"Topics: {', '.join(users[:20]) or 'none'}"
        )


class _FileV1(NamedTuple):
    """A file of version 1, as ``litemq store export`` writes it."""

    path: Path
    broker: str | None
    topics: None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def parts(self, size: int) -> list[LogPart]:
        return [LogPart(str(self.path), 1, piece, self.broker) for piece in split_file_v1(self.path, size)]


class _Directory:
    """A data directory, up to the confirmed offset at construction."""

    def __init__(self, path: Path, options: LogOptions) -> None:
        self._log = DirectoryReader(path)
        topics_file = self._log.topics()
        self._broker = options.broker if options.broker is not None else topics_file.broker or None
        ids = {topic.name: number for number, topic in topics_file.topics.items()}
        if options.include_system:
            ids |= {topic.name: topic.topic_id for topic in SYSTEM_TOPICS}
        else:
            ids = {name: number for name, number in ids.items() if not is_system_name(name)}
        self.topics = list(ids)
        self._topic_ids = frozenset(
            number for name, number in ids.items() if not options.topics or name in options.topics
        )
        self._range = within_times(
            self._log.segment_starts, self._log.confirmed, self._first_stored, options.after_ms, options.before_ms
        )

    @property
    def size(self) -> int:
        return self._range.end - self._range.begin

    def parts(self, size: int) -> list[LogPart]:
        pieces = split_log(self._range, size, self._record_boundary) if self._topic_ids else []
        return [LogPart(str(self._log.path.resolve()), 2, piece, self._broker, self._topic_ids) for piece in pieces]

    def _first_stored(self, start: int) -> int | None:
        """Return the store time (ms) of a segment's first confirmed record, or ``None``."""
        if start >= self._log.confirmed:
            return None
        return int.from_bytes(
            self._log.read(start + _STORE_TIMESTAMP_AT, start + _STORE_TIMESTAMP_AT + 8), "big", signed=True
        )

    def _record_boundary(self, begin: int, end: int) -> int | None:
        starts = self._log.segment_starts
        at = bisect_left(starts, begin)
        segment = starts[at] if at < len(starts) and starts[at] < end else None
        found = self._record_boundaries.first_between(begin, end if segment is None else segment)
        return found if found is not None else segment

    @cached_property
    def _record_boundaries(self) -> RecordBoundaries:
        return RecordBoundaries(self._log)
