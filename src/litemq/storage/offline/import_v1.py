"""A file of version 1 records into a data directory, each message into the queue that its record names.

The whole file is checked before the first message is appended, and a message that cannot become one here is an error with its byte, never
left out. What the producer wrote is kept. Where and when the message was stored (``queue_offset``, ``commitlog_offset``,
``store_timestamp``, ``store_host``) is said anew, as for every message that is appended; times and number of consumptions were those of
another store's consumers, and stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import DiskFullError, InvalidArgumentError, StoreFailedError
from litemq.format.batches.check import explain, find_faults
from litemq.format.limits import RecordLimits
from litemq.format.record import Stage
from litemq.format.v1.columns import RecordColumnsV1
from litemq.format.v1.convert import upgrade
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.offline.directory_reader import fitting_config
from litemq.storage.offline.file_v1 import read_file_v1
from litemq.types import MessageStatus, MessageType, check_name

__all__ = ["Imported", "import_messages"]

Longs = npt.NDArray[np.int64]

_MOST_QUEUES: Final = 65536


class Imported(NamedTuple):
    """What was appended."""

    messages: int
    topics: int
    bytes: int


class _Batch(NamedTuple):
    """Consecutive records of one topic, as a producer would send them, and at which bytes of the file they begin and end."""

    topic: str
    records: bytearray
    queue_ids: Longs
    starts: Longs
    end: int


class _LastQueue(NamedTuple):
    """The highest queue that a topic's records name, and the byte of the first that names it."""

    queue_id: int
    position: int


def import_messages(
    file: Path,
    directory: Path,
    clock: Clock,
    *,
    queues: int = 4,
    config: StoreConfig | None = None,
    disk: Disk = DISK,
    host: str | None = None,
    after_batch: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Imported:
    """Append the messages of a file to a data directory, which is made where it is missing, and wait until they are safe.

    Topics that are missing are created, with ``queues`` queues or as many as the records name. ``config`` is for a directory that is made;
    one that is there keeps the size of its segments. ``after_batch`` is told the step, the bytes that are done, and of how many.
    """
    if not 1 <= queues <= _MOST_QUEUES:
        raise InvalidArgumentError(f"queues={queues}: choose 1 … {_MOST_QUEUES}")
    fitting = fitting_config(directory, config or StoreConfig())
    source = _Source(file, clock.wall_ms(), fitting.sent_limits)
    last_queues: dict[str, _LastQueue] = {}
    size = 0
    for batch in source.batches():
        at = int(batch.queue_ids.argmax())
        last = _LastQueue(int(batch.queue_ids[at]), int(batch.starts[at]))
        last_queues[batch.topic] = max(last_queues.get(batch.topic, last), last, key=lambda one: one.queue_id)
        size = batch.end
        after_batch("check", size, source.size)
    store = DiskStore(directory, fitting, clock, disk=disk, host=host)
    try:
        topic_ids = {topic: _topic_for(store, topic, queues, last, file) for topic, last in last_queues.items()}
        messages = _append(store, source, topic_ids, after_batch)
    except BaseException:
        store.abandon()  # an interrupt may have come in the middle of an append: the next opening finds out from the log how far it got
        raise
    return Imported(messages, len(topic_ids), size)


def _topic_for(store: DiskStore, topic: str, queues: int, last: _LastQueue, file: Path) -> int:
    facts = store.create_topic(topic, max(queues, last.queue_id + 1))
    if facts.queues <= last.queue_id:
        names = f"the record at byte {last.position} of {file} names queue {last.queue_id}"
        raise InvalidArgumentError(f"topic {topic!r} is there already and has {facts.queues} queues, but {names}: choose another directory")
    return facts.topic_id


def _append(store: DiskStore, source: _Source, topic_ids: dict[str, int], after_batch: Callable[[str, int, int], None]) -> int:
    """Append everything and close the store; returns how many messages that were."""
    messages = done = end = 0
    try:
        for batch in source.batches():
            end = store.append(batch.records, topic_ids[batch.topic], batch.queue_ids).end
            messages += batch.starts.size
            done = batch.end
            after_batch("import", done, source.size)
        store.wait_confirmed(end)
        store.close()
    except (DiskFullError, StoreFailedError) as error:
        # Who begins again must know what is there already.
        raise type(error)(f"{error}; the first {messages} messages of {source.file}, those before byte {done}, were appended") from error
    return messages


class _Source:
    """The file: read as often as needed, and checked whenever it is read."""

    def __init__(self, file: Path, now_ms: int, limits: RecordLimits) -> None:
        if not file.is_file():
            raise InvalidArgumentError(f"cannot read {file}: it is {'no file' if file.exists() else 'not there'}")
        self.file = file
        self.size = file.stat().st_size
        self._now_ms = now_ms
        self._limits = limits

    def batches(self) -> Iterator[_Batch]:
        """All records of the file, in its order, none before everything about it was checked."""
        for base, columns in read_file_v1(self.file, self.size):
            self._refuse_unfit(base, columns)
            upgraded = upgrade(columns)
            faults = find_faults(upgraded, stage=Stage.SENT, limits=self._limits)
            if faults.size:
                error = explain(upgraded.buffer, int(upgraded.starts[faults[0]]), stage=Stage.SENT, limits=self._limits)
                raise self._unfit(base + int(columns.starts[faults[0]]), f"{error.problem} ({error.detail})")
            view = columns.data.data
            topics = [bytes(view[p : p + n]) for p, n in zip(*(part.tolist() for part in columns.topic), strict=True)]
            changes = [number for number in range(1, len(topics)) if topics[number] != topics[number - 1]]
            cuts = np.append(upgraded.starts, len(upgraded.buffer))
            ends = columns.starts + columns.sizes
            for first, behind in pairwise([0, *changes, len(topics)]):
                yield _Batch(
                    self._topic(topics[first], base + int(columns.starts[first])),
                    bytearray(memoryview(upgraded.buffer)[int(cuts[first]) : int(cuts[behind])]),
                    columns.place["queue_id"][first:behind].astype(np.int64),
                    columns.starts[first:behind] + base,
                    base + int(ends[behind - 1]),
                )

    def _topic(self, name: bytes, position: int) -> str:
        try:
            return check_name(name.decode())
        except InvalidArgumentError as error:
            raise self._unfit(position, str(error)) from None

    def _refuse_unfit(self, base: int, columns: RecordColumnsV1) -> None:
        """Raise for the first record that is sound, but would be another message here."""
        meaning, queue_ids = columns.meaning, columns.place["queue_id"]
        half = (columns.status == MessageStatus.PREPARED) | (columns.status == MessageStatus.ROLLBACK)
        told_twice = (columns.broadcast != 0) != (meaning["type"] == MessageType.BROADCAST)
        rules = (
            (half, "its transaction was not committed, so it is no message yet"),
            (told_twice, "its broadcast flag and its type disagree, and only the type would be kept"),
            (meaning["delay_time"] > self._now_ms, "it is not due yet, and would be delivered at once: import it when it is due"),
            (queue_ids >= _MOST_QUEUES, f"a topic has at most {_MOST_QUEUES} queues, the first of them 0"),
        )
        broken = [(int(marks.argmax()), reason) for marks, reason in rules if marks.any()]
        if broken:
            number, reason = min(broken)
            raise self._unfit(base + int(columns.starts[number]), reason)

    def _unfit(self, position: int, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.file}: the record at byte {position} cannot be imported: {reason}")
