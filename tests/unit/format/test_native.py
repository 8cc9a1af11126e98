"""The C loops accept only what the scalar codec accepts, and survive any input."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import RecordFormatError
from litemq.format import native
from litemq.format.batches.scan import scan
from litemq.format.batches.stamp import group_by_queue, queue_entries, stamp_batch
from litemq.format.columns.keys import hash_keys
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.crc import crc32c
from litemq.format.limits import (
    DEFAULT_LIMITS,
    MAX_KEY_BYTES,
    MAX_MESSAGE_ID_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_TAG_BYTES,
    MAX_TOPIC_BYTES,
)
from litemq.format.record import FIXED_BYTES, Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import LATEST_TIME_MS, Record, RecordKind, Stamp
from support.records import RECORDS, STAMPS, with_right_crcs

Longs = npt.NDArray[np.int64]

EDGES = [-(2**63), -(2**63) + 144, -144, -8, -1, 2**31, 2**32, 2**63 - 144, 2**63 - 1]
STARTS = st.lists(st.integers(-200, 1500) | st.sampled_from(EDGES), max_size=6)


@pytest.fixture(autouse=True, scope="module")
def loops() -> None:
    """Run these tests once: they call the C loops directly."""
    if not native.enabled:
        pytest.skip("the extension was not built, or LITEMQ_PURE is set")


def _examine(
    buffer: bytes | bytearray,
    starts: list[int] | Longs,
    stage: Stage,
    *,
    most: int = DEFAULT_LIMITS.max_record_bytes,
    verify_crc: bool = True,
) -> int:
    return native.loops.examine(buffer, np.array(starts, np.int64), stage is Stage.STORED, most, verify_crc)


def _accepts(buffer: bytes, start: int, stage: Stage) -> bool:
    try:
        decode_record(buffer, start, stage=stage)
    except RecordFormatError:
        return False
    return True


@given(st.lists(st.tuples(RECORDS, STAMPS), max_size=5), st.sampled_from(Stage))
def test_every_valid_batch_is_sound(batch: list[tuple[Record, Stamp]], stage: Stage) -> None:
    """The verdict is positive for every valid batch, so the fast path is used."""
    whole = b"".join(encode_record(record, stamp if stage is Stage.STORED else None) for record, stamp in batch)
    verdict = _examine(whole, scan(whole).starts, stage)
    alike = len({(record.tags, tuple(record.properties.items())) for record, _ in batch}) <= 1
    assert verdict == (native.loops.ALIKE if alike else native.loops.SOUND)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=4),
    st.sampled_from(Stage),
    st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 255)), max_size=4),
    STARTS,
    st.booleans(),
)
def test_a_positive_verdict_agrees_with_the_scalar_codec(
    batch: list[tuple[Record, Stamp]], stage: Stage, changes: list[tuple[int, int]], starts: list[int], repaired: bool
) -> None:
    whole = bytearray(
        b"".join(encode_record(record, stamp if stage is Stage.STORED else None) for record, stamp in batch)
    )
    found = scan(whole).starts.tolist()
    for at, value in changes:
        whole[at % len(whole)] = value
    if repaired:
        for begin, end in zip(found, [*found[1:], len(whole)], strict=True):
            whole[begin:end] = with_right_crcs(whole[begin:end], stamped=stage is Stage.STORED)
    data = bytes(whole)
    for chosen in (found, starts, found + starts):
        if _examine(data, chosen, stage):
            assert all(start >= 0 and _accepts(data, start, stage) for start in chosen)
        else:
            assert not all(start >= 0 and _accepts(data, start, stage) for start in chosen)
        native.loops.are_of_topic(data, np.array(chosen, np.int64), b"orders")


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans(), STARTS)
def test_noise_is_never_sound(noise: bytes, headed: bool, starts: list[int]) -> None:
    data = b"\x00\x00\x01\x00LMQ\x02" + noise + bytes(256) if headed else noise
    for stage in Stage:
        verdict = _examine(data, starts, stage)
        assert verdict == (native.loops.NO_VERDICT if starts else native.loops.ALIKE)


@given(st.binary(max_size=1200) | RECORDS.map(encode_record), st.integers(0, 2000), st.integers(0, 2000))
def test_a_scan_agrees_with_numpy(data: bytes, one: int, other: int) -> None:
    begin, end = sorted((one % (len(data) + 1), other % (len(data) + 1)))
    with pytest.MonkeyPatch.context() as patch:
        quick = scan(data, begin, end)
        patch.setattr(native, "enabled", False)
        slow = scan(data, begin, end)
    assert (quick.starts.tolist(), quick.end, quick.stop) == (slow.starts.tolist(), slow.end, slow.stop)


def test_utf8_validation_agrees_with_python() -> None:
    middle = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xFF]
    texts = [bytes([first, second]) for first in range(256) for second in range(256)]
    texts += [
        bytes([first, second, third, 0x80]) for first in range(0xC0, 256) for second in middle for third in middle
    ]
    texts += [b"1234567" + bytes([first]) for first in range(256)]
    texts += [bytes([0xF0, 0x90, 0x80][:cut]) for cut in range(4)]
    for text in texts:
        record = bytearray(encode_record(Record("orders", sharding_key="x" * len(text))))
        at = record.index(b"orders") + 6
        record[at : at + len(text)] = text
        data = with_right_crcs(record, stamped=False)
        assert bool(_examine(data, [0], Stage.SENT)) == _accepts(data, 0, Stage.SENT), text


def _patched(record: Record, at: int, value: bytes, stamp: Stamp | None) -> bytes:
    data = bytearray(encode_record(record, stamp))
    data[at : at + len(value)] = value
    return with_right_crcs(data, stamped=stamp is not None)


TIME_EDGES = [LATEST_TIME_MS, LATEST_TIME_MS + 1, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("at", range(8, 144))
def test_every_byte_of_the_header_at_its_edges(at: int, stage: Stage) -> None:
    record = Record("orders", b"body", "id", ("tag",), ("key",), {"a": "b"}, born_host="h")
    stamp = Stamp() if stage is Stage.STORED else None
    for value in (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 63, 64, 65, 127, 128, 254, 255):
        data = _patched(record, at, bytes([value]), stamp)
        assert bool(_examine(data, [0], stage)) == _accepts(data, 0, stage), value


@pytest.mark.parametrize("at", [16, 24, 32, 40, 64, 72, 80])
@pytest.mark.parametrize("value", [*TIME_EDGES, 0, 2**63 + 1, 2**64 - 2])
def test_numbers_of_64_bits_at_their_edges(at: int, value: int) -> None:
    data = _patched(Record("orders"), at, value.to_bytes(8, "big"), Stamp())
    assert bool(_examine(data, [0], Stage.STORED)) == _accepts(data, 0, Stage.STORED)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("what", ["message_id", "topic", "tag", "key", "tags", "keys", "properties", "size"])
def test_limits(what: str, more: int) -> None:
    """Each limit is accepted, and one more is not."""
    plain: dict[str, tuple[int, bytes]] = {
        "message_id": (0, b"i" * (MAX_MESSAGE_ID_BYTES + more)),
        "topic": (1, b"t" * (MAX_TOPIC_BYTES + more)),
        "tag": (5, (MAX_TAG_BYTES + more).to_bytes(2, "big") + b"t" * (MAX_TAG_BYTES + more)),
        "tags": (5, b"\x00\x01t" * (64 + more)),
        "key": (6, (MAX_KEY_BYTES + more).to_bytes(2, "big") + b"k" * (MAX_KEY_BYTES + more)),
        "keys": (6, b"\x00\x01k" * (64 + more)),
        "properties": (
            7,
            b"\x00\x01p" + (MAX_PROPERTIES_BYTES - 5).to_bytes(2, "big") + bytes(MAX_PROPERTIES_BYTES - 5 + more),
        ),
        "size": (8, bytes(1024 - FIXED_BYTES - 1 + 8 * more)),
    }
    parts = [b""] * 9
    parts[1] = b"t"
    place, content = plain[what]
    parts[place] = content
    if what == "properties":
        parts[7] = (
            b"\x00\x01p" + (MAX_PROPERTIES_BYTES - 5 + more).to_bytes(2, "big") + bytes(MAX_PROPERTIES_BYTES - 5 + more)
        )
    record = bytearray(encode_record(Record("t"))[:FIXED_BYTES]) + b"".join(parts)
    record += bytes(-len(record) % 8)
    record[0:4] = len(record).to_bytes(4, "big")
    for number in range(5):
        record[116 + 2 * number : 118 + 2 * number] = len(parts[number]).to_bytes(2, "big")
    for number in range(4):
        record[128 + 4 * number : 132 + 4 * number] = len(parts[5 + number]).to_bytes(4, "big")
    tags = {"tag": crc32c(parts[5][2:]), "tags": 0xFFFFFFFF}.get(what, 0)
    record[104:108] = tags.to_bytes(4, "big")
    data = with_right_crcs(record, stamped=False)
    most = 1024 if what == "size" else DEFAULT_LIMITS.max_record_bytes
    assert bool(_examine(data, [0], Stage.SENT, most=most)) == (not more)
    assert len(scan(data).starts) == 1


@pytest.mark.parametrize("count", [2, 32, 33, 200])
def test_repeated_property_names_are_detected(count: int) -> None:
    record = encode_record(Record("t", properties={f"{number:03d}": "" for number in range(count)}))
    assert bool(_examine(record, [0], Stage.SENT)) == (count <= 32)  # more of them: no verdict
    twice = with_right_crcs(record.replace(f"{count - 1:03d}".encode(), b"000"), stamped=False)
    assert not _examine(twice, [0], Stage.SENT)


def test_lengths_that_would_overflow() -> None:
    record = bytearray(encode_record(Record("orders", b"x" * 100)))
    record[116:126] = b"\xff" * 10
    record[128:144] = b"\xff" * 16
    for size in (0, 8, 136, 144, 248, 256, 2**31, 2**32 - 8, 2**32 - 1):
        record[0:4] = size.to_bytes(4, "big")
        assert not _examine(record, [0], Stage.SENT, most=2**62)
        assert not native.loops.are_of_topic(record, np.array([0]), b"orders")
        starts, end = native.loops.scan(record, 0, len(record), 2**62)
        assert (len(starts) // 8, end) == ((1, size) if size in (144, 248, 256) else (0, 0))


def test_the_topic_of_no_records() -> None:
    assert native.loops.are_of_topic(b"", np.empty(0, np.int64), b"orders")


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_both_implementations_of_crc32c_agree(data: bytes, before: int) -> None:
    assert native.loops.crc32c(data, before) == native.loops.crc32c_by_table(data, before) == crc32c(data, before)


def test_long_checksums() -> None:
    data = np.random.default_rng(1).integers(0, 256, 300_000, np.uint8)
    for length in (767, 768, 769, 1535, 1536, 65_536, 70_001, 300_000):
        part = data[:length].tobytes()
        assert native.loops.crc32c(part) == native.loops.crc32c_by_table(part) == crc32c(part)


WRONG_ARRAYS: list[Any] = [
    np.array([0.0]),
    np.array([0], ">i8"),
    np.array([0], np.int32),
    np.array([0], np.uint64),
    np.array([[0]]),
    np.arange(4)[::2],
    [0],
    None,
]


@pytest.mark.parametrize("wrong", WRONG_ARRAYS, ids=repr)
def test_arrays_of_another_kind_are_refused(wrong: Any) -> None:
    record, crcs = encode_record(Record("orders")), np.empty(1, np.uint32)
    calls: list[Callable[[], object]] = [
        lambda: native.loops.examine(record, wrong, False, 1 << 20, True),
        lambda: native.loops.are_of_topic(record, wrong, b"orders"),
        lambda: native.loops.crc32c_of_strings(record, wrong, np.array([0]), 0, crcs),
        lambda: native.loops.crc32c_of_strings(record, np.array([0]), wrong, 0, crcs),
        lambda: native.loops.crc32c_of_rows(np.zeros((1, 8), np.uint8), 8, wrong),
    ]
    for call in calls:
        with pytest.raises((TypeError, BufferError, ValueError)):
            call()


@pytest.mark.parametrize(
    ("position", "length"), [(-1, 1), (0, -1), (0, 11), (11, 0), (10, 1), (2**63 - 1, 1), (1, 2**63 - 1), (-(2**63), 1)]
)
def test_strings_outside_the_buffer_are_refused(position: int, length: int) -> None:
    with pytest.raises(IndexError):
        native.loops.crc32c_of_strings(bytes(10), np.array([position]), np.array([length]), 0, np.empty(1, np.uint32))


def test_shapes_that_do_not_fit_are_refused() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(IndexError):
        native.loops.crc32c_of_strings(bytes(10), one, two, 0, np.empty(1, np.uint32))
    with pytest.raises(IndexError):
        native.loops.crc32c_of_strings(bytes(10), two, two, 0, np.empty(1, np.uint32))
    for width in (0, -8, 7, 16):
        with pytest.raises(ValueError, match="rows"):
            native.loops.crc32c_of_rows(np.zeros((2, 8), np.uint8), width, np.empty(2, np.uint32))
    for begin, end in ((-1, 5), (5, 4), (0, 11)):
        with pytest.raises(IndexError):
            native.loops.scan(bytes(10), begin, end, 1 << 20)


def test_a_buffer_that_another_thread_changes() -> None:
    """Another thread overwrites the records meanwhile: any verdict is fine, a crash is not."""
    clean = b"".join(
        encode_record(Record("orders", bytes(600), f"{n}", ("a",), ("k",), {"p": "q"})) for n in range(400)
    )
    batch = bytearray(clean)
    starts = scan(clean).starts
    lengths = (starts[:, None] + np.arange(116, 144)).ravel()
    view = np.frombuffer(batch, np.uint8)
    stop = threading.Event()

    def scribble() -> None:
        randomness = np.random.default_rng(1)
        while not stop.is_set():
            view[lengths] = randomness.integers(0, 256, lengths.size, np.uint8)
            view[:] = np.frombuffer(clean, np.uint8)

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(300):
            native.loops.scan(batch, 0, len(batch), 1 << 20)
            native.loops.examine(batch, starts, False, 1 << 20, False)
            native.loops.are_of_topic(batch, starts, b"orders")
    finally:
        stop.set()
        thread.join()


NINE: dict[str, Longs | int] = {
    "commitlog_offsets": np.array([7, 8]),
    "queue_offsets": np.array([0, 2**63 - 1]),
    "topic_ids": 2**32 - 1,
    "queue_ids": np.array([0, 2**32 - 1]),
    "store_timestamp": LATEST_TIME_MS,
    "epoch": 2**32 - 1,
    "kinds": 7,
    "origins": np.array([-1, 2**63 - 1]),
    "consume_counts": 65535,
}
WRONG_VALUES: list[Any] = [
    *WRONG_ARRAYS,
    -2,
    2**63,
    2**64,
    -(2**63) - 1,
    1.0,
    np.int64(1),
    np.array([0, -2]),
    np.array([1, 2, 3]),
    np.empty(0, np.int64),
]


@pytest.mark.parametrize("field", NINE)
@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=repr)
def test_all_records_are_stamped_or_none(field: str, wrong: Any) -> None:
    record = encode_record(Record("orders"))
    buffer, starts = bytearray(record * 2), np.array([0, len(record)])
    assert not native.loops.stamp(buffer, starts, *(NINE | {field: wrong}).values())
    assert buffer == record * 2
    assert native.loops.stamp(buffer, starts, *NINE.values())
    assert [decode_record(buffer, start).stamp for start in starts.tolist()] == [
        Stamp(7, 0, LATEST_TIME_MS, -1, 2**32 - 1, 0, 2**32 - 1, RecordKind.CONTROL, 65535),
        Stamp(8, 2**63 - 1, LATEST_TIME_MS, 2**63 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, RecordKind.CONTROL, 65535),
    ]


@pytest.mark.parametrize("start", [*EDGES, 25, 1000])
def test_nothing_is_stamped_outside_the_buffer(start: int) -> None:
    record = encode_record(Record("orders"))
    buffer, starts = bytearray(record + bytes(16)), np.array([0, start])
    assert not native.loops.stamp(buffer, starts, *NINE.values())
    assert buffer == record + bytes(16)
    assert not native.loops.queue_entries(buffer, starts, None, starts, 0, np.empty(48, np.uint8))


@pytest.mark.parametrize("order", [[0, 2], [-1, 0], [0, 2**63 - 1], [0], [0, 1, 0]])
def test_an_invalid_order_of_entries_is_refused(order: list[int]) -> None:
    record = encode_record(Record("orders"))
    starts, entries = np.array([0, len(record)]), np.empty(48, np.uint8)
    assert not native.loops.queue_entries(record * 2, starts, np.array(order), starts, 0, entries)
    assert native.loops.queue_entries(record * 2, starts, np.array([1, 0]), starts, 0, entries)
    assert not native.loops.queue_entries(record * 2, starts, None, starts, 0, np.empty(24, np.uint8))
    assert not native.loops.queue_entries(record * 2, starts, None, starts, 2**64, entries)


@given(
    st.lists(st.tuples(RECORDS, STAMPS), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=8, max_size=8),
)
def test_stamps_and_entries_agree_with_numpy(batch: list[tuple[Record, Stamp]], places: list[tuple[int, int]]) -> None:
    sent = b"".join(encode_record(record) for record, _ in batch)
    columns = [
        np.array([getattr(stamp, name) for _, stamp in batch], np.int64)
        for name in ("commitlog_offset", "queue_offset", "origin")
    ]
    topics, queues = (np.array([place[i] for place in places[: len(batch)]], np.int64) for i in (0, 1))
    results = []
    for quick in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "enabled", quick)
            buffer = bytearray(sent)
            found = RecordColumns(buffer, scan(buffer).starts)
            found.header  # noqa: B018 (it must not be what is shown afterwards)
            stamp_batch(
                found,
                commitlog_offsets=columns[0],
                queue_offsets=columns[1],
                origins=columns[2],
                topic_ids=topics,
                queue_ids=queues,
                store_timestamp=5,
                epoch=6,
            )
            runs = group_by_queue(topics, queues)
            entries = queue_entries(
                found, runs, commitlog_offsets=columns[0], store_timestamps=found.header["store_timestamp"]
            )
            results.append((buffer, entries.tobytes(), found.header["commitlog_offset"].tolist()))
    assert results[0] == results[1]


@given(
    st.lists(RECORDS, max_size=8), st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 255)), max_size=3), STARTS
)
def test_key_hashes_agree_with_numpy_or_have_no_verdict(
    records: list[Record], changes: list[tuple[int, int]], starts: list[int]
) -> None:
    whole = bytearray(b"".join(map(encode_record, records)))
    found = RecordColumns(whole, scan(whole).starts)
    hashes, owners = hash_keys(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        expected = hash_keys(found)
    assert (hashes.tolist(), owners.tolist()) == (expected.hashes.tolist(), expected.owners.tolist())
    del hashes, owners, expected
    for at, value in changes[: len(whole)]:
        whole[at % len(whole)] = value
    native.loops.hash_keys(whole, found.starts)
    outside = np.array([*found.starts.tolist(), *starts], np.int64)
    if any(not 0 <= start <= len(whole) - FIXED_BYTES for start in starts):
        assert native.loops.hash_keys(whole, outside) is None


def test_keys_that_do_not_add_up_have_no_hashes() -> None:
    record = bytearray(encode_record(Record("orders", keys=("key",))))
    record[record.index(b"\x00\x03key") + 1] = 4
    assert native.loops.hash_keys(record, np.array([0])) is None


@given(st.binary(max_size=1500), STARTS, st.sampled_from(EDGES) | st.integers(0, 10), st.integers(0, 2**32 - 1))
def test_counting_intact_records_accepts_any_starts(buffer: bytes, starts: list[int], first: int, number: int) -> None:
    places = np.array(starts, np.int64)
    assert 0 <= native.loops.count_intact(buffer, places, places[::-1].copy(), first, number, number) <= len(starts)
    if starts:
        with pytest.raises(ValueError, match="a place for each"):
            native.loops.count_intact(buffer, places, places[1:].copy(), first, number, number)
