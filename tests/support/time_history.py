"""A recorded history of timers, cron jobs and transactions, and a checker of their invariants.

It is for tests that kill servers. Times are milliseconds since 1970. A record was delivered at its
store timestamp, by the clock of the broker that stored it. Timers and ticks are early or late by
that clock; ``wrong_stamps`` are of clocks that differ from the tests'. There is no I/O: the
checker's own tests make good and bad histories by hand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from support.history import Outcome


class Fate(Enum):
    """The outcome of a request, as its client knows it."""

    UNKNOWN = "unknown"  # it may have been applied or not; also before the answer
    DONE = "done"
    TOO_LATE = "too late"  # it was delivered already


@dataclass
class TimerHistory:
    """A delayed message, and the requests to change it."""

    due: int
    outcome: Outcome = Outcome.UNKNOWN
    moves: list[tuple[int, Fate]] = field(default_factory=list)  # one at a time
    cancelled: Fate | None = None
    never_after: int | None = None  # its batch was cancelled by then: it came before, or it never does
    is_between: bool = False  # it was in flight when its batch was cancelled: the order is unknown

    @property
    def must_come(self) -> bool:
        """Whether it must be delivered in every possible order of events."""
        may_be_cancelled = self.cancelled is not None or self.never_after is not None or self.is_between
        return self.outcome is Outcome.ACKED and (self.cancelled is Fate.TOO_LATE or not may_be_cancelled)

    @property
    def possible_dues(self) -> list[int]:
        """The possible due times, by the known answers."""
        dues = [self.due]
        for due, fate in self.moves:
            if fate is Fate.DONE:
                dues = [due]
            elif fate is Fate.UNKNOWN:
                dues.append(due)
        return dues


@dataclass
class JobHistory:
    """A cron job, and its expected ticks while it is known to exist."""

    catches_up: bool  # every tick comes, however late; else one may be missing
    expected: list[int] = field(default_factory=list)


@dataclass
class TransactionHistory:
    """A transaction, and its outcome in the producer's database."""

    messages: int
    truth: bool | None = None  # whether it counts; not decided yet
    decided_at: int = 0
    acked: int = 0  # of its halves


class Delivered(NamedTuple):
    """A record of a topic, as read at the end."""

    name: str
    stored_at: int


class Stamps(NamedTuple):
    """Store timestamps that a broker with a wrong clock may have given."""

    first: int
    last: int


@dataclass
class TimeHistory:
    """All recorded events. Deliveries are the messages that a reader finds in the final log."""

    timers: dict[str, TimerHistory] = field(default_factory=dict)
    timer_log: list[Delivered] = field(default_factory=list)
    jobs: dict[str, JobHistory] = field(default_factory=dict)
    tick_log: list[tuple[str, int, int]] = field(default_factory=list)  # job, tick, store timestamp
    transactions: dict[str, TransactionHistory] = field(default_factory=dict)
    transaction_log: list[tuple[str, int]] = field(default_factory=list)  # transaction, number of the message in it
    sightings: list[tuple[str, int]] = field(default_factory=list)  # transaction, when a consumer saw something of it
    late_within_ms: int = 15_000  # a broker that was killed is back by then, and has caught up
    wrong_stamps: list[Stamps] = field(default_factory=list)

    def is_right(self, stamp: int) -> bool:
        """Return whether ``stamp`` can be compared with times of the tests' clock."""
        return not any(first <= stamp <= last for first, last in self.wrong_stamps)


def time_problems(history: TimeHistory) -> list[str]:
    """Return violated invariants, the first few of each kind; empty if there are none."""
    checks: tuple[Callable[[TimeHistory], Iterator[str]], ...] = (
        _timers_lost,
        _timers_repeated,
        _timers_not_wanted,
        _timers_early_or_late,
        _ticks_repeated,
        _ticks_early_or_late,
        _ticks_missing,
        _halves_visible,
        _transactions_lost,
        _transactions_repeated,
        _seen_before_decided,
    )
    found: list[str] = []
    for check in checks:
        of_kind = list(check(history))
        found += of_kind[:5]
        if len(of_kind) > 5:
            found.append(f"… and {len(of_kind) - 5} more of this kind")
    return found


def _timers_lost(history: TimeHistory) -> Iterator[str]:
    """I8: acknowledged timers that were not cancelled are delivered."""
    delivered = {each.name for each in history.timer_log}
    for name, entry in history.timers.items():
        if entry.must_come and name not in delivered:
            yield f"I8: timer {name}, due {entry.possible_dues}, never came"


