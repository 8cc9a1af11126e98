"""The ``Store`` interface, which the disk store and the memory store implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import LiteMQError
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import Placed
from litemq.storage.batches.half_batches import DecidedHalves
from litemq.storage.log.flush import OnFlushed
from litemq.storage.state import NO_SETTINGS, QueueKey, State, Topic, TopicSettings
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import TimerStore
from litemq.types import StoredRecord

__all__ = ["MAX_SENDS", "Appended", "Decide", "DecidedHalves", "Placed", "QueueReads", "Sent", "Store"]

Longs = npt.NDArray[np.int64]
MAX_SENDS: Final = 256  # records of ``append_sends``; more are worth arrays
# Chooses the transactions of a batch that count, by partition and attempt.
Decide = Callable[[State], Mapping[tuple[int, int], str]]


class Sent(NamedTuple):
    """The queue offset of each record that ``append_sends`` has appended.

    The records are durable and readable once ``end`` is confirmed.
    """

    queue_offsets: list[int]
    store_timestamp: int
    end: int


class Appended(NamedTuple):
    """The offsets of an appended batch. It is durable and readable once ``end`` is confirmed."""

    log_offsets: Longs
    queue_offsets: Longs
    store_timestamp: int
    end: int

    @property
    def sent(self) -> Sent:
        """The same without arrays."""
        return Sent(self.queue_offsets.tolist(), self.store_timestamp, self.end)


class QueueReads(Protocol):
    """Reads of queues, up to the first record that may not be read yet."""

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Read raw records of a queue from offset ``first`` on: at least one if readable.

        Empty if the queue has no readable record there yet. It may wait for the disk.
        """

    def readable_end(self, key: QueueKey) -> int:
        """Return the offset of the queue's first message that may not be read yet.

        Only for the writing thread.
        """

    def read_if_hot(
        self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20
    ) -> bytes | memoryview | None:
        """Read records as ``read_queue`` does if the first is in memory; else return ``None``."""

    async def pull(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Read records as ``read_queue`` does. The event loop never waits for the disk."""

    def read_entries(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void]:
        """Read up to ``limit`` entries of a queue from offset ``first`` on, of readable records.

        It may wait for the disk.
        """

    def read_entries_if_hot(self, key: QueueKey, first: int, limit: int) -> npt.NDArray[np.void] | None:
        """Read entries as ``read_entries`` does if the first is in memory; else return ``None``."""

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview:
        """Read the records of ``entries``, which have the rising ``queue_offsets`` in their queue.

        If a record is damaged, return the records before it. It may wait for the disk.
        """

    def is_hot(self, log_offset: int) -> bool:
        """Whether the record at ``log_offset`` is in memory."""


class Store(QueueReads, Protocol):
    """A log and its projections. Its own reads end at the confirm offset.

    Calls may come from any thread unless they say otherwise. Calls that may wait for the disk say
    so; the event loop must not make them.
    """

    @property
    def state(self) -> State:
        """Topics, queues, offsets and producers' sequences, up to the last append. Read-only."""

    @property
    def log_end(self) -> int:
        """The log offset of the next record."""

    @property
    def confirm_offset(self) -> int:
        """The offset below which everything is durable. Reads never go beyond it."""

    @property
    def flushed_offset(self) -> int:
        """The offset below which everything is on this disk; in a replicated group, not more."""

    @property
    def log_clock(self) -> Clock:
        """The time of records, leases, retries and checks. It continues from the last record."""

    @property
    def is_replicated(self) -> bool:
        """Whether a replicated group decides what is confirmed."""

    @property
    def replica_refusal(self) -> LiteMQError | None:
        """Why records of durability ``replicas`` are refused now; ``None``: they are not."""

    @property
    def in_sync(self) -> int:
        """How many replicas have on their disks what is confirmed now; without replicas, 1."""

    @property
    def not_in_sync(self) -> str:
        """The names of the group's other replicas, for messages."""

    @property
    def lease_refusal(self) -> LiteMQError | None:
        """Why this master may not acknowledge records that it has; ``None``: it may."""

    @property
    def for_consumers(self) -> QueueReads:
        """The reads of consumers: also of received records, if their topic's visibility says so."""

    @property
    def epoch(self) -> int:
        """A number that rises whenever the log is opened."""

    @property
    def kept_from(self) -> int:
        """The log offset that retention cuts the log at: records before it go, or are gone.

        Under ``atomically``, copy a record before it if a change will refer to it.
        """

    def atomically(self) -> AbstractContextManager[object]:
        """Let no other thread append meanwhile, so that a decision and its record are one step.

        The caller must not wait for anything.
        """

    def append(
        self, batch: bytearray, topic_id: int, queue_ids: Longs | int, *, held_after: int | None = None
    ) -> Appended:
        """Validate, stamp and append the records that producers sent, in place.

        If it raises, no record is written. A message due later than ``held_after`` (ms) becomes a
        timer, and its queue offset in the answer is -1.
        """

    def append_sends(self, batch: bytearray, topic_id: int, queue_ids: list[int], *, is_wanted: bool = False) -> Sent:
        """Append up to ``MAX_SENDS`` records as ``append`` does.

        It takes the queue of each record, and uses no arrays. If the caller waits for their
        confirmation (``is_wanted``), the sync begins at once.
        """

    def append_placed(self, placed: Sequence[Placed]) -> Appended:
        """Append the broker's own records to any queues, in one write and in this order.

        A nearly full disk does not refuse them.
        """

    # Halves: records that consumers do not see until their transaction is decided.

    def append_halves(self, batch: bytearray, topic_id: int, queue_id: int, transaction: str, first: int) -> Appended:
        """Append halves of ``transaction`` for a queue.

        ``first`` is the number of halves that the transaction already has for the queue. If the
        number differs, raise ``SequenceGapError``.
        """

    def commit_sink(self, query: str, batch: int, decide: Decide, plan: bytes = b"") -> Appended:
        """Decide ``batch`` of ``query`` and all batches before it.

        Call ``decide(state)`` under the writer's lock. It returns the transactions that count, by
        partition and attempt, or raises. The decision record keeps ``plan``.
        """

    def read_decided(self, max_bytes: int) -> DecidedHalves | None:
        """Read about ``max_bytes`` of the next halves that are decided and confirmed.

        It may wait for the disk.
        """

    def append_committed(self, decided: DecidedHalves, held_after: int) -> Appended:
        """Append ``decided`` halves to their queues.

        A message due later than ``held_after`` (ms) becomes a timer. If another caller has already
        copied the halves, or their topic was deleted, raise ``InvalidArgumentError``.
        """

    def append_producers_halves(self, batch: bytearray, topic_id: int, queue_ids: Longs) -> Appended:
        """Append halves of producers' transactions to queues of a topic.

        Each record names its transaction and its number in it. The caller has checked that each
        number is the next one.
        """

    def commit_transactions(self, transactions: Sequence[str], held_after: int) -> Appended:
        """Append the messages of producers' ``transactions`` in one write.

        A message due later than ``held_after`` (ms) becomes a timer. The transactions must be
        undecided, and their halves in memory. If it raises, no record is written.
        """

    def append_control(self, control: Control) -> Appended:
        """Write ``control`` to the log, then apply it to the state."""

    def append_numbered(self, make: Callable[[int], Control]) -> Appended:
        """Append the change ``make(log_end)``. No other record is written in between."""

    def system_topic(self, name: str) -> Topic:
        """Return the system topic ``name`` (``%RETRY%…`` or ``%DLQ%…``); create it if needed."""

    def create_topic(self, name: str, queues: int = 4, settings: TopicSettings = NO_SETTINGS) -> Topic:
        """Create a topic with ``queues`` queues. If it exists, return it unchanged."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Its messages stay until retention drops their segments."""

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        """Commit the offsets of ``group`` in some queues, as one record."""

    async def expire_messages(self) -> int | None:
        """Expire the messages that are older than their topic's ``retention``.

        Return the time of the next call (ms), or ``None`` if no topic has a ``retention``.
        """

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` may be read."""

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` may be read."""

    def when_confirmed(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed(None)`` once everything below ``offset`` may be read.

        If the store fails before that, call ``on_confirmed(error)``. Only for the event loop.
        """

    def when_replicated(self, offset: int, on_confirmed: OnFlushed) -> None:
        """Call ``on_confirmed`` as ``when_confirmed`` does, or with an error if too few replicas
        are in sync.
        """

    def when_received(self, offset: int, on_received: OnFlushed) -> None:
        """Call ``on_received`` once each replica in sync has everything below ``offset`` in memory.

        If too few replicas are in sync, call it with an error.
        """

    def when_flushed(self, offset: int, on_flushed: OnFlushed) -> None:
        """Call ``on_flushed(None)`` once everything below ``offset`` is on this disk.

        If the store fails before that, call ``on_flushed(error)``. Only for the event loop.
        """

    def read_raw(self, log_offset: int) -> bytes:
        """Read the record at ``log_offset`` as verified bytes. It may wait for the disk."""

    def read_record(self, log_offset: int) -> StoredRecord:
        """Read and decode the record at ``log_offset``. It may wait for the disk."""

    def find(self, topic: str, key: str, limit: int = 32, *, anywhere: bool = False) -> list[StoredRecord]:
        """Find up to ``limit`` messages of ``topic`` with ``key`` as key or id, the latest first.

        If ``anywhere``, also find their copies in system topics: timers and retries.
        """

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        """Return the offset of the first message stored at or after ``store_timestamp`` (ms).

        If there is none yet, return the queue's next offset.
        """

    # Timers

    @property
    def timers(self) -> TimerStore:
        """The pending timers.

        A caller that takes a timer must fire it, by a record of kind 2 with the pending record as
        its origin, or give it back.
        """

    @property
    def timer_bytes_left(self) -> int:
        """The bytes of timers that may still be added."""

    def load_timers(self, until: int) -> None:
        """Load the timers due before ``until`` (ms) into memory. It may wait for the disk."""

    def are_timers_pending(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Return a mask of the timers at log offsets ``pendings`` that have not ended.

        ``delay_times`` are the delay times of their records. It may wait for the disk.
        """

    def timers_after(self, after: tuple[int, int], until: int, limit: int) -> list[Timer]:
        """List up to ``limit`` pending timers after ``after`` (due time, log offset), in order.

        All are due before ``until`` (ms). It may wait for the disk.
        """

    def change_timers(self, decide: Callable[[], Sequence[Control]]) -> None:
        """Append the changes of timers that ``decide()`` returns. No other record is in between."""

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        """Read the records of ``timers``, not verified: the append of a record verifies it.

        It may wait for the disk.
        """

    def read_pending_if_cached(self, timers: Sequence[Timer]) -> list[bytes] | None:
        """Read records as ``read_pending`` does if all are in memory; else return ``None``."""

    def close(self) -> None:
        """Stop cleanly: the next opening has nothing to recover."""
