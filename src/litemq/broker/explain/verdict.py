"""The verdict: why a group has not consumed a message. Pure.

``reason`` tests the evidence (``evidence.py``) in the order in which a message meets its obstacles:
is it stored, is it done, is it dead, is it delayed, is it leased, may the group continue, does a
consumer ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from litemq.format.transactions import is_producers
from litemq.types import DeadReason

__all__ = ["Answer", "DeadLetterCause", "Delivery", "Evidence", "Half", "Verdict", "reason"]


class Verdict(StrEnum):
    """The answer in one word, for programs."""

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
    """The message in one queue for the group: its own queue, or the group's retry queue."""

    queue: str  # "queue 3", or "the retry queue", for people
    offset: int
    group_offset: int  # everything below is done; -1: the group has not begun here
    is_done: bool
    lease_until: int = 0  # ms; 0: it is not leased
    tries: int = 0  # the number of the leased try, or of all tries
    owner: str = ""  # the member that owns the queue
    ahead: int = 0  # messages before it that the group has not finished


class DeadLetterCause(NamedTuple):
    """The cause of the message's latest dead letter for the group."""

    reason: DeadReason
    error: str
    dead_at: int
    tries: int
    fingerprint: str
    is_there: bool  # neither redriven nor dropped


class Half(NamedTuple):
    """The half of a transaction, which is invisible until it is published."""

    transaction: str
    is_open: bool  # neither decided nor rolled back
    is_decided: bool  # committed, but not published yet


@dataclass(frozen=True, slots=True)
class Evidence:
    """The state of a message and a group on this broker. Times are ms since 1970, 0 if unknown."""

    message_id: str
    group: str
    topic: str
    now: int
    is_topic: bool = True
    is_found: bool = True
    stored_at: int = 0
    sent_at: int = 0  # from its id, if the client made it
    oldest_at: int = 0  # the oldest message of the topic, if retention took some
    due: int = 0  # it is delayed until then
    delay_time: int = 0  # the due time that it was sent with
    is_cancelled: bool = False  # while it waited
    expire_at: int = 0
    delivery: Delivery | None = None  # the latest one
    waiting_try: tuple[int, int] | None = None  # due time of the next try, and number of tries
    dead_letter: DeadLetterCause | None = None
    half: Half | None = None  # if the message has no other record
    is_paused: bool = False
    consumers: int = 0  # that have asked for messages of this topic recently
    filter: str = ""  # of the group's consumers
    fits_filter: bool = True


class Answer(NamedTuple):
    """A verdict, a sentence, and what to do about it."""

    verdict: Verdict
    sentence: str
    advice: str = ""

    @property
    def is_consumed(self) -> bool:
        return self.verdict is Verdict.CONSUMED


def reason(evidence: Evidence) -> Answer:
    """Return the first answer that the evidence supports."""
    for step in _STEPS:
        answer = step(evidence)
        if answer is not None:
            return answer
    return _is_ready(evidence)


def _is_missing(evidence: Evidence) -> Answer | None:
    if not evidence.is_topic:
        return Answer(
            Verdict.NO_TOPIC,
            f"not consumed because there is no topic {evidence.topic!r}",
            "look for the message's topic with `litemq topic list`",
        )
    if evidence.is_found:
        return None
    if evidence.sent_at and evidence.sent_at < evidence.oldest_at:
        return Answer(
            Verdict.TAKEN_BY_RETENTION,
            f"not to be consumed any more: its id says that it was sent at {_time(evidence.sent_at)}, and retention has taken what was stored before "
            f"{_time(evidence.oldest_at)}",
            "keep messages for longer (`storage.retention`), or add consumers; whether the group had it before is in the trace, where that is on",
        )
    where = f"in topic {evidence.topic!r}" if evidence.topic else "in any topic"
    return Answer(
        Verdict.NOT_FOUND,
        f"not consumed because no message {evidence.message_id!r} is {where} here: it was never stored, or retention took it",
        "check the id with the producer's receipt; `storage.retention` says how long messages stay",
    )


def _is_half(evidence: Evidence) -> Answer | None:
    half = evidence.half
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


def _is_dead(evidence: Evidence) -> Answer | None:
    dead_letter = evidence.dead_letter
    if dead_letter is None:
        return None
    when, group, topic = _time(dead_letter.dead_at), evidence.group, evidence.topic
    cause = {
        DeadReason.MAX_RETRY: f"it failed {dead_letter.tries} times",
        DeadReason.TTL_EXPIRED: "its time to live was over before anybody took it",
        DeadReason.QUEUE_FULL: "the queue was full",
        DeadReason.CONSUME_ERROR: "a consumer rejected it",
        DeadReason.FILTERED: "the filter rejected it",
        DeadReason.UNDECIDED: "nobody decided its transaction",
    }[dead_letter.reason]
    error = f": {dead_letter.error}" if dead_letter.error else ""
    if dead_letter.is_there:
        return Answer(
            Verdict.DEAD,
            f"not consumed because it is in the dead letters since {when}: {cause}{error}",
            f"see it with `litemq dlq show {topic} {evidence.message_id}`, send it on with `litemq dlq redrive {topic} --id {evidence.message_id} --yes`",
        )
    if evidence.delivery is None or evidence.delivery.is_done:
        return None  # it was redriven and consumed then
    return (
        None
        if evidence.stored_at > dead_letter.dead_at
        else Answer(
            Verdict.SENT_ON,
            f"not consumed because group {group!r} gave it up at {when} ({cause}{error}); its dead letter was sent on or dropped since",
            f"look for the new one with `litemq message get {topic} {evidence.message_id}`",
        )
    )


