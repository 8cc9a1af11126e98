"""Verdicts: one answer for any evidence."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.explain.verdict import DeadLetterCause, Delivery, Evidence, Half, Verdict, reason
from litemq.types import DeadReason

NOW = 1_700_000_000_000
READY = Delivery("queue 3", 10, 10, is_done=False)
EVIDENCE = Evidence("m-1", "billing", "orders", NOW, stored_at=NOW - 1_000, delivery=READY, consumers=1)
DEAD = DeadLetterCause(DeadReason.MAX_RETRY, "ValueError: bad", NOW - 500, 17, "0011", is_there=True)


@pytest.mark.parametrize(
    ("evidence", "verdict", "words"),
    [
        (EVIDENCE, Verdict.READY, "ready: offset 10 of queue 3 is the next message"),
        (replace(EVIDENCE, is_topic=False), Verdict.NO_TOPIC, "topic 'orders' does not exist"),
        (replace(EVIDENCE, is_found=False), Verdict.NOT_FOUND, "never stored, or retention deleted it"),
        (
            replace(EVIDENCE, is_found=False, sent_at=NOW - 9, oldest_at=NOW),
            Verdict.TAKEN_BY_RETENTION,
            "retention has deleted all messages",
        ),
        (replace(EVIDENCE, is_found=False, sent_at=NOW, oldest_at=NOW), Verdict.NOT_FOUND, "never stored"),
        (replace(EVIDENCE, delivery=READY._replace(is_done=True)), Verdict.CONSUMED, "has acknowledged offset 10"),
        (replace(EVIDENCE, dead_letter=DEAD), Verdict.DEAD, "17 tries failed: ValueError: bad"),
        (
            replace(EVIDENCE, dead_letter=DEAD._replace(reason=DeadReason.TTL_EXPIRED, error="")),
            Verdict.DEAD,
            "it expired before",
        ),
        (replace(EVIDENCE, dead_letter=DEAD._replace(is_there=False)), Verdict.SENT_ON, "redriven or dropped later"),
        (replace(EVIDENCE, dead_letter=DEAD._replace(is_there=False), stored_at=NOW), Verdict.READY, "but ready"),
        (
            replace(EVIDENCE, dead_letter=DEAD._replace(is_there=False), delivery=READY._replace(is_done=True)),
            Verdict.CONSUMED,
            "acknowledged",
        ),
        (
            replace(EVIDENCE, half=Half("q/0/0/0", is_open=True, is_decided=False)),
            Verdict.UNDECIDED,
            "'q/0/0/0' is undecided",
        ),
        (
            replace(EVIDENCE, half=Half("q/0/0/0", is_open=False, is_decided=True)),
            Verdict.READY,
            "is publishing its messages",
        ),
        (
            replace(EVIDENCE, half=Half("q/0/0/0", is_open=False, is_decided=False)),
            Verdict.ROLLED_BACK,
            "was rolled back",
        ),
        (replace(EVIDENCE, due=NOW + 90_000), Verdict.NOT_DUE, "in 90.0 s"),
        (replace(EVIDENCE, due=NOW + 7_200_000), Verdict.NOT_DUE, "in 2.0 hours"),
        (replace(EVIDENCE, due=NOW + 90_000, delay_time=NOW + 5), Verdict.NOT_DUE, "rescheduled from"),
        (
            replace(EVIDENCE, due=NOW + 90_000, is_cancelled=True),
            Verdict.CANCELLED,
            "it was cancelled before its due time",
        ),
        (
            replace(EVIDENCE, waiting_try=(NOW + 4_000, 2)),
            Verdict.WAITS_FOR_TRY,
            "try 2 failed and the next try is due at",
        ),
        (replace(EVIDENCE, waiting_try=(NOW - 1, 2)), Verdict.WAITS_FOR_TRY, "due now"),
        (replace(EVIDENCE, expire_at=NOW), Verdict.EXPIRED, "it expired at"),
        (replace(EVIDENCE, expire_at=NOW + 1), Verdict.READY, "but ready"),
        (replace(EVIDENCE, is_paused=True), Verdict.PAUSED, "'billing' is paused"),
        (
            replace(EVIDENCE, filter="red", fits_filter=False),
            Verdict.FILTERED,
            "filter 'red' of group 'billing' rejects it",
        ),
        (
            replace(EVIDENCE, filter="red", fits_filter=False, delivery=READY._replace(is_done=True)),
            Verdict.FILTERED,
            "filter 'red' of group 'billing' has rejected it",
        ),
        (
            replace(EVIDENCE, delivery=READY._replace(lease_until=NOW + 5_000, tries=2)),
            Verdict.LEASED,
            "leased it for try 2",
        ),
        (replace(EVIDENCE, delivery=READY._replace(lease_until=NOW, tries=2)), Verdict.READY, "leased 2 times"),
        (
            replace(EVIDENCE, delivery=READY._replace(group_offset=-1), consumers=0),
            Verdict.BEFORE_START,
            "never read queue 3",
        ),
        (
            replace(EVIDENCE, delivery=READY._replace(ahead=7), consumers=0),
            Verdict.NOBODY_COMES,
            "7 messages are ahead of it",
        ),
        (
            replace(EVIDENCE, delivery=READY._replace(ahead=7, owner="worker-1")),
            Verdict.BEHIND,
            "7 messages that group 'billing' has not consumed are ahead of it in queue 3 (owned by worker-1)",
        ),
    ],
)
def test_verdict_and_sentence_of_each_obstacle(evidence: Evidence, verdict: Verdict, words: str) -> None:
    answer = reason(evidence)
    assert answer.verdict is verdict
    assert words in answer.sentence
    assert answer.is_consumed is (verdict is Verdict.CONSUMED)
    assert answer.sentence.startswith("consumed" if answer.is_consumed else "not ")


times = st.sampled_from([0, NOW - 1_000, NOW, NOW + 1_000])


@given(
    st.builds(
        Evidence,
        st.just("m-1"),
        st.just("billing"),
        st.sampled_from(["", "orders"]),
        st.just(NOW),
        is_topic=st.booleans(),
        is_found=st.booleans(),
        stored_at=times,
        oldest_at=times,
        due=times,
        expire_at=times,
        delivery=st.none()
        | st.builds(
            Delivery,
            st.just("queue 3"),
            st.just(10),
            st.integers(-1, 11),
            st.booleans(),
            times,
            st.integers(0, 3),
            st.just(""),
            st.integers(0, 2),
        ),
        waiting_try=st.none() | st.tuples(times, st.integers(1, 3)),
        dead_letter=st.none()
        | st.builds(
            DeadLetterCause,
            st.sampled_from(DeadReason),
            st.just(""),
            times,
            st.integers(0, 3),
            st.just(""),
            st.booleans(),
        ),
        is_paused=st.booleans(),
        consumers=st.integers(0, 1),
        filter=st.just("red"),
        fits_filter=st.booleans(),
        sent_at=times,
    )
)
def test_reason_always_answers_and_says_consumed_only_of_settled_messages(evidence: Evidence) -> None:
    answer = reason(evidence)
    if answer.is_consumed:
        assert evidence.is_found
        assert evidence.delivery is not None
        assert evidence.delivery.is_done
        assert evidence.fits_filter
        assert evidence.waiting_try is None
        assert evidence.dead_letter is None or not evidence.dead_letter.is_there
