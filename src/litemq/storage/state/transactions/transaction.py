"""One transaction: its halves, its decision, and the progress of copying the halves.

A *half* is a record of a transaction in the half topic. Halves that are consecutive there form a
*run*. Retention may carry a half forward: its copy then takes its place in the run. Pure state:
nothing here reads or writes.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Final, NamedTuple

from litemq.storage.state.topics import QueueKey

__all__ = ["DELETED", "CheckRound", "HalfRun", "Transaction"]

DELETED: Final = 0  # a topic id that no topic has
_MAX_ROUNDS: Final = 16  # check rounds in a transaction's history


class CheckRound(NamedTuple):
    """One check of a transaction's outcome."""

    at: int  # ms
    asked: str  # the client asked; empty: none was connected
    unknown: bool = False  # it answered *unknown*


class HalfRun(NamedTuple):
    """Consecutive halves in a queue of the half topic, all for the same queue.

    The queue of the half topic has the same queue id. If the topic was deleted, its id is 0.
    """

    topic_id: int
    queue_id: int
    first_log_offset: int
    last_log_offset: int
    first_half_offset: int
    length: int
    bytes: int

    def part(self, begin: int, length: int) -> HalfRun:
        """Return ``length`` halves from index ``begin`` on.

        Their size is an estimate, and their log offsets are those of the whole run.
        """
        size = self.bytes * length // self.length
        return self._replace(first_half_offset=self.first_half_offset + begin, length=length, bytes=size)


