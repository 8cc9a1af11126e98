"""Uniform sends: C, numpy and a loop over the records agree."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format import native
from litemq.format.batches.uniform_sends import UniformSends, uniform_sends
from litemq.format.record_encode import RecordTemplate, encode_record
from litemq.types import Durability, MessageType, Record
from support.records import RECORDS


class _Sent(NamedTuple):
    producer_id: int
    sequence: int
    type: MessageType
    priority: int
    reliability: Durability
    delay_time: int


SENT = st.builds(
    _Sent,
    st.sampled_from([0, 7, (1 << 64) - 1]),
    st.sampled_from([1, 2, 3, (1 << 64) - 1]),
    st.sampled_from([MessageType.NORMAL, MessageType.DELAY]),
    st.sampled_from([128, 255]),
    st.sampled_from([Durability.MEMORY, Durability.DISK]),
    st.sampled_from([0, 5, 9]),
)


def _one_by_one(sent: list[_Sent]) -> UniformSends | None:
    if len({(each.producer_id, each.type, each.priority, each.reliability) for each in sent}) != 1:
        return None
    first = sent[0]
    if first.producer_id and [each.sequence for each in sent] != [
        (first.sequence + number) % (1 << 64) for number in range(len(sent))
    ]:
        return None
    attributes = int(first.type) << 24 | first.priority << 16 | int(first.reliability) << 8
    return UniformSends(len(sent), first.producer_id, first.sequence, attributes, max(each.delay_time for each in sent))


@given(st.lists(SENT, max_size=5), st.booleans())
def test_records_of_any_senders(sent: list[_Sent], same: bool) -> None:
    if same:  # but for the sequences and times, which is what a producer sends
        sent = [sent[0]._replace(sequence=number, delay_time=each.delay_time) for number, each in enumerate(sent, 1)]
    claimed = uniform_sends(b"".join(encode_record(Record("orders", b"x", **each._asdict())) for each in sent))
    assert claimed == _one_by_one(sent)
    assert not same or not sent or claimed is not None


@given(
    st.lists(RECORDS, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.integers(0, 40),
)
def test_c_and_python_agree_on_damaged_records(sent: list[Record], changes: list[tuple[int, int]], cut: int) -> None:
    whole = bytearray(b"".join(map(encode_record, sent)))
    for at, value in changes:
        whole[at % len(whole)] = value
    batch = bytes(whole[: len(whole) - cut])
    said = []
    for enabled in {False, native.enabled}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "enabled", enabled)
            said.append(uniform_sends(batch))
    assert len(set(said)) == 1


def test_an_invalid_due_time_is_returned_unchanged() -> None:
    template = RecordTemplate("orders")
    one, other = bytearray(template.encode(b"x")), bytearray(template.encode(b"x"))
    one[72:80] = other[72:80] = b"\xff" * 8
    claimed = uniform_sends(bytes(one + other))
    assert claimed is not None
    assert claimed.latest_due == -1
    other[72:80] = bytes(8)
    claimed = uniform_sends(bytes(one + other))
    assert claimed is not None
    assert claimed.latest_due == 0


@pytest.mark.parametrize("nothing", [b"", bytes(8), bytes(144), b"x" * 200])
def test_other_bytes_are_no_uniform_sends(nothing: bytes) -> None:
    assert uniform_sends(nothing) is None
