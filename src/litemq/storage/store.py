"""What a store does, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import Placed
from litemq.storage.batches.half_batches import DecidedHalves
from litemq.storage.log.flush import Told
from litemq.storage.state import NO_SETTINGS, QueueKey, State, TopicFacts, TopicSettings
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import HeldTimers
from litemq.types import StoredRecord

__all__ = ["Appended", "Decide", "DecidedHalves", "Placed", "Store"]

Longs = npt.NDArray[np.int64]
# Which transactions of a batch count, by partition and attempt.
Decide = Callable[[State], Mapping[tuple[int, int], str]]


class Appended(NamedTuple):
    """Where a batch went. It may be read, and is safe, once ``end`` is confirmed."""

    log_offsets: Longs
    queue_offsets: Longs
    store_timestamp: int
    end: int


class Store(Protocol):
    """One log and what is derived from it."""

    @property
    def state(self) -> State:
        """Topics, queues, offsets and what producers sent, as the records that were appended so far make them. Only to be read."""

    @property
    def log_end(self) -> int:
        """Where the next record will stand."""

    @property
    def confirm_offset(self) -> int:
        """Everything below it is safe, and may be read; nothing above it may."""

    def append(self, batch: bytearray, topic_id: int, queue_ids: Longs | int, *, held_after: int | None = None) -> Appended:
        """Append what producers sent, in place: validated whole, stamped, written. Raises before anything is written, or not at all.

        What is due later than ``held_after`` (ms) becomes a timer, and has the queue offset -1 in the answer.
        """

    def append_placed(self, placed: Sequence[Placed]) -> Appended:
        """Append records of the broker's own, in any queues, as one write in this order. They are taken even where the disk is nearly full."""

    # Halves: what nobody sees until its transaction is decided.

    def append_halves(self, batch: bytearray, topic_id: int, queue_id: int, transaction: str, first: int) -> Appended:
        """Append what a producer sent for a queue, but so that nobody sees it until its transaction is decided.

        ``first`` is how many halves of the transaction are there for the queue: raises ``SequenceGapError`` where it is another number.
        """

    def commit_sink(self, query: str, batch: int, decide: Decide, plan: bytes = b"") -> Appended:
        """Decide a batch of a query, and all before it. ``decide`` is called while nobody else writes, and says which transactions count, by
        partition and attempt, or raises. ``plan`` is kept with the decision."""

    def read_decided(self, most_bytes: int) -> DecidedHalves | None:
        """About so many bytes of the next halves that are decided and safe. It may wait for the disk."""

    def append_committed(self, decided: DecidedHalves, held_after: int) -> Appended:
        """Append halves that are decided to their queues; those that are due later than ``held_after`` (ms) become timers.

        Raises ``InvalidArgumentError`` where somebody else was faster, or their topic was deleted.
        """

    def append_producers_halves(self, batch: bytearray, topic_id: int, queue_ids: Longs) -> Appended:
        """Append what producers sent to queues of a topic, but so that nobody sees it until its transactions are committed.

        Each record says which transaction it is of, and which number it has there: whoever calls has looked that it is the next.
        """

    def commit_transactions(self, transactions: Sequence[str], held_after: int) -> Appended:
        """Append the messages of producers' transactions, all in one write; those that are due later than ``held_after`` (ms) become timers.

        Only for transactions that are not decided, and whose halves are in memory. Raises before anything is written, or not at all.
        """

    def append_control(self, control: Control) -> Appended:
        """A change: in the log first, then true."""

    def append_numbered(self, make: Callable[[int], Control]) -> Appended:
        """A change that numbers what it begins: it is made while nobody else writes, of where the log ends before it."""

    def system_topic(self, name: str) -> TopicFacts:
        """A topic for the broker's own use, which is created where it is not there: ``%RETRY%…`` or ``%DLQ%…``."""

    def create_topic(self, name: str, queues: int = 4, settings: TopicSettings = NO_SETTINGS) -> TopicFacts:
        """A new topic with so many queue ids; one that is there already is returned as it is."""

    def delete_topic(self, name: str) -> None:
        """The topic is gone; its messages stay until retention takes them."""

    def commit_offsets(self, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Appended:
        """How far a group has come in some queues: one record."""

    def wait_confirmed(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` may be read."""

    async def confirmed(self, offset: int) -> None:
        """Wait until everything below ``offset`` may be read."""

    def when_confirmed(self, offset: int, told: Told) -> None:
        """On the event loop: call ``told`` with nothing once everything below ``offset`` may be read, or with why that will never be."""

    def read_queue(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """Records of a queue from offset ``first`` on, one behind another as they stand in the log: at least one if there is one.

        Nothing at all means that the queue has nothing confirmed there yet. From any thread; it may wait for the disk.
        """

    def confirmed_next(self, key: QueueKey) -> int:
        """The offset of a queue's first message that may not be read yet. On the thread that writes."""

    def read_if_hot(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview | None:
        """The same where it is in memory, so that nobody waits; else ``None``."""

    async def pull(self, key: QueueKey, first: int, max_messages: int, max_bytes: int = 1 << 20) -> bytes | memoryview:
        """The same for an event loop, which is never kept waiting by the disk."""

    def read_entries(self, key: QueueKey, first: int, most: int) -> npt.NDArray[np.void]:
        """Up to so many entries of a queue from offset ``first`` on, whose records may be read. From any thread; it may wait for the disk."""

    def read_entries_if_hot(self, key: QueueKey, first: int, most: int) -> npt.NDArray[np.void] | None:
        """The same where they are in memory, so that nobody waits; else ``None``."""

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview:
        """The records of some entries of a queue, at these rising offsets, one behind another; those before a damaged one come without it.

        From any thread; it may wait for the disk.
        """

    def read_raw(self, log_offset: int) -> bytes:
        """The bytes of the record that stands at a log offset, whole and verified. From any thread; it may wait for the disk."""

    def is_hot(self, log_offset: int) -> bool:
        """Whether what stands at a log offset is in memory."""

    def read_record(self, log_offset: int) -> StoredRecord:
        """The record that stands at a log offset."""

    def find(self, topic: str, key: str, most: int = 32, *, anywhere: bool = False) -> list[StoredRecord]:
        """The messages of a topic that carry a key, or have it as their id, the latest first.

        ``anywhere``: also their copies that stand elsewhere, to wait for their time or to be tried again.
        """

    def offset_at_time(self, key: QueueKey, store_timestamp: int) -> int:
        """The offset of a queue's first message that was stored at or after a time (ms); the next offset, if there is none yet."""

    # Messages that wait for their time.

    @property
    def timers(self) -> HeldTimers:
        """Those that wait. Whoever takes one fires it by a record of kind 2 with the one that waits as its origin, or gives it back."""

    @property
    def timer_room(self) -> int:
        """How many more bytes may wait."""

    def load_timers(self, until: int) -> None:
        """Bring those that are due before ``until`` (ms) into memory. It may wait for the disk."""

    def timers_among(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Which of some timers, with the delay times of their records, still wait. From any thread; it may wait for the disk."""

    def timers_after(self, after: tuple[int, int], until: int, most: int) -> list[Timer]:
        """Up to so many timers that wait, in order, behind a due time and a log offset and due before ``until`` (ms).

        From any thread; it may wait for the disk.
        """

    def change_timers(self, decide: Callable[[], Sequence[Control]]) -> None:
        """Append changes of timers. ``decide`` is called while nobody else writes."""

    def read_pending(self, timers: Sequence[Timer]) -> list[bytes]:
        """The records of timers, as they are found: whoever appends them anew verifies them. It may wait for the disk."""

    def read_pending_if_there(self, timers: Sequence[Timer]) -> list[bytes] | None:
        """The same where nothing has to come from the disk, so that nobody waits; else ``None``."""

    def close(self) -> None:
        """Stop cleanly."""