def _timers_repeated(history: TimeHistory) -> Iterator[str]:
    """I8: each timer fires once."""
    for name, times in Counter(each.name for each in history.timer_log).items():
        if times > 1:
            yield f"I8: timer {name} came {times} times"


def _timers_not_wanted(history: TimeHistory) -> Iterator[str]:
    """I8: cancelled timers never fire, and no unknown message is delivered."""
    for name, stored_at in history.timer_log:
        entry = history.timers.get(name)
        if entry is None:
            yield f"timer {name} was never sent"
        elif entry.cancelled is Fate.DONE:
            yield f"I8: timer {name} was cancelled, and came"
        elif entry.never_after is not None and stored_at > entry.never_after and history.is_right(stored_at):
            # This check alone compares times of two clocks: ``never_after`` is by that of the test,
            # and the stamp by that of the broker.
            yield f"I8: timer {name} came {stored_at - entry.never_after} ms after its batch was cancelled"
        elif entry.outcome is Outcome.REFUSED:
            yield f"timer {name} was refused, and came"


def _timers_early_or_late(history: TimeHistory) -> Iterator[str]:
    """I8: timers never fire early, and late only while a broker is down."""
    for name, stored_at in history.timer_log:
        entry = history.timers.get(name)
        if entry is None:
            continue
        if stored_at < min(entry.possible_dues):
            yield f"I8: timer {name} came {min(entry.possible_dues) - stored_at} ms early"
        if stored_at > max(entry.possible_dues) + history.late_within_ms:
            yield f"I8: timer {name} came {stored_at - max(entry.possible_dues)} ms late"


def _ticks_repeated(history: TimeHistory) -> Iterator[str]:
    """I9: each tick is sent at most once."""
    for (job, tick), times in Counter((job, tick) for job, tick, _ in history.tick_log).items():
        if times > 1:
            yield f"I9: tick {tick} of job {job} came {times} times"


def _ticks_early_or_late(history: TimeHistory) -> Iterator[str]:
    """I9: ticks are never sent early, and late only while a broker is down."""
    for job, tick, stored_at in history.tick_log:
        if stored_at < tick:
            yield f"I9: tick {tick} of job {job} came {tick - stored_at} ms early"
        if stored_at > tick + history.late_within_ms:
            yield f"I9: tick {tick} of job {job} came {stored_at - tick} ms late"
        if job not in history.jobs:
            yield f"job {job} was never created"


def _ticks_missing(history: TimeHistory) -> Iterator[str]:
    """I9: ticks are missed only by the job's catch-up rule."""
    came = defaultdict(set)
    for job, tick, _ in history.tick_log:
        came[job].add(tick)
    for job, entry in history.jobs.items():
        if entry.catches_up:
            for tick in entry.expected:
                if tick not in came[job]:
                    yield f"I9: tick {tick} of job {job}, which catches up, never came"


def _halves_visible(history: TimeHistory) -> Iterator[str]:
    """I7: rolled-back and undecided messages are invisible."""
    for transaction, number in history.transaction_log:
        entry = history.transactions.get(transaction)
        if entry is None:
            yield f"transaction {transaction} was never begun"
        elif not entry.truth:
            state = "is undecided" if entry.truth is None else "does not count"
            yield f"I7: message {number} of transaction {transaction} is there, which {state}"


def _transactions_lost(history: TimeHistory) -> Iterator[str]:
    """I7: committed transactions are complete."""
    there = Counter(transaction for transaction, _ in set(history.transaction_log))
    for transaction, entry in history.transactions.items():
        if entry.truth and there[transaction] < entry.messages:
            found = f"{there[transaction]} of {entry.messages} messages of transaction {transaction}"
            yield f"I7: {found} are there, which counts"


def _transactions_repeated(history: TimeHistory) -> Iterator[str]:
    """I7: committed messages are there once."""
    for (transaction, number), times in Counter(history.transaction_log).items():
        if times > 1:
            yield f"I7: message {number} of transaction {transaction} is there {times} times"


def _seen_before_decided(history: TimeHistory) -> Iterator[str]:
    for transaction, seen_at in history.sightings:
        entry = history.transactions.get(transaction)
        if entry is not None and (entry.truth is None or seen_at < entry.decided_at):
            yield f"I7: transaction {transaction} was seen before it was decided"
