"""What becomes of a message when its handler ends: a pure decision, the same for handlers and for ``process()``."""

from __future__ import annotations

import traceback
from enum import Enum
from typing import Final, NamedTuple

from litemq.client.settling.retry_policy import Retry, RetryPolicy
from litemq.errors import HandlerTimeoutError
from litemq.types import DeadReason

__all__ = ["AckPolicy", "Failure", "Handling", "Outcome", "Verdict", "failure_of", "one_line", "outcome_of"]

_MOST_ERROR: Final = 1_000
_MOST_STACK: Final = 8_000


class AckPolicy(Enum):
    """When a message is acknowledged, and what an error means. A cancelled handler never acknowledges."""

    NACK_ON_ERROR = "nack_on_error"  # done when the handler returns; tried again when it raises
    REJECT_ON_ERROR = "reject_on_error"  # done when it returns; a dead letter when it raises
    ACK = "ack"  # done when it ends, with an error or without
    MANUAL = "manual"  # the handler settles it, or nobody does
    ACK_FIRST = "ack_first"  # done before the handler begins: at most once


class Handling(NamedTuple):
    """How the messages of a consumer are settled, where nobody says otherwise."""

    ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR
    retry: RetryPolicy = RetryPolicy()


class Failure(NamedTuple):
    """A try that failed: when the next one is due, or that there is none; and what people will want to know."""

    delay: float = 0.0
    max_retries: int = 0
    is_final: bool = False
    reason: DeadReason = DeadReason.MAX_RETRY  # of the dead letter, if it becomes one
    detail: str = ""
    error: str = ""
    stack: str = ""
    is_untried: bool = False  # it is only given back


class Verdict(Enum):
    """What is to be done."""

    ACK = "ack"
    FAIL = "fail"
    RELEASE = "release"  # to be had by others at once: it was not tried to the end
    LEAVE = "leave"


class Outcome(NamedTuple):
    """A verdict, and the failure where it is one."""

    verdict: Verdict
    failure: Failure = Failure()


def failure_of(error: BaseException, retry: RetryPolicy, attempt: int, *, is_final: bool = False, detail: str = "") -> Failure:
    """A try that ended with an error."""
    is_final = is_final or isinstance(error, retry.throws)
    delay = 0.0 if is_final else retry.delay(attempt)
    if isinstance(error, Retry) and error.delay is not None and not is_final:
        delay = error.delay
    if not detail and isinstance(error, HandlerTimeoutError):
        detail = "timeout"
    reason = DeadReason.CONSUME_ERROR if is_final else DeadReason.MAX_RETRY
    line = one_line(f"{type(error).__name__}: {error}")
    stack = _plain("".join(traceback.format_exception(error))[-_MOST_STACK:])  # its end says most
    return Failure(delay, retry.max_retries, is_final, reason, detail, line, stack)


def one_line(text: str) -> str:
    """What people are told about an error: one line, and not too long."""
    return _plain(text.replace("\n", " ")[:_MOST_ERROR])


def _plain(text: str) -> str:
    """Text that can be sent: a halved character may stand in anybody's error."""
    return text.encode(errors="replace").decode()


def outcome_of(
    handling: Handling, error: BaseException | None, attempt: int, *, is_undecodable: bool = False, is_settled: bool = False
) -> Outcome:
    """What to do with a message whose handler ended. ``is_undecodable``: with the error that its own payload cannot be read."""
    policy = handling.ack_policy
    if is_settled or policy is AckPolicy.ACK_FIRST:
        return Outcome(Verdict.LEAVE)
    if error is not None and not isinstance(error, Exception):  # cancelled, or the program ends
        return Outcome(Verdict.LEAVE if policy is AckPolicy.MANUAL else Verdict.RELEASE)
    if policy is AckPolicy.MANUAL:
        return Outcome(Verdict.LEAVE)
    if error is None or policy is AckPolicy.ACK:
        return Outcome(Verdict.ACK)
    if is_undecodable:
        return Outcome(Verdict.FAIL, failure_of(error, handling.retry, attempt, is_final=True, detail="undecodable"))
    is_final = policy is AckPolicy.REJECT_ON_ERROR and not isinstance(error, Retry)
    return Outcome(Verdict.FAIL, failure_of(error, handling.retry, attempt, is_final=is_final))
