"""What happened to timers, cron jobs and transactions, written down while it happened, and what must hold of it whatever was killed in between.

Times are milliseconds since 1970 by the broker's clock, which is the host's: a record's own store timestamp says when it was delivered. No I/O:
histories may be made by hand, and the bad ones are how the checker is tested.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from support.history import Outcome


class Fate(Enum):
    """What became of a wish, as whoever had it was told."""

    UNKNOWN = "unknown"  # it may hold or not; also while nobody has been told
    DONE = "done"
    TOO_LATE = "too late"  # it was delivered already


@dataclass
class TimerStory:
    """A message that was sent with a due time, and what was wanted of it since."""

    due: int
    outcome: Outcome = Outcome.UNKNOWN
    moves: list[tuple[int, Fate]] = field(default_factory=list)  # one at a time
    cancelled: Fate | None = None
    never_after: int | None = None  # its batch was cancelled by then: it came before, or it never does
    is_between: bool = False  # it was on its way when its batch was cancelled: nobody knows which of the two was first

    @property
    def must_come(self) -> bool:
        """Whether there is no way in which it may be missing in the end."""
        may_be_cancelled = self.cancelled is not None or self.never_after is not None or self.is_between
        return self.outcome is Outcome.ACKED and (self.cancelled is Fate.TOO_LATE or not may_be_cancelled)

    @property
    def possible_dues(self) -> list[int]:
        """When it may be due, as far as anybody was told."""
        dues = [self.due]
        for due, fate in self.moves:
            if fate is Fate.DONE:
                dues = [due]
            elif fate is Fate.UNKNOWN:
                dues.append(due)
        return dues


@dataclass
class JobStory:
    """A cron job, and the ticks that it was to have while somebody knew that it was there."""

    catches_up: bool  # every tick comes, however late; else one may be missing
    expected: list[int] = field(default_factory=list)


@dataclass
class TransactionStory:
    """What a producer did, and what is true in its database."""

    messages: int
    truth: bool | None = None  # whether it counts; not decided yet
    decided_at: int = 0
    acked: int = 0  # of its halves


class Delivered(NamedTuple):
    """A record of a topic as somebody read it in the end."""

    name: str
    stored_at: int


@dataclass
class TimeHistory:
    """Everything that was seen. What was delivered is what a reader found in the log in the end."""

    timers: dict[str, TimerStory] = field(default_factory=dict)
    timer_log: list[Delivered] = field(default_factory=list)
    jobs: dict[str, JobStory] = field(default_factory=dict)
    tick_log: list[tuple[str, int, int]] = field(default_factory=list)  # job, tick, store timestamp
    transactions: dict[str, TransactionStory] = field(default_factory=dict)
    transaction_log: list[tuple[str, int]] = field(default_factory=list)  # transaction, number of the message in it
    sightings: list[tuple[str, int]] = field(default_factory=list)  # transaction, when a consumer saw something of it
    late_within_ms: int = 15_000  # a broker that was killed is back by then, and has caught up


def time_problems(history: TimeHistory) -> list[str]:
    """What must not be, of each kind the first few; empty where all is well."""
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
    """I8: none is lost: what was acknowledged and not cancelled was delivered."""
    delivered = {each.name for each in history.timer_log}
    for name, story in history.timers.items():
        if story.must_come and name not in delivered:
            yield f"I8: timer {name}, due {story.possible_dues}, never came"


def _timers_repeated(history: TimeHistory) -> Iterator[str]:
    """I8: each comes once."""
    for name, times in Counter(each.name for each in history.timer_log).items():
        if times > 1:
            yield f"I8: timer {name} came {times} times"


def _timers_not_wanted(history: TimeHistory) -> Iterator[str]:
    """I8: what is cancelled never comes, and nothing comes that nobody sent."""
    for name, stored_at in history.timer_log:
        story = history.timers.get(name)
        if story is None:
            yield f"timer {name} was never sent"
        elif story.cancelled is Fate.DONE:
            yield f"I8: timer {name} was cancelled, and came"
        elif story.never_after is not None and stored_at > story.never_after:
            yield f"I8: timer {name} came {stored_at - story.never_after} ms after its batch was cancelled"
        elif story.outcome is Outcome.REFUSED:
            yield f"timer {name} was refused, and came"


def _timers_early_or_late(history: TimeHistory) -> Iterator[str]:
    """I8: never early, and late only as long as a broker is away."""
    for name, stored_at in history.timer_log:
        story = history.timers.get(name)
        if story is None:
            continue
        if stored_at < min(story.possible_dues):
            yield f"I8: timer {name} came {min(story.possible_dues) - stored_at} ms early"
        if stored_at > max(story.possible_dues) + history.late_within_ms:
            yield f"I8: timer {name} came {stored_at - max(story.possible_dues)} ms late"


def _ticks_repeated(history: TimeHistory) -> Iterator[str]:
    """I9: each tick at most once."""
    for (job, tick), times in Counter((job, tick) for job, tick, _ in history.tick_log).items():
        if times > 1:
            yield f"I9: tick {tick} of job {job} came {times} times"


def _ticks_early_or_late(history: TimeHistory) -> Iterator[str]:
    """I9: never early, and late only as long as a broker is away."""
    for job, tick, stored_at in history.tick_log:
        if stored_at < tick:
            yield f"I9: tick {tick} of job {job} came {tick - stored_at} ms early"
        if stored_at > tick + history.late_within_ms:
            yield f"I9: tick {tick} of job {job} came {stored_at - tick} ms late"
        if job not in history.jobs:
            yield f"nobody made job {job}"


def _ticks_missing(history: TimeHistory) -> Iterator[str]:
    """I9: what is missed is missed by the job's own rule."""
    came = defaultdict(set)
    for job, tick, _ in history.tick_log:
        came[job].add(tick)
    for job, story in history.jobs.items():
        if story.catches_up:
            for tick in story.expected:
                if tick not in came[job]:
                    yield f"I9: tick {tick} of job {job}, which catches up, never came"


def _halves_visible(history: TimeHistory) -> Iterator[str]:
    """I7: what is rolled back or undecided is nowhere to be seen."""
    for transaction, number in history.transaction_log:
        story = history.transactions.get(transaction)
        if story is None:
            yield f"nobody began transaction {transaction}"
        elif not story.truth:
            yield f"I7: message {number} of transaction {transaction} is there, which {'is undecided' if story.truth is None else 'does not count'}"


def _transactions_lost(history: TimeHistory) -> Iterator[str]:
    """I7: each ends: what counts is there, whole."""
    there = Counter(transaction for transaction, _ in set(history.transaction_log))
    for transaction, story in history.transactions.items():
        if story.truth and there[transaction] < story.messages:
            yield f"I7: {there[transaction]} of {story.messages} messages of transaction {transaction} are there, which counts"


def _transactions_repeated(history: TimeHistory) -> Iterator[str]:
    """I7: and ends once."""
    for (transaction, number), times in Counter(history.transaction_log).items():
        if times > 1:
            yield f"I7: message {number} of transaction {transaction} is there {times} times"


def _seen_before_decided(history: TimeHistory) -> Iterator[str]:
    for transaction, seen_at in history.sightings:
        story = history.transactions.get(transaction)
        if story is not None and (story.truth is None or seen_at < story.decided_at):
            yield f"I7: transaction {transaction} was seen before it was decided"