def _is_waiting(evidence: Evidence) -> Answer | None:
    if evidence.is_cancelled:
        return Answer(
            Verdict.CANCELLED,
            f"not to be consumed at all: it was to be delivered at {_time(evidence.due)}, and was cancelled before",
            f"look at it with `litemq timer show {evidence.topic} {evidence.message_id}`",
        )
    if evidence.due > evidence.now:
        moved = f"; it was sent for {_time(evidence.delay_time)}, and moved since" if evidence.delay_time not in (0, evidence.due) else ""
        return Answer(
            Verdict.NOT_DUE, f"not consumed because it is due at {_time(evidence.due)}, in {_span(evidence.due - evidence.now)}{moved}"
        )
    if evidence.waiting_try is not None:
        due, tries = evidence.waiting_try
        when = f"due at {_time(due)}, in {_span(due - evidence.now)}" if due > evidence.now else "due now"
        return Answer(
            Verdict.WAITS_FOR_TRY,
            f"not consumed because try {tries} failed and the next one is {when}",
            f"what failed is in the consumer's log; the delays are the consumer's retry settings for group {evidence.group!r}",
        )
    return None


def _is_done(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None or not delivery.is_done:
        return None
    if not evidence.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter of group {evidence.group!r}, {evidence.filter!r}, passes it by",
            "compare the message's tags and properties with the filter",
        )
    return Answer(Verdict.CONSUMED, f"consumed: group {evidence.group!r} has acknowledged offset {delivery.offset} of {delivery.queue}")


def _is_refused(evidence: Evidence) -> Answer | None:
    if evidence.expire_at and evidence.expire_at <= evidence.now:
        return Answer(
            Verdict.EXPIRED,
            f"not consumed because its time to live was over at {_time(evidence.expire_at)}: the group is not given it any more",
            "it goes to the dead letters when the group comes to it; send with a longer ttl=",
        )
    if evidence.is_paused:
        return Answer(
            Verdict.PAUSED, f"not consumed because group {evidence.group!r} is paused", f"go on with `litemq group resume {evidence.group}`"
        )
    if not evidence.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter of group {evidence.group!r}, {evidence.filter!r}, will pass it by",
            "compare the message's tags and properties with the filter",
        )
    return None


def _is_taken(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None or delivery.lease_until <= evidence.now:
        return None
    return Answer(
        Verdict.LEASED,
        f"not consumed yet: a consumer of group {evidence.group!r} has it on try {delivery.tries}, until {_time(delivery.lease_until)} "
        f"({_span(delivery.lease_until - evidence.now)} left) unless it asks for longer",
        "if the handler hangs, its lease ends by itself and the message is given to another",
    )


def _is_before(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None:
        return None
    if delivery.group_offset < 0 and not evidence.consumers:
        return Answer(
            Verdict.BEFORE_START,
            f"not consumed because group {evidence.group!r} has never read {delivery.queue} of topic {evidence.topic!r}",
            f'start a consumer with group_id="{evidence.group}", and check that the name is spelled so',
        )
    if not evidence.consumers:
        return Answer(
            Verdict.NOBODY_COMES,
            f"not consumed because nobody comes for group {evidence.group!r}: it has no member and no consumer here, and is {delivery.ahead} messages "
            f"before this one in {delivery.queue}",
            "start a consumer of the group",
        )
    if delivery.ahead:
        owner = f", which {delivery.owner} has," if delivery.owner else ""
        return Answer(
            Verdict.BEHIND,
            f"not consumed yet: {delivery.ahead} messages stand before it in {delivery.queue}{owner} that group {evidence.group!r} has not finished",
            "wait, add consumers, or look at why the first of them is not done",
        )
    return None


def _is_ready(evidence: Evidence) -> Answer:
    where = f"offset {evidence.delivery.offset} of {evidence.delivery.queue}" if evidence.delivery else "its place"
    tried = f" It was given out {evidence.delivery.tries} times." if evidence.delivery and evidence.delivery.tries else ""
    return Answer(Verdict.READY, f"not consumed yet, but nothing stops it: {where} is the next that group {evidence.group!r} gets.{tried}")


_STEPS: Final[tuple[Callable[[Evidence], Answer | None], ...]] = (
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
