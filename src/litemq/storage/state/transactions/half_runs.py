"""Where the halves of one transaction stand, and how far they are copied."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Final, NamedTuple

from litemq.storage.state.topics import QueueKey

__all__ = ["DELETED", "CheckRound", "HalfDied", "HalfEvent", "HalfMoved", "HalfRun", "HalvesCopied", "HalvesPlaced", "Transaction"]

DELETED: Final = 0  # the number of no topic
_MOST_ROUNDS: Final = 16  # that a transaction's story tells of, the latest ones


class HalvesPlaced(NamedTuple):
    """Halves of one transaction that stand one behind another in a queue of the half topic, and are meant for one queue."""

    transaction: str
    topic: str
    topic_id: int
    queue_id: int
    first_log_offset: int
    last_log_offset: int
    first_half_offset: int
    length: int
    bytes: int
    store_timestamp: int
    check_after_ms: int = 0  # of a producer's transaction: when it wants to be asked, and how often; 0: as others
    max_checks: int = 0


class HalvesCopied(NamedTuple):
    """So many halves of a transaction, the next ones, are in their queues now."""

    transaction: str
    length: int


class HalfMoved(NamedTuple):
    """A half of a producer's transaction that stood at ``origin`` stands here now."""

    transaction: str
    origin: int
    log_offset: int
    half_offset: int


class HalfDied(NamedTuple):
    """The next half of a producer's transaction is in the dead letters."""

    transaction: str


HalfEvent = HalvesPlaced | HalvesCopied | HalfMoved | HalfDied


class CheckRound(NamedTuple):
    """One time that somebody was to be asked for a transaction's outcome."""

    at: int  # ms
    asked: str  # a client; empty: nobody was there
    unknown: bool = False  # it said that it does not know


