"""Trace events: encoded in records that are found by the id of each message."""

from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.broker.tracing.events import TraceEvent, TraceSampler, decode_events, encode_events
from litemq.format.limits import MAX_KEYS
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
events = st.lists(
    st.builds(
        TraceEvent,
        st.integers(0, 2**45),
        st.sampled_from(["stored", "received", "acked"]),
        st.integers(0, 200).map(lambda number: f"m-{number}" if number else ""),
        words,
        st.integers(-1, 9),
        st.integers(-1, 9),
        words,
        words,
        st.integers(0, 9),
        words,
    ),
    max_size=400,
)


@settings(max_examples=40)
@given(events)
def test_events_are_decoded_and_found_by_message_id(traced: list[TraceEvent]) -> None:
    records = [decode_record(record, stage=Stage.SENT).record for record in encode_events(traced, 5)]
    read = [(record, event) for record in records for event in decode_events(record.body)]
    assert [event for _, event in read] == traced
    for record, event in read:
        assert not event.message_id or event.message_id in record.keys
        assert len(record.keys) <= MAX_KEYS


def test_empty_fields_are_not_encoded() -> None:
    (record,) = encode_events([TraceEvent(7, "acked", "m-1", "orders", 0, 0)], 5)
    assert decode_record(record, stage=Stage.SENT).record.body == (
        b'[{"at":7,"event":"acked","message_id":"m-1","topic":"orders","queue_id":0,"offset":0}]'
    )


def test_fields_of_later_versions_are_ignored() -> None:
    assert decode_events(b'[{"at":1,"event":"stored","mood":"good"}]') == [TraceEvent(1, "stored")]


def test_all_events_of_a_message_are_traced_or_none() -> None:
    off, some, all_ = TraceSampler("off", 10), TraceSampler("sampled", 10), TraceSampler("all", 10)
    ids = [f"m-{number}" for number in range(10_000)]
    assert not off.is_on
    assert not any(map(off.takes, ids))
    assert all(map(all_.takes, ids))
    taken = [one for one in ids if some.takes(one)]
    assert 800 < len(taken) < 1_200
    assert taken == [one for one in ids if TraceSampler("sampled", 10).takes(one)]