class Transaction:
    """The halves of one transaction, its decision, and its checks."""

    __slots__ = (
        "_copied_before_run",
        "_moved",
        "_next_run",
        "bytes",
        "check_after_ms",
        "checks",
        "copied",
        "count",
        "dead",
        "decision_number",
        "first_at",
        "history",
        "latest_at",
        "max_checks",
        "runs",
        "sent",
    )

    def __init__(self) -> None:
        self.runs: list[HalfRun] = []
        self.sent: dict[QueueKey, int] = {}  # the number of halves for each queue
        self.latest_at = 0  # ms
        self.decision_number = 0  # rises with each decision of a broker; 0: undecided
        self.copied = 0
        self.count = 0
        self.bytes = 0
        # The index of the run of the next half to copy, and the number of halves before that run.
        self._next_run = 0
        self._copied_before_run = 0
        self._moved = False  # some halves were carried forward, so the log offsets of the runs are not in order
        # Only for producers' transactions:
        self.dead = False  # the first ``copied`` halves are dead letters
        self.first_at = 0  # ms
        self.check_after_ms = 0
        self.max_checks = 0
        self.checks = 0
        self.history: tuple[CheckRound, ...] = ()

    @property
    def first_log_offset(self) -> int:
        """The log offset of the next half to copy, or of an earlier half of its run."""
        if self._moved:
            return min(run.first_log_offset for run in self.runs[self._next_run :])
        return self.runs[self._next_run].first_log_offset

    @property
    def last_log_offset(self) -> int:
        """The highest log offset of any half."""
        return max(run.last_log_offset for run in self.runs) if self._moved else self.runs[-1].last_log_offset

    @property
    def left(self) -> list[HalfRun]:
        """The runs that are neither copied nor dead, if each half is a run of its own."""
        return [run for run in self.runs[self._next_run :] if run.topic_id != DELETED]

    @property
    def dropped(self) -> int:
        """The number of halves whose topic was deleted."""
        return sum(run.length for run in self.runs if run.topic_id == DELETED)

    def add(self, run: HalfRun, *, apart: bool = False) -> int:
        """Add halves and return the index of their run.

        A run that continues the last one is merged with it, unless it stays ``apart``.
        """
        key = QueueKey(run.topic_id, run.queue_id)
        self.sent[key] = self.sent.get(key, 0) + run.length
        self.count += run.length
        self.bytes += run.bytes
        last = self.runs[-1] if self.runs else None
        if (
            not apart
            and last is not None
            and last[:2] == key
            and last.first_half_offset + last.length == run.first_half_offset
        ):
            length, size = last.length + run.length, last.bytes + run.bytes
            self.runs[-1] = last._replace(last_log_offset=run.last_log_offset, length=length, bytes=size)
        else:
            self.runs.append(run)
        return len(self.runs) - 1

    def move(self, origin: int, log_offset: int, half_offset: int) -> int | None:
        """Move the half at ``origin``, a run of its own; return the run's index, or ``None``."""
        for number in range(self._next_run, len(self.runs)):
            run = self.runs[number]
            if run.first_log_offset == origin:
                self.runs[number] = run._replace(
                    first_log_offset=log_offset, last_log_offset=log_offset, first_half_offset=half_offset
                )
                self._moved = True
                return number
        return None

    def record_check(self, at: int, asked: str, before: str, *, unknown: bool) -> None:
        """Record a check; ``before`` and ``unknown`` complete the previous one."""
        self.checks += 1
        history = list(self.history)
        if history:
            last = history[-1]
            history[-1] = last._replace(asked=last.asked or before, unknown=unknown)
        self.history = (*history[1 - _MAX_ROUNDS :], CheckRound(at, asked))

    def advance(self, count: int) -> bool:
        """Mark ``count`` further halves as copied; return whether all are copied now.

        Halves whose topic was deleted are skipped and not counted.
        """
        while self._next_run < len(self.runs):
            run = self.runs[self._next_run]
            left = self._copied_before_run + run.length - self.copied
            if run.topic_id != DELETED:
                if count < left:
                    self.copied += count
                    return False
                count -= left
            self.copied += left
            self._copied_before_run = self.copied
            self._next_run += 1
        return True

    def upcoming(self, limit: int, max_bytes: int = 1 << 62) -> list[HalfRun]:
        """Return the next halves to copy: up to ``limit``, about ``max_bytes``, at least one.

        They end before a run whose topic was deleted: ``advance`` skips it.
        """
        found: list[HalfRun] = []
        begin = self.copied - self._copied_before_run
        for run in islice(self.runs, self._next_run, None):
            if run.topic_id == DELETED or limit <= 0 or (found and max_bytes <= 0):
                break
            fitting = max_bytes * run.length // max(1, run.bytes)
            count = min(run.length - begin, limit, max(1, fitting))
            found.append(run.part(begin, count))
            limit -= count
            max_bytes -= found[-1].bytes
            if begin + count < run.length:
                break
            begin = 0
        return found

    def locate_next(self) -> None:
        """Find the run of the next half to copy, after the runs were loaded from rows."""
        self._next_run = self._copied_before_run = 0
        while (
            self._next_run < len(self.runs)
            and self.copied >= self._copied_before_run + self.runs[self._next_run].length
        ):
            self._copied_before_run += self.runs[self._next_run].length
            self._next_run += 1

    def detect_moved(self) -> None:
        """Detect carried halves, after the runs were loaded from rows."""
        self._moved = any(after.first_log_offset < before.first_log_offset for before, after in pairwise(self.runs))

    def drop_topic(self, topic_id: int) -> set[int]:
        """Mark the runs of a deleted topic; return their indexes."""
        changed = {number for number, run in enumerate(self.runs) if run.topic_id == topic_id}
        for number in changed:
            self.runs[number] = self.runs[number]._replace(topic_id=DELETED)
        self.sent = {key: count for key, count in self.sent.items() if key.topic_id != topic_id}
        return changed

    def copy(self) -> Transaction:
        """Return an independent copy."""
        other = Transaction()
        other.runs, other.sent = self.runs.copy(), self.sent.copy()
        other.latest_at, other.decision_number, other.copied = self.latest_at, self.decision_number, self.copied
        other.count, other.bytes = self.count, self.bytes
        other._next_run, other._copied_before_run = self._next_run, self._copied_before_run
        other._moved, other.dead, other.first_at, other.history = self._moved, self.dead, self.first_at, self.history
        other.check_after_ms, other.max_checks, other.checks = self.check_after_ms, self.max_checks, self.checks
        return other