class HalfRun(NamedTuple):
    """Halves that stand one behind another in the half topic's queue of that number. Topic 0: it was deleted."""

    topic_id: int
    queue_id: int
    first_log_offset: int
    last_log_offset: int
    first_half_offset: int
    length: int
    bytes: int

    def part(self, begin: int, length: int) -> HalfRun:
        """Some of them; their bytes are about right, and their log offsets those of all."""
        return self._replace(first_half_offset=self.first_half_offset + begin, length=length, bytes=self.bytes * length // self.length)


class Transaction:
    """What is known of one."""

    __slots__ = (
        "_at",
        "_before",
        "_moved",
        "bytes",
        "check_after_ms",
        "checks",
        "copied",
        "count",
        "dead",
        "first_at",
        "latest_at",
        "max_checks",
        "number",
        "runs",
        "sent",
        "story",
    )

    def __init__(self) -> None:
        self.runs: list[HalfRun] = []
        self.sent: dict[QueueKey, int] = {}  # how many are meant for each queue
        self.latest_at = 0  # ms
        self.number = 0  # of the decision; 0: there is none yet
        self.copied = 0
        self.count = 0
        self.bytes = 0
        # The run in which the next one to copy stands, and how many halves there are before it.
        self._at = 0
        self._before = 0
        self._moved = False  # some were carried forward: they do not stand in their order any more
        # Of a producer's transaction.
        self.dead = False  # ``copied`` of them are in the dead letters
        self.first_at = 0  # ms
        self.check_after_ms = 0
        self.max_checks = 0
        self.checks = 0
        self.story: tuple[CheckRound, ...] = ()

    @property
    def first_log_offset(self) -> int:
        """Where the next of them stands that is neither copied nor rolled back, or one before it."""
        if self._moved:
            return min(run.first_log_offset for run in self.runs[self._at :])
        return self.runs[self._at].first_log_offset

    @property
    def last_log_offset(self) -> int:
        """Where the last of them stands."""
        return max(run.last_log_offset for run in self.runs) if self._moved else self.runs[-1].last_log_offset

    @property
    def left(self) -> list[HalfRun]:
        """Those that are neither copied nor dead, where each of them is a run of its own."""
        return [run for run in self.runs[self._at :] if run.topic_id != DELETED]

    @property
    def dropped(self) -> int:
        """How many are meant for a topic that was deleted since."""
        return sum(run.length for run in self.runs if run.topic_id == DELETED)

    def add(self, run: HalfRun, *, apart: bool = False) -> int:
        """More halves; returns the number of the run that they are in. Runs that go on with each other are one, unless they stay ``apart``."""
        key = QueueKey(run.topic_id, run.queue_id)
        self.sent[key] = self.sent.get(key, 0) + run.length
        self.count += run.length
        self.bytes += run.bytes
        last = self.runs[-1] if self.runs else None
        if not apart and last is not None and last[:2] == key and last.first_half_offset + last.length == run.first_half_offset:
            length, size = last.length + run.length, last.bytes + run.bytes
            self.runs[-1] = last._replace(last_log_offset=run.last_log_offset, length=length, bytes=size)
        else:
            self.runs.append(run)
        return len(self.runs) - 1

    def move(self, origin: int, log_offset: int, half_offset: int) -> int | None:
        """One that is a run of its own stands elsewhere now; returns the number of the run, unless there is none."""
        for number in range(self._at, len(self.runs)):
            run = self.runs[number]
            if run.first_log_offset == origin:
                self.runs[number] = run._replace(first_log_offset=log_offset, last_log_offset=log_offset, first_half_offset=half_offset)
                self._moved = True
                return number
        return None

    def tell(self, at: int, asked: str, before: str, *, unknown: bool) -> None:
        """It is checked once more; ``before`` and ``unknown`` are about the check before this one."""
        self.checks += 1
        story = list(self.story)
        if story:
            last = story[-1]
            story[-1] = last._replace(asked=last.asked or before, unknown=unknown)
        self.story = (*story[1 - _MOST_ROUNDS :], CheckRound(at, asked))

    def advance(self, count: int) -> bool:
        """So many more are copied; returns whether that is all. Those whose topic was deleted are passed over, and not counted."""
        while self._at < len(self.runs):
            run = self.runs[self._at]
            left = self._before + run.length - self.copied
            if run.topic_id != DELETED:
                if count < left:
                    self.copied += count
                    return False
                count -= left
            self.copied += left
            self._before = self.copied
            self._at += 1
        return True

    def upcoming(self, most: int, most_bytes: int = 1 << 62) -> list[HalfRun]:
        """The next ones to copy, in runs: at most so many, and about so many bytes, but at least one."""
        found: list[HalfRun] = []
        begin = self.copied - self._before
        for run in islice(self.runs, self._at, None):
            if run.topic_id == DELETED or most <= 0 or (found and most_bytes <= 0):
                break
            fitting = most_bytes * run.length // max(1, run.bytes)
            count = min(run.length - begin, most, max(1, fitting))
            found.append(run.part(begin, count))
            most -= count
            most_bytes -= found[-1].bytes
            if begin + count < run.length:
                break
            begin = 0
        return found

    def find_place(self) -> None:
        """Where the next one to copy stands, from the runs that there are and how many are copied."""
        self._at = self._before = 0
        while self._at < len(self.runs) and self.copied >= self._before + self.runs[self._at].length:
            self._before += self.runs[self._at].length
            self._at += 1

    def find_moved(self) -> None:
        """Whether some were carried forward, from the runs that there are."""
        self._moved = any(after.first_log_offset < before.first_log_offset for before, after in pairwise(self.runs))

    def drop_topic(self, topic_id: int) -> set[int]:
        """A topic is deleted; returns the numbers of the runs that were meant for it."""
        changed = {number for number, run in enumerate(self.runs) if run.topic_id == topic_id}
        for number in changed:
            self.runs[number] = self.runs[number]._replace(topic_id=DELETED)
        self.sent = {key: count for key, count in self.sent.items() if key.topic_id != topic_id}
        return changed

    def copy(self) -> Transaction:
        """As it is now."""
        other = Transaction()
        other.runs, other.sent = self.runs.copy(), self.sent.copy()
        other.latest_at, other.number, other.copied = self.latest_at, self.number, self.copied
        other.count, other.bytes, other._at, other._before = self.count, self.bytes, self._at, self._before
        other._moved, other.dead, other.first_at, other.story = self._moved, self.dead, self.first_at, self.story
        other.check_after_ms, other.max_checks, other.checks = self.check_after_ms, self.max_checks, self.checks
        return other
