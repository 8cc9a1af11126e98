"""The verdict: why a group has not consumed a message. Pure.

``reason`` tests the evidence (``evidence.py``) in the order in which a message meets its obstacles:
is it stored, dead, delayed, consumed, expired or filtered, leased, does a consumer ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from litemq.format.transactions import is_producer_transaction
from litemq.types import DeadReason

__all__ = ["Answer", "DeadLetterCause", "Delivery", "Evidence", "Half", "Verdict", "reason"]


class Verdict(StrEnum):
    """The verdict in one word, for programs. The values are part of the wire protocol."""

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
    """A verdict, the sentence that explains it, and advice."""

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
    return _explain_ready(evidence)


def _explain_missing(evidence: Evidence) -> Answer | None:
    if not evidence.is_topic:
        return Answer(
            Verdict.NO_TOPIC,
            f"not consumed because topic {evidence.topic!r} does not exist",
            "list the topics with `litemq topic list`",
        )
    if evidence.is_found:
        return None
    if evidence.sent_at and evidence.sent_at < evidence.oldest_at:
        return Answer(
            Verdict.TAKEN_BY_RETENTION,
            f"not in the log any more: by its id, it was sent at {_time(evidence.sent_at)}, and retention has deleted "
            f"all messages stored before {_time(evidence.oldest_at)}",
            "keep messages for longer (`storage.retention`), or add consumers; the trace, if it is on (`trace.mode`), "
            "shows whether the group had consumed it",
        )
    where = f"in topic {evidence.topic!r}" if evidence.topic else "in any topic"
    return Answer(
        Verdict.NOT_FOUND,
        f"not consumed because there is no message {evidence.message_id!r} {where}: it was never stored, or retention "
        "deleted it",
        "check the id in the producer's receipt; `storage.retention` sets how long the broker keeps messages",
    )


def _explain_half(evidence: Evidence) -> Answer | None:
    half = evidence.half
    if half is None:
        return None
    if half.is_decided:
        return Answer(
            Verdict.READY,
            f"not consumed yet: transaction {half.transaction!r} is committed, and the broker is publishing its "
            "messages",
        )
    if half.is_open:
        return Answer(
            Verdict.UNDECIDED,
            f"not consumed because its transaction {half.transaction!r} is undecided: its messages are invisible until "
            "it is committed",
            f"see the checks with `litemq tx show {half.transaction}`; decide it with `litemq tx commit` or `litemq tx "
            "rollback`"
            if is_producer_transaction(half.transaction)
            else "check whether the Spark job is running; undecided batches are rolled back after "
            "`transactions.half_lifetime`",
        )
    return Answer(
        Verdict.ROLLED_BACK,
        f"not consumed because its transaction {half.transaction!r} was rolled back",
        "either another attempt of the task wrote it again with another id, or the batch was aborted: see the job's "
        "log",
    )


def _explain_dead(evidence: Evidence) -> Answer | None:
    dead_letter = evidence.dead_letter
    if dead_letter is None:
        return None
    when, group, topic = _time(dead_letter.dead_at), evidence.group, evidence.topic
    cause = {
        DeadReason.MAX_RETRY: f"{dead_letter.tries} tries failed",
        DeadReason.TTL_EXPIRED: "it expired before a consumer took it",
        DeadReason.QUEUE_FULL: "the group was too far behind (max_backlog)",
        DeadReason.CONSUME_ERROR: "a consumer rejected it",
        DeadReason.FILTERED: "the filter rejected it",
        DeadReason.UNDECIDED: "its transaction was undecided",
    }[dead_letter.reason]
    error = f": {dead_letter.error}" if dead_letter.error else ""
    if dead_letter.is_there:
        of_group = f" --group {evidence.group}" if evidence.group else ""  # each group has its own dead letter
        return Answer(
            Verdict.DEAD,
            f"not consumed because it is a dead letter since {when}: {cause}{error}",
            f"show it with `litemq dlq show {topic} {evidence.message_id}{of_group}`; send it again with "
            f"`litemq dlq redrive {topic} --id {evidence.message_id}{of_group} --yes`",
        )
    if evidence.delivery is None or evidence.delivery.is_done:
        return None  # it was redriven and consumed then
    return (
        None
        if evidence.stored_at > dead_letter.dead_at
        else Answer(
            Verdict.SENT_ON,
            f"not consumed because it became a dead letter of group {group!r} at {when} ({cause}{error}), which was "
            "redriven or dropped later",
            f"look for the redriven message with `litemq message get {topic} {evidence.message_id}`",
        )
    )


def _explain_delay(evidence: Evidence) -> Answer | None:
    if evidence.is_cancelled:
        return Answer(
            Verdict.CANCELLED,
            f"not consumed because it was cancelled before its due time, {_time(evidence.due)}",
            f"show it with `litemq timer show {evidence.topic} {evidence.message_id}`",
        )
    if evidence.due > evidence.now:
        is_moved = evidence.delay_time not in (0, evidence.due)
        moved = f"; it was rescheduled from {_time(evidence.delay_time)}" if is_moved else ""
        return Answer(
            Verdict.NOT_DUE,
            f"not consumed because it is due at {_time(evidence.due)}, in {_span(evidence.due - evidence.now)}{moved}",
        )
    if evidence.waiting_try is not None:
        due, tries = evidence.waiting_try
        when = f"due at {_time(due)}, in {_span(due - evidence.now)}" if due > evidence.now else "due now"
        return Answer(
            Verdict.WAITS_FOR_TRY,
            f"not consumed because try {tries} failed and the next try is {when}",
            f"see the error in the consumer's log; the consumer's retry policy for group {evidence.group!r} sets the "
            "delays",
        )
    return None


def _explain_done(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None or not delivery.is_done:
        return None
    if not evidence.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter {evidence.filter!r} of group {evidence.group!r} has rejected it",
            "compare the message's tags and properties with the filter",
        )
    return Answer(
        Verdict.CONSUMED,
        f"consumed: group {evidence.group!r} has acknowledged offset {delivery.offset} of {delivery.queue}",
    )


def _explain_refusal(evidence: Evidence) -> Answer | None:
    if evidence.expire_at and evidence.expire_at <= evidence.now:
        return Answer(
            Verdict.EXPIRED,
            f"not consumed because it expired at {_time(evidence.expire_at)}",
            "it becomes a dead letter when the group reaches it; send messages with a longer ttl",
        )
    if evidence.is_paused:
        return Answer(
            Verdict.PAUSED,
            f"not consumed because group {evidence.group!r} is paused",
            f"resume it with `litemq group resume {evidence.group}`",
        )
    if not evidence.fits_filter:
        return Answer(
            Verdict.FILTERED,
            f"not consumed because the filter {evidence.filter!r} of group {evidence.group!r} rejects it",
            "compare the message's tags and properties with the filter",
        )
    return None


def _explain_lease(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None or delivery.lease_until <= evidence.now:
        return None
    return Answer(
        Verdict.LEASED,
        f"not consumed yet: a consumer of group {evidence.group!r} has leased it for try {delivery.tries}, until "
        f"{_time(delivery.lease_until)} ({_span(delivery.lease_until - evidence.now)} left)",
        "if the handler hangs, the lease expires and another consumer gets the message",
    )


def _explain_backlog(evidence: Evidence) -> Answer | None:
    delivery = evidence.delivery
    if delivery is None:
        return None
    if delivery.group_offset < 0 and not evidence.consumers:
        return Answer(
            Verdict.BEFORE_START,
            f"not consumed because group {evidence.group!r} has never read {delivery.queue} of topic "
            f"{evidence.topic!r}",
            f'check the name of the group, and start a consumer with group_id="{evidence.group}"',
        )
    if not evidence.consumers:
        return Answer(
            Verdict.NOBODY_COMES,
            f"not consumed because group {evidence.group!r} has no active consumer; {delivery.ahead} messages are "
            f"ahead of it in {delivery.queue}",
            "start a consumer of the group",
        )
    if delivery.ahead:
        owner = f" (owned by {delivery.owner})" if delivery.owner else ""
        return Answer(
            Verdict.BEHIND,
            f"not consumed yet: {delivery.ahead} messages that group {evidence.group!r} has not consumed are ahead of "
            f"it in {delivery.queue}{owner}",
            "wait, add consumers, or find out why the first of these messages is not consumed",
        )
    return None


def _explain_ready(evidence: Evidence) -> Answer:
    where = f"offset {evidence.delivery.offset} of {evidence.delivery.queue}" if evidence.delivery else "the message"
    tried = f" It was leased {evidence.delivery.tries} times." if evidence.delivery and evidence.delivery.tries else ""
    return Answer(
        Verdict.READY, f"not consumed yet, but ready: {where} is the next message of group {evidence.group!r}.{tried}"
    )


_STEPS: Final[tuple[Callable[[Evidence], Answer | None], ...]] = (
    _explain_missing,
    _explain_half,
    _explain_dead,
    _explain_delay,
    _explain_done,
    _explain_refusal,
    _explain_lease,
    _explain_backlog,
)


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _span(milliseconds: int) -> str:
    """Format a duration, e.g. ``2.5 hours``."""
    seconds = milliseconds / 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
