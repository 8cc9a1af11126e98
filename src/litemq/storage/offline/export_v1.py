"""Export of a data directory's messages to a file of version 1 records.

The export has the messages that a consumer could read, in the order of the log: those of user
topics that are not deleted, from each queue's start offset to the confirmed offset. The export sets
three fields:

- ``commitlog_offset`` is the position in the file: the file is a version 1 log that begins at 0;
- ``store_host`` is the host that wrote the record, from the epochs;
- ``status`` is committed for messages of committed transactions, and normal for all others.

``queue_offset`` and ``store_timestamp`` are kept. Times of consumption are 0: no record has them.
Compressed bodies are decompressed. Version 1 has no encrypted bodies: they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from litemq.errors import BodyCodecError, InvalidArgumentError
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.compression import decompress
from litemq.format.limits import LARGEST_RECORD
from litemq.format.v1.convert import downgrade
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.files.new_file import new_file
from litemq.storage.log.reader import Window, read_log
from litemq.storage.offline.directory_reader import DirectoryReader
from litemq.storage.state import State
from litemq.types import BodyCodec, check_name, is_system_name

__all__ = ["Exported", "export_messages"]

_ENCRYPTED: Final = 0b1000
_PLAIN_BYTES: Final = 16 << 20


class Exported(NamedTuple):
    """The totals of an export."""

    messages: int
    topics: int
    bytes: int


def export_messages(
    directory: Path,
    file: Path,
    *,
    topic: str | None = None,
    overwrite: bool = False,
    disk: Disk = DISK,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Exported:
    """Write the messages of a data directory, or of one ``topic``, to a new file.

    The directory is only read, and may be open. Report progress with ``on_progress(done, total)``,
    in bytes of the log.
    """
    if file.resolve().is_relative_to(directory.resolve()):
        raise InvalidArgumentError(f"{file} is inside {directory}, which is only read: choose another path")
    reader = DirectoryReader(directory)
    state = reader.state()
    record_filter = _RecordFilter(state, _chosen_topics(state, directory, topic))
    messages = 0
    topics: set[int] = set()
    with new_file(disk, file, overwrite=overwrite) as out:
        for window in read_log(reader, reader.start, reader.confirmed):
            chosen = record_filter.select(window.columns)
            for run, bodies in _plain_bodies(reader, Window(window.base, chosen)):
                hosts = [reader.host(epoch).encode() for epoch in run.header["epoch"].tolist()]
                out.add(downgrade(run, bodies, hosts, out.size))
            messages += len(chosen)
            topics.update(chosen.header["topic_id"].tolist())
            on_progress(window.base + len(window.columns.buffer) - reader.start, reader.confirmed - reader.start)
    return Exported(messages, len(topics), out.size)


def _chosen_topics(state: State, directory: Path, topic: str | None) -> list[int]:
    """Return the ids of the topics to export."""
    topic_ids = {
        facts.name: number
        for number, facts in state.topics.items()
        if not facts.deleted and not is_system_name(facts.name)
    }
    if topic is None:
        return list(topic_ids.values())
    if check_name(topic) not in topic_ids:
        raise InvalidArgumentError(
            f"no topic {topic!r} in {directory}: it has {', '.join(sorted(topic_ids)) or 'none'}"
        )
    return [topic_ids[topic]]


class _RecordFilter:
    """Selects the records of some topics from their queues' start offsets on."""

    def __init__(self, state: State, topic_ids: list[int]) -> None:
        self._topic_ids = np.array(topic_ids, np.int64)
        trimmed = sorted(
            (key.topic_id << 32 | key.queue_id, start) for key, start in state.start_offsets.items() if start > 0
        )
        self._trimmed_queues = np.array([queue for queue, _ in trimmed], np.int64)
        self._start_offsets = np.array([start for _, start in trimmed], np.int64)

    def select(self, columns: RecordColumns) -> RecordColumns:
        topic_ids = columns.header["topic_id"].astype(np.int64)
        marks = np.isin(topic_ids, self._topic_ids)
        if self._trimmed_queues.size:
            queues = topic_ids << 32 | columns.header["queue_id"].astype(np.int64)
            at = np.minimum(np.searchsorted(self._trimmed_queues, queues), self._trimmed_queues.size - 1)
            is_other = self._trimmed_queues[at] != queues
            marks &= is_other | (columns.header["queue_offset"] >= self._start_offsets[at])
        return columns.subset(np.flatnonzero(marks))


def _plain_bodies(reader: DirectoryReader, window: Window) -> Iterator[tuple[RecordColumns, list[bytes]]]:
    """Yield runs of records with their decompressed bodies, of limited total size."""
    columns = window.columns
    data = bytes(columns.buffer)
    begins, lengths = (numbers.tolist() for numbers in columns.part("body"))
    flags, sizes = columns.header["flags"].tolist(), columns.header["size"].tolist()
    bodies: list[bytes] = []
    first = grown = 0
    for number in range(len(columns)):
        body = data[begins[number] : begins[number] + lengths[number]]
        try:
            # No larger than the largest record of version 2, so that it can be imported again.
            bodies.append(_plain(body, flags[number], max_bytes=LARGEST_RECORD - sizes[number] + len(body)))
        except (BodyCodecError, InvalidArgumentError) as error:
            segment = reader.segment_of(window.base)
            position = window.base + int(columns.starts[number]) - segment.start
            raise InvalidArgumentError(
                f"{segment.file.path}, byte {position}: version 1 cannot represent this message: {error}"
            ) from error
        grown += len(bodies[-1])
        if grown >= _PLAIN_BYTES or number == len(columns) - 1:
            yield columns.subset(np.arange(first, number + 1)), bodies
            bodies = []
            first, grown = number + 1, 0


def _plain(body: bytes, flags: int, *, max_bytes: int) -> bytes:
    if flags & _ENCRYPTED:
        raise InvalidArgumentError("its body is encrypted")
    return decompress(body, BodyCodec(flags), max_bytes=max_bytes)
