"""The outcome of a message when its handler ends: every policy with every end."""

import asyncio

import pytest

from litemq.client.settling.ack_policy import AckPolicy, Failure, SettlePolicy, Verdict, decide_outcome, make_failure
from litemq.client.settling.retry_policy import Retry, RetryPolicy
from litemq.errors import HandlerTimeoutError
from litemq.types import DeadReason

RETRY = RetryPolicy(max_retries=3, min_backoff=8, jitter=0, throws=(LookupError,))
ENDS = {
    "well": None,
    "error": ValueError("bad"),
    "throws": KeyError("k"),
    "retry": Retry(5),
    "cancelled": asyncio.CancelledError(),
}

# The action at each end: "n" is a retry after n seconds, "dead" a dead letter at once.
TABLE = {
    AckPolicy.NACK_ON_ERROR: {"well": "ack", "error": "8", "throws": "dead", "retry": "5", "cancelled": "release"},
    AckPolicy.REJECT_ON_ERROR: {"well": "ack", "error": "dead", "throws": "dead", "retry": "5", "cancelled": "release"},
    AckPolicy.ACK: {"well": "ack", "error": "ack", "throws": "ack", "retry": "ack", "cancelled": "release"},
    AckPolicy.MANUAL: {"well": "leave", "error": "leave", "throws": "leave", "retry": "leave", "cancelled": "leave"},
    AckPolicy.ACK_FIRST: {"well": "leave", "error": "leave", "throws": "leave", "retry": "leave", "cancelled": "leave"},
}


def test_the_table_has_every_policy() -> None:
    assert list(TABLE) == list(AckPolicy)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("policy", AckPolicy, ids=lambda policy: policy.value)
def test_policy_and_end(policy: AckPolicy, end: str) -> None:
    verdict, failure = decide_outcome(SettlePolicy(policy, RETRY), ENDS[end], 1)
    action = verdict.value if verdict is not Verdict.FAIL else "dead" if failure.is_final else f"{failure.delay:g}"
    assert action == TABLE[policy][end]


@pytest.mark.parametrize("policy", AckPolicy, ids=lambda policy: policy.value)
@pytest.mark.parametrize("end", ENDS)
def test_a_settled_message_is_left_alone(policy: AckPolicy, end: str) -> None:
    assert decide_outcome(SettlePolicy(policy, RETRY), ENDS[end], 1, is_settled=True).verdict is Verdict.LEAVE


def test_an_undecodable_message_is_not_retried() -> None:
    verdict, failure = decide_outcome(SettlePolicy(retry=RETRY), ValueError("no JSON"), 1, is_undecodable=True)
    assert verdict is Verdict.FAIL
    assert failure[:5] == (0, 3, True, DeadReason.CONSUME_ERROR, "undecodable")
    assert decide_outcome(SettlePolicy(AckPolicy.MANUAL), ValueError(), 1, is_undecodable=True).verdict is Verdict.LEAVE


def test_a_timeout_is_named_in_the_detail() -> None:
    assert make_failure(HandlerTimeoutError("slow"), RETRY, 1).detail == "timeout"
    assert make_failure(ValueError("slow"), RETRY, 1).detail == ""


def test_delays_grow_with_each_attempt() -> None:
    delays = [decide_outcome(SettlePolicy(retry=RETRY), ValueError(), attempt).failure.delay for attempt in (1, 2, 3)]
    assert delays == [8, 16, 32]
    assert decide_outcome(SettlePolicy(retry=RETRY), Retry(), 2).failure.delay == 16


def test_a_failure_has_the_error_and_the_stack() -> None:
    with pytest.raises(ValueError, match="two") as raised:
        raise ValueError("two\nlines\ud800" + "!" * 20_000)
    failure = make_failure(raised.value, RETRY, 1)
    assert failure.error.startswith("ValueError: two lines?!!!")
    assert len(failure.error) == 1000
    assert failure.stack.endswith("!!!\n")
    assert len(failure.stack) == 8000
    assert failure.max_retries == 3
    assert failure.reason is DeadReason.MAX_RETRY  # if it was the last attempt
    assert Failure().delay == 0
