"""The decision what to do with a message when its handler or ``process()`` block ends. No I/O."""

from __future__ import annotations

import traceback
from enum import Enum
from typing import Final, NamedTuple

from litemq.client.settling.retry_policy import Retry, RetryPolicy
from litemq.errors import HandlerTimeoutError
from litemq.types import DeadReason

__all__ = ["AckPolicy", "Failure", "Outcome", "SettlePolicy", "Verdict", "decide_outcome", "make_failure", "one_line"]

_MAX_ERROR: Final = 1_000
_MAX_STACK: Final = 8_000


class AckPolicy(Enum):
    """When a message is acknowledged, and what an error means.

    A cancelled handler never acknowledges.
    """

    NACK_ON_ERROR = "nack_on_error"  # ack when the handler returns, retry when it raises
    REJECT_ON_ERROR = "reject_on_error"  # ack when it returns, dead letter when it raises
    ACK = "ack"  # ack when it ends, with or without an error
    MANUAL = "manual"  # only the handler settles
    ACK_FIRST = "ack_first"  # ack before the handler starts: at most once


class SettlePolicy(NamedTuple):
    """The default ack and retry policies for the messages of a consumer."""

    ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR
    retry: RetryPolicy = RetryPolicy()


class Failure(NamedTuple):
    """A failed attempt: the delay of the next one, if any, and the details for a dead letter."""

    delay: float = 0.0
    max_retries: int = 0
    is_final: bool = False
    reason: DeadReason = DeadReason.MAX_RETRY  # of the dead letter, if the message becomes one
    detail: str = ""
    error: str = ""
    stack: str = ""
    is_untried: bool = False  # returned unprocessed: does not count as an attempt


class Verdict(Enum):
    """The action for a message."""

    ACK = "ack"
    FAIL = "fail"
    RELEASE = "release"  # return it unprocessed, for delivery at once
    LEAVE = "leave"


class Outcome(NamedTuple):
    """A verdict, with the failure if it is ``FAIL``."""

    verdict: Verdict
    failure: Failure = Failure()


def make_failure(
    error: BaseException, retry: RetryPolicy, attempt: int, *, is_final: bool = False, detail: str = ""
) -> Failure:
    """Describe an attempt that ended with ``error``."""
    is_final = is_final or isinstance(error, retry.throws)
    delay = 0.0 if is_final else retry.delay(attempt)
    if isinstance(error, Retry) and error.delay is not None and not is_final:
        delay = error.delay
    if not detail and isinstance(error, HandlerTimeoutError):
        detail = "timeout"
    reason = DeadReason.CONSUME_ERROR if is_final else DeadReason.MAX_RETRY
    line = one_line(f"{type(error).__name__}: {error}")
    stack = _plain("".join(traceback.format_exception(error))[-_MAX_STACK:])  # keep the end
    return Failure(delay, retry.max_retries, is_final, reason, detail, line, stack)


def one_line(text: str) -> str:
    """Shorten an error message to one line of at most 1,000 characters."""
    return _plain(text.replace("\n", " ")[:_MAX_ERROR])


def _plain(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def decide_outcome(
    settle_policy: SettlePolicy,
    error: BaseException | None,
    attempt: int,
    *,
    is_undecodable: bool = False,
    is_settled: bool = False,
) -> Outcome:
    """Decide what to do with a message whose handler ended with ``error`` or without.

    ``is_undecodable``: ``error`` says that the body cannot be deserialized.
    """
    policy = settle_policy.ack_policy
    if is_settled or policy is AckPolicy.ACK_FIRST:
        return Outcome(Verdict.LEAVE)
    if error is not None and not isinstance(error, Exception):  # cancelled, or the process exits
        return Outcome(Verdict.LEAVE if policy is AckPolicy.MANUAL else Verdict.RELEASE)
    if policy is AckPolicy.MANUAL:
        return Outcome(Verdict.LEAVE)
    if error is None or policy is AckPolicy.ACK:
        return Outcome(Verdict.ACK)
    if is_undecodable:
        return Outcome(
            Verdict.FAIL, make_failure(error, settle_policy.retry, attempt, is_final=True, detail="undecodable")
        )
    is_final = policy is AckPolicy.REJECT_ON_ERROR and not isinstance(error, Retry)
    return Outcome(Verdict.FAIL, make_failure(error, settle_policy.retry, attempt, is_final=is_final))
