"""Import of a file of version 1 records into the queues of a data directory.

The import checks the whole file before it appends the first message. A message that cannot be
imported is an error with its position; none is skipped. The producer's fields are kept. The store
sets ``queue_offset``, ``commitlog_offset``, ``store_timestamp`` and ``store_host`` as for every
append. Times and numbers of consumptions are dropped.
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
from litemq.storage.offline.directory_reader import adapt_config
from litemq.storage.offline.file_v1 import read_file_v1
from litemq.types import MessageStatus, MessageType, check_name

__all__ = ["Imported", "import_messages"]

Longs = npt.NDArray[np.int64]

_MAX_QUEUES: Final = 65536


class Imported(NamedTuple):
    """The totals of an import."""

    messages: int
    topics: int
    bytes: int


class _Batch(NamedTuple):
    """Consecutive records of one topic, as sent records, with their positions in the file."""

    topic: str
    records: bytearray
    queue_ids: Longs
    starts: Longs
    end: int


class _LastQueue(NamedTuple):
    """The highest queue id in a topic's records, and the position of the first record with it."""

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
    on_progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Imported:
    """Append the messages of a file to a data directory, and wait until they are durable.

    Create the directory with ``config`` if it is missing; an existing one keeps its segment size.
    Create missing topics with ``queues`` queues, or as many as the records name. Report progress
    with ``on_progress(step, done, total)``, in bytes of the file.
    """
    if not 1 <= queues <= _MAX_QUEUES:
        raise InvalidArgumentError(f"queues={queues}: choose 1 … {_MAX_QUEUES}")
    fitting = adapt_config(directory, config or StoreConfig())
    source = _Source(file, clock.wall_ms(), fitting.sent_limits)
    last_queues: dict[str, _LastQueue] = {}
    size = 0
    for batch in source.batches():
        at = int(batch.queue_ids.argmax())
        last = _LastQueue(int(batch.queue_ids[at]), int(batch.starts[at]))
        last_queues[batch.topic] = max(last_queues.get(batch.topic, last), last, key=lambda one: one.queue_id)
        size = batch.end
        on_progress("check", size, source.size)
    store = DiskStore(directory, fitting, clock, disk=disk, host=host)
    try:
        topic_ids = {topic: _topic_for(store, topic, queues, last, file) for topic, last in last_queues.items()}
        messages = _append(store, source, topic_ids, on_progress)
    except BaseException:
        store.abandon()  # an interrupt may have cut an append short: the next opening recovers
        raise
    return Imported(messages, len(topic_ids), size)


def _topic_for(store: DiskStore, topic: str, queues: int, last: _LastQueue, file: Path) -> int:
    facts = store.create_topic(topic, max(queues, last.queue_id + 1))
    if facts.queues <= last.queue_id:
        names = f"the record at byte {last.position} of {file} is for queue {last.queue_id}"
        raise InvalidArgumentError(f"topic {topic!r} has {facts.queues} queues, but {names}: choose another directory")
    return facts.topic_id


def _append(
    store: DiskStore, source: _Source, topic_ids: dict[str, int], on_progress: Callable[[str, int, int], None]
) -> int:
    """Append all messages and close the store; return their number."""
    messages = done = end = 0
    try:
        for batch in source.batches():
            end = store.append(batch.records, topic_ids[batch.topic], batch.queue_ids).end
            messages += batch.starts.size
            done = batch.end
            on_progress("import", done, source.size)
        store.wait_confirmed(end)
        store.close()
    except (DiskFullError, StoreFailedError) as error:
        # To resume, the user must know which messages were imported.
        raise type(error)(
            f"{error}; the first {messages} messages of {source.file}, those before byte {done}, were appended"
        ) from error
    return messages


class _Source:
    """The file to import. Every reading checks it."""

    def __init__(self, file: Path, now_ms: int, limits: RecordLimits) -> None:
        if not file.is_file():
            problem = "is not a regular file" if file.exists() else "does not exist"
            raise InvalidArgumentError(f"cannot read {file}: it {problem}")
        self.file = file
        self.size = file.stat().st_size
        self._now_ms = now_ms
        self._limits = limits

    def batches(self) -> Iterator[_Batch]:
        """Yield the records of the file in order, each after it has been checked."""
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
            for first, after in pairwise([0, *changes, len(topics)]):
                yield _Batch(
                    self._topic(topics[first], base + int(columns.starts[first])),
                    bytearray(memoryview(upgraded.buffer)[int(cuts[first]) : int(cuts[after])]),
                    columns.stored["queue_id"][first:after].astype(np.int64),
                    columns.starts[first:after] + base,
                    base + int(ends[after - 1]),
                )

    def _topic(self, name: bytes, position: int) -> str:
        try:
            return check_name(name.decode())
        except InvalidArgumentError as error:
            raise self._unfit(position, str(error)) from None

    def _refuse_unfit(self, base: int, columns: RecordColumnsV1) -> None:
        """Raise for the first valid record that would become another message in this store."""
        attributes, queue_ids = columns.attributes, columns.stored["queue_id"]
        half = (columns.status == MessageStatus.PREPARED) | (columns.status == MessageStatus.ROLLBACK)
        contradictory = (columns.broadcast != 0) != (attributes["type"] == MessageType.BROADCAST)
        rules = (
            (half, "its transaction is not committed"),
            (contradictory, "its broadcast flag and its type disagree"),
            (attributes["delay_time"] > self._now_ms, "it is not due yet: import it after its delay time"),
            (queue_ids >= _MAX_QUEUES, f"its queue id is too high: a topic has at most {_MAX_QUEUES} queues"),
        )
        broken = [(int(marks.argmax()), reason) for marks, reason in rules if marks.any()]
        if broken:
            number, reason = min(broken)
            raise self._unfit(base + int(columns.starts[number]), reason)

    def _unfit(self, position: int, reason: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.file}: the record at byte {position} cannot be imported: {reason}")
