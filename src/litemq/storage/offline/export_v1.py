"""The messages of a data directory as records of version 1, one behind another in a file.

Exported is what a consumer could read: the messages in topics that users made and have not deleted, from each queue's least offset to the
confirmed offset, in the order of the log. Three fields are the export's to fill in:

- ``commitlog_offset`` is where the record stands in the file: the file is a log of version 1 that begins at 0;
- ``store_host`` is the host that wrote the record, from the epochs;
- ``status`` is committed for what a transaction has committed, and normal for everything else.

``queue_offset`` and ``store_timestamp`` are the directory's. Times of consumption are 0: no record has them. A compressed body is
decompressed; an encrypted one cannot be told in version 1, and is refused.
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
    """What the file holds."""

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
    after_window: Callable[[int, int], None] = lambda _done, _total: None,
) -> Exported:
    """Write the messages of a data directory, or of one topic of it, to a new file. The directory is only read, whoever has it open.

    ``after_window`` is told how many bytes of the log have been read, and of how many.
    """
    if file.resolve().is_relative_to(directory.resolve()):
        raise InvalidArgumentError(f"{file} lies in {directory}, which is only read: choose another place")
    reader = DirectoryReader(directory)
    state = reader.state()
    wanted = _Wanted(state, _chosen_topics(state, directory, topic))
    messages = 0
    topics: set[int] = set()
    with new_file(disk, file, overwrite=overwrite) as out:
        for window in read_log(reader, reader.start, reader.confirmed):
            chosen = wanted.among(window.columns)
            for run, bodies in _plain_bodies(reader, Window(window.base, chosen)):
                hosts = [reader.host(epoch).encode() for epoch in run.header["epoch"].tolist()]
                out.add(downgrade(run, bodies, hosts, out.size))
            messages += len(chosen)
            topics.update(chosen.header["topic_id"].tolist())
            after_window(window.base + len(window.columns.buffer) - reader.start, reader.confirmed - reader.start)
    return Exported(messages, len(topics), out.size)


def _chosen_topics(state: State, directory: Path, topic: str | None) -> list[int]:
    """The numbers of the topics whose messages are exported."""
    there = {facts.name: number for number, facts in state.topics.items() if not facts.deleted and not is_system_name(facts.name)}
    if topic is None:
        return list(there.values())
    if check_name(topic) not in there:
        raise InvalidArgumentError(f"no topic {topic!r} in {directory}: it has {', '.join(sorted(there)) or 'none'}")
    return [there[topic]]


class _Wanted:
    """Which records are exported: those of some topics that are not below their queue's least offset."""

    def __init__(self, state: State, topic_ids: list[int]) -> None:
        self._topic_ids = np.array(topic_ids, np.int64)
        cut = sorted((key.topic_id << 32 | key.queue_id, least) for key, least in state.least.items() if least > 0)
        self._cut_queues = np.array([queue for queue, _ in cut], np.int64)
        self._least = np.array([least for _, least in cut], np.int64)

    def among(self, columns: RecordColumns) -> RecordColumns:
        topic_ids = columns.header["topic_id"].astype(np.int64)
        marks = np.isin(topic_ids, self._topic_ids)
        if self._cut_queues.size:
            queues = topic_ids << 32 | columns.header["queue_id"].astype(np.int64)
            at = np.minimum(np.searchsorted(self._cut_queues, queues), self._cut_queues.size - 1)
            marks &= (self._cut_queues[at] != queues) | (columns.header["queue_offset"] >= self._least[at])
        return columns.subset(np.flatnonzero(marks))


def _plain_bodies(reader: DirectoryReader, window: Window) -> Iterator[tuple[RecordColumns, list[bytes]]]:
    """The records in runs whose bodies do not grow much beyond a bound, however small they came, and these bodies, plain."""
    columns = window.columns
    data = bytes(columns.buffer)
    begins, lengths = (numbers.tolist() for numbers in columns.part("body"))
    flags, sizes = columns.header["flags"].tolist(), columns.header["size"].tolist()
    bodies: list[bytes] = []
    first = grown = 0
    for number in range(len(columns)):
        body = data[begins[number] : begins[number] + lengths[number]]
        try:
            # No larger than what a record of version 2 could hold, so that it can be imported again.
            bodies.append(_plain(body, flags[number], max_bytes=LARGEST_RECORD - sizes[number] + len(body)))
        except (BodyCodecError, InvalidArgumentError) as error:
            segment = reader.segment_of(window.base)
            place = window.base + int(columns.starts[number]) - segment.start
            raise InvalidArgumentError(f"{segment.file.path}, byte {place}: version 1 cannot tell this message: {error}") from error
        grown += len(bodies[-1])
        if grown >= _PLAIN_BYTES or number == len(columns) - 1:
            yield columns.subset(np.arange(first, number + 1)), bodies
            bodies = []
            first, grown = number + 1, 0


def _plain(body: bytes, flags: int, *, max_bytes: int) -> bytes:
    if flags & _ENCRYPTED:
        raise InvalidArgumentError("its body is encrypted")
    return decompress(body, BodyCodec(flags), max_bytes=max_bytes)
