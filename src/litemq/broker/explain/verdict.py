"""Why a group has not consumed a message: one answer, from everything that is known about both.

Pure: ``reason`` goes from what was gathered (``evidence.py``) to a verdict, in the order in which a message meets what may stop it: is it there
at all, is it done, is it dead, does it wait for its time, does somebody have it, may the group go on, does anybody come for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from litemq.format.transactions import is_producers
from litemq.types import DeadReason

__all__ = ["Answer", "Burial", "Delivery", "Facts", "Half", "Verdict", "reason"]


class Verdict(StrEnum):
    """The answer in a word, for programs."""

    NO_TOPIC = "no-topic"
    NOT_FOUND = "not-found"
    CONSUMED = "consumed"
    DEAD = "dead"
    SENT_ON = "sent-on"
    NOT_DUE = "not-due"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FILTERED = "filtered"
    PAUSED = "paused"
    WAITS_FOR_TRY = "waits-for-try"
    LEASED = "leased"
    BEFORE_START = "before-start"
    NOBODY_COMES = "nobody-comes"
    BEHIND = "behind"
    READY = "ready"
    TAKEN_BY_RETENTION = "taken-by-retention"
    UNDECIDED = "undecided"
    ROLLED_BACK = "rolled-back"


class Delivery(NamedTuple):
    """The message in one queue for the group: in its own queue, or, tried again, in the group's retry queue."""

    queue: str  # "queue 3", or "the retry queue", for people
    offset: int
    group_offset: int  # everything below is done; -1: the group has not begun here
    is_done: bool
    lease_until: int = 0  # ms; 0: nobody has it
    tries: int = 0  # which try the lease is, or how often it was given out
    owner: str = ""  # the member that has the queue
    ahead: int = 0  # messages before it that the group has not finished


class Burial(NamedTuple):
    """A dead letter of the message for the group."""

    reason: DeadReason
    error: str
    dead_at: int
    tries: int
    fingerprint: str
    is_there: bool  # neither sent on nor dropped


