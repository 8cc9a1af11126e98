"""The outcome of a failed call, for the log and for the caller of a task."""

from __future__ import annotations

from typing import NamedTuple

from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Failure, SettlePolicy, Verdict, decide_outcome
from litemq.client.settling.run_limits import retry_policy_for

__all__ = ["FailedCall", "judge_failure"]


class FailedCall(NamedTuple):
    """What becomes of a message whose call failed."""

    verdict: Verdict
    failure: Failure
    is_last: bool  # there is no further attempt


def judge_failure(policy: SettlePolicy, message: Message, error: Exception) -> FailedCall:
    """Return what becomes of ``message``, whose call ended with ``error``."""
    retry = retry_policy_for(message.properties, policy.retry)
    verdict, failure = decide_outcome(
        SettlePolicy(policy.ack_policy, retry), error, message.attempt, is_undecodable=message.undecodable is error
    )
    is_last = verdict is not Verdict.FAIL or failure.is_final or message.attempt > failure.max_retries
    return FailedCall(verdict, failure, is_last)
