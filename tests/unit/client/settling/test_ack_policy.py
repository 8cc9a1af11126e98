"""What becomes of a message when its handler ends: every policy with every end."""

import asyncio

import pytest

from litemq.client.settling.ack_policy import AckPolicy, Failure, Handling, Verdict, failure_of, outcome_of
from litemq.client.settling.retry_policy import Retry, RetryPolicy
from litemq.errors import HandlerTimeoutError
from litemq.types import DeadReason

RETRY = RetryPolicy(max_retries=3, min_backoff=8, jitter=0, throws=(LookupError,))
ENDS = {"well": None, "error": ValueError("bad"), "throws": KeyError("k"), "retry": Retry(5), "cancelled": asyncio.CancelledError()}

# What is done at each end: "n" with a delay of n seconds, "dead" at once.
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
    verdict, failure = outcome_of(Handling(policy, RETRY), ENDS[end], 1)
    said = verdict.value if verdict is not Verdict.FAIL else "dead" if failure.is_final else f"{failure.delay:g}"
    assert said == TABLE[policy][end]


@pytest.mark.parametrize("policy", AckPolicy, ids=lambda policy: policy.value)
@pytest.mark.parametrize("end", ENDS)
def test_what_was_settled_by_hand_is_left_alone(policy: AckPolicy, end: str) -> None:
    assert outcome_of(Handling(policy, RETRY), ENDS[end], 1, is_settled=True).verdict is Verdict.LEAVE


def test_a_payload_that_cannot_be_read_is_not_tried_again() -> None:
    verdict, failure = outcome_of(Handling(retry=RETRY), ValueError("no JSON"), 1, is_undecodable=True)
    assert verdict is Verdict.FAIL
    assert failure[:5] == (0, 3, True, DeadReason.CONSUME_ERROR, "undecodable")
    assert outcome_of(Handling(AckPolicy.MANUAL), ValueError(), 1, is_undecodable=True).verdict is Verdict.LEAVE


def test_a_time_limit_is_told_in_a_word() -> None:
    assert failure_of(HandlerTimeoutError("slow"), RETRY, 1).detail == "timeout"
    assert failure_of(ValueError("slow"), RETRY, 1).detail == ""


def test_the_next_try_comes_later_each_time() -> None:
    delays = [outcome_of(Handling(retry=RETRY), ValueError(), attempt).failure.delay for attempt in (1, 2, 3)]
    assert delays == [8, 16, 32]
    assert outcome_of(Handling(retry=RETRY), Retry(), 2).failure.delay == 16


def test_a_failure_tells_what_people_want_to_know() -> None:
    with pytest.raises(ValueError, match="two") as raised:
        raise ValueError("two\nlines\ud800" + "!" * 20_000)
    failure = failure_of(raised.value, RETRY, 1)
    assert failure.error.startswith("ValueError: two lines?!!!")
    assert len(failure.error) == 1000
    assert failure.stack.endswith("!!!\n")
    assert len(failure.stack) == 8000
    assert failure.max_retries == 3
    assert failure.reason is DeadReason.MAX_RETRY  # if it was the last try
    assert Failure().delay == 0