class Half(NamedTuple):
    """A record of a transaction that nobody sees, or not yet."""

    transaction: str
    is_open: bool  # neither decided nor rolled back
    is_decided: bool  # it is on its way into its queue


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is known here about a message and a group. Times are ms since 1970, 0 where there is none."""

    message_id: str
    group: str
    topic: str
    now: int
    is_topic: bool = True
    is_found: bool = True
    stored_at: int = 0
    sent_at: int = 0  # as its id tells it, if it is one of ours
    oldest_at: int = 0  # of the topic's messages, where retention took some: the oldest that is left
    due: int = 0  # it waits in the timers until then
    delay_time: int = 0  # that it was sent with
    is_cancelled: bool = False  # while it waited
    expire_at: int = 0
    delivery: Delivery | None = None  # the latest one
    waiting_try: tuple[int, int] | None = None  # when the next try is due, and how many there were
    burial: Burial | None = None
    half: Half | None = None  # where there is nothing else of the message
    is_paused: bool = False
    comes: int = 0  # members, and consumers that lease, that came for this topic lately
    filter: str = ""  # by which the group takes what it wants
    fits_filter: bool = True


class Answer(NamedTuple):
    """What is told: a verdict, a sentence, and what to do about it."""

    verdict: Verdict
    sentence: str
    advice: str = ""

    @property
    def is_consumed(self) -> bool:
        return self.verdict is Verdict.CONSUMED


def reason(facts: Facts) -> Answer:
    """The one answer."""
    for step in _STEPS:
        answer = step(facts)
        if answer is not None:
            return answer
    return _is_ready(facts)


def _is_missing(facts: Facts) -> Answer | None:
    if not facts.is_topic:
        return Answer(
            Verdict.NO_TOPIC,
            f"not consumed because there is no topic {facts.topic!r}",
            "look for the message's topic with `litemq topic list`",
        )
    if facts.is_found:
        return None
    if facts.sent_at and facts.sent_at < facts.oldest_at:
        return Answer(
            Verdict.TAKEN_BY_RETENTION,
            f"not to be consumed any more: its id says that it was sent at {_time(facts.sent_at)}, and retention has taken what was stored before "
            f"{_time(facts.oldest_at)}",
            "keep messages for longer (`storage.retention`), or add consumers; whether the group had it before is in the trace, where that is on",
        )
    where = f"in topic {facts.topic!r}" if facts.topic else "in any topic"
    return Answer(
        Verdict.NOT_FOUND,
        f"not consumed because no message {facts.message_id!r} is {where} here: it was never stored, or retention took it",
        "check the id with the producer's receipt; `storage.retention` says how long messages stay",
    )


def _is_half(facts: Facts) -> Answer | None:
    half = facts.half
    if half is None:
        return None
    if half.is_decided:
        return Answer(Verdict.READY, f"not consumed yet: transaction {half.transaction!r} is committed, and its messages are on their way")
    if half.is_open:
        return Answer(
            Verdict.UNDECIDED,
            f"not consumed because its transaction, {half.transaction!r}, is not decided: nobody sees its messages until it is committed",
            f"`litemq tx show {half.transaction}` says who was asked for its outcome; `litemq tx commit` or `rollback` decides it"
            if is_producers(half.transaction)
            else "look at whether the job that wrote it is still running; what nobody decides is rolled back after `transactions.half_lifetime`",
        )
    return Answer(
        Verdict.ROLLED_BACK,
        f"not to be consumed at all: its transaction, {half.transaction!r}, was rolled back",
        "another try of the same task wrote it again, with another id, or the batch was aborted: the job's log says which",
    )


def _is_dead(facts: Facts) -> Answer | None:
    burial = facts.burial
    if burial is None:
        return None
    when, group, topic = _time(burial.dead_at), facts.group, facts.topic
    cause = {
        DeadReason.MAX_RETRY: f"it failed {burial.tries} times",
        DeadReason.TTL_EXPIRED: "its time to live was over before anybody took it",
        DeadReason.QUEUE_FULL: "the queue was full",
        DeadReason.CONSUME_ERROR: "a consumer rejected it",
        DeadReason.FILTERED: "the filter rejected it",
        DeadReason.UNDECIDED: "nobody decided its transaction",
    }[burial.reason]
    error = f": {burial.error}" if burial.error else ""
    if burial.is_there:
        return Answer(
            Verdict.DEAD,
            f"not consumed because it is in the dead letters since {when}: {cause}{error}",
            f"see it with `litemq dlq show {topic} {facts.message_id}`, send it on with `litemq dlq redrive {topic} --id {facts.message_id} --yes`",
        )
    if facts.delivery is None or facts.delivery.is_done:
        return None  # it was sent on, and the new one is done: that is the answer
    return (
        None
        if facts.stored_at > burial.dead_at
        else Answer(
            Verdict.SENT_ON,
            f"not consumed because group {group!r} gave it up at {when} ({cause}{error}); its dead letter was sent on or dropped since",
            f"look for the new one with `litemq message get {topic} {facts.message_id}`",
        )
    )


def _is_waiting(facts: Facts) -> Answer | None:
    if facts.is_cancelled:
        return Answer(
            Verdict.CANCELLED,
            f"not to be consumed at all: it was to be delivered at {_time(facts.due)}, and was cancelled before",
            f"look at it with `litemq timer show {facts.topic} {facts.message_id}`",
        )
    if facts.due > facts.now:
        moved = f"; it was sent for {_time(facts.delay_time)}, and moved since" if facts.delay_time not in (0, facts.due) else ""
        return Answer(Verdict.NOT_DUE, f"not consumed because it is due at {_time(facts.due)}, in {_span(facts.due - facts.now)}{moved}")
    if facts.waiting_try is not None:
        due, tries = facts.waiting_try
        when = f"due at {_time(due)}, in {_span(due - facts.now)}" if due > facts.now else "due now"
        return Answer(
            Verdict.WAITS_FOR_TRY,
            f"not consumed because try {tries} failed and the next one is {when}",
            f"what failed is in the consumer's log; the delays are the consumer's retry settings for group {facts.group!r}",
        )
    return None


def _is_done(facts: Facts) -> Answer | None:
    delivery = facts.delivery
    if delivery is None or not delivery.is_done:
        return None
    if not facts.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter of group {facts.group!r}, {facts.filter!r}, passes it by",
            "compare the message's tags and properties with the filter",
        )
    return Answer(Verdict.CONSUMED, f"consumed: group {facts.group!r} has acknowledged offset {delivery.offset} of {delivery.queue}")


def _is_refused(facts: Facts) -> Answer | None:
    if facts.expire_at and facts.expire_at <= facts.now:
        return Answer(
            Verdict.EXPIRED,
            f"not consumed because its time to live was over at {_time(facts.expire_at)}: the group is not given it any more",
            "it goes to the dead letters when the group comes to it; send with a longer ttl=",
        )
    if facts.is_paused:
        return Answer(
            Verdict.PAUSED, f"not consumed because group {facts.group!r} is paused", f"go on with `litemq group resume {facts.group}`"
        )
    if not facts.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter of group {facts.group!r}, {facts.filter!r}, will pass it by",
            "compare the message's tags and properties with the filter",
        )
    return None


def _is_taken(facts: Facts) -> Answer | None:
    delivery = facts.delivery
    if delivery is None or delivery.lease_until <= facts.now:
        return None
    return Answer(
        Verdict.LEASED,
        f"not consumed yet: a consumer of group {facts.group!r} has it on try {delivery.tries}, until {_time(delivery.lease_until)} "
        f"({_span(delivery.lease_until - facts.now)} left) unless it asks for longer",
        "if the handler hangs, its lease ends by itself and the message is given to another",
    )


def _is_before(facts: Facts) -> Answer | None:
    delivery = facts.delivery
    if delivery is None:
        return None
    if delivery.group_offset < 0 and not facts.comes:
        return Answer(
            Verdict.BEFORE_START,
            f"not consumed because group {facts.group!r} has never read {delivery.queue} of topic {facts.topic!r}",
            f'start a consumer with group_id="{facts.group}", and check that the name is spelled so',
        )
    if not facts.comes:
        return Answer(
            Verdict.NOBODY_COMES,
            f"not consumed because nobody comes for group {facts.group!r}: it has no member and no consumer here, and is {delivery.ahead} messages "
            f"before this one in {delivery.queue}",
            "start a consumer of the group",
        )
    if delivery.ahead:
        owner = f", which {delivery.owner} has," if delivery.owner else ""
        return Answer(
            Verdict.BEHIND,
            f"not consumed yet: {delivery.ahead} messages stand before it in {delivery.queue}{owner} that group {facts.group!r} has not finished",
            "wait, add consumers, or look at why the first of them is not done",
        )
    return None


def _is_ready(facts: Facts) -> Answer:
    where = f"offset {facts.delivery.offset} of {facts.delivery.queue}" if facts.delivery else "its place"
    tried = f" It was given out {facts.delivery.tries} times." if facts.delivery and facts.delivery.tries else ""
    return Answer(Verdict.READY, f"not consumed yet, but nothing stops it: {where} is the next that group {facts.group!r} gets.{tried}")


_STEPS: Final[tuple[Callable[[Facts], Answer | None], ...]] = (
    _is_missing,
    _is_half,
    _is_dead,
    _is_waiting,
    _is_done,
    _is_refused,
    _is_taken,
    _is_before,
)


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _span(milliseconds: int) -> str:
    """A duration for people."""
    seconds = milliseconds / 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
