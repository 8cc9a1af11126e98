"""The scalar and the columnar codec accept the same records and refuse the same bytes."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.batches.check import are_of_topic, check_batch, explain, find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate, encode_record
from litemq.types import Record, Stamp
from support.records import RECORDS, STAMPS, with_right_crcs

BATCHES = st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=6)


def _template_batch(count: int = 12) -> list[tuple[Record, Stamp]]:
    """Return records of one producer, which take the fast path of the columnar codec."""
    return [
        (
            Record(
                "orders",
                bytes([number]) * 20,
                f"0190-{number:04d}",
                ("paid",),
                (f"o-{number:04d}",),
                {"region": "eu", "tenant": "acme"},
                born_timestamp=1_700_000_000_000 + number,
                sequence=number,
                born_host="10.0.0.1:5000",
            ),
            Stamp(number * 200, number, 1_700_000_000_000 + number, topic_id=1, epoch=1),
        )
        for number in range(count)
    ]


def _accepts(record: bytes, stage: Stage, *, verify_crc: bool = True) -> bool:
    try:
        decode_record(record, stage=stage, verify_crc=verify_crc)
    except RecordFormatError:
        return False
    return True


def _faults(pieces: list[bytes], stage: Stage, *, verify_crc: bool = True) -> list[int]:
    """Return the indexes of the pieces that the columnar codec refuses."""
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    faults: list[int] = find_faults(
        RecordColumns(b"".join(pieces), starts), stage=stage, verify_crc=verify_crc
    ).tolist()
    return faults


@given(BATCHES, st.sampled_from(Stage))
@example(_template_batch(), Stage.SENT)
@example(_template_batch(), Stage.STORED)
def test_both_accept_every_valid_batch(batch: list[tuple[Record, Stamp]], stage: Stage) -> None:
    pieces = [encode_record(record, stamp if stage is Stage.STORED else None) for record, stamp in batch]
    assert all(_accepts(piece, stage) for piece in pieces)
    assert _faults(pieces, stage) == []
    columns = check_batch(b"".join(pieces), stage=stage)
    assert len(columns) == len(batch)


# Positions whose change reaches the deeper rules: lengths, attributes, times, strings; and any.
PLACES = st.one_of(
    st.integers(12, 63), st.integers(64, 87), st.integers(104, 143), st.integers(144, 400), st.integers(8, 400)
)
CHANGES = st.lists(
    st.tuples(PLACES, st.sampled_from([0, 1, 2, 3, 4, 5, 8, 16, 0x40, 0x7F, 0x80, 0xC3, 0xFF])), min_size=1, max_size=3
)


def _damage(piece: bytes, changes: list[tuple[int, int]], *, stamped: bool) -> bytes:
    damaged = bytearray(piece)
    for place, value in changes:
        damaged[place % len(damaged) if place >= len(damaged) else place] = value
    damaged[:8] = piece[:8]  # the size and magic keep the pieces apart; their damage is tested below
    return with_right_crcs(damaged, stamped=stamped)


@settings(max_examples=200)
@given(
    BATCHES,
    st.sampled_from(Stage),
    st.lists(st.tuples(st.integers(0, 11), CHANGES), min_size=1, max_size=4),
    st.booleans(),
)
def test_both_codecs_refuse_the_same_records_of_a_damaged_batch(
    batch: list[tuple[Record, Stamp]], stage: Stage, damages: list[tuple[int, list[tuple[int, int]]]], verify_crc: bool
) -> None:
    stored = stage is Stage.STORED
    pieces = [encode_record(record, stamp if stored else None) for record, stamp in batch]
    for number, changes in damages:
        number %= len(pieces)
        pieces[number] = _damage(pieces[number], changes, stamped=stored)
    refused = [number for number, piece in enumerate(pieces) if not _accepts(piece, stage, verify_crc=verify_crc)]
    assert _faults(pieces, stage, verify_crc=verify_crc) == refused


@settings(max_examples=400)
@given(st.integers(0, 11), CHANGES, st.sampled_from(Stage), st.booleans())
def test_both_codecs_refuse_the_same_records_of_a_uniform_batch(
    number: int, changes: list[tuple[int, int]], stage: Stage, everywhere: bool
) -> None:
    """Damage one record or all records of a batch that takes the fast path."""
    stored = stage is Stage.STORED
    pieces = [encode_record(record, stamp if stored else None) for record, stamp in _template_batch()]
    pieces = [
        _damage(piece, changes, stamped=stored) if everywhere or n == number else piece
        for n, piece in enumerate(pieces)
    ]
    refused = [n for n, piece in enumerate(pieces) if not _accepts(piece, stage)]
    assert _faults(pieces, stage) == refused


@given(BATCHES, st.data())
def test_a_batch_error_is_that_of_the_scalar_codec(batch: list[tuple[Record, Stamp]], data: st.DataObject) -> None:
    whole = bytearray(b"".join(encode_record(record, stamp) for record, stamp in batch))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    del whole[len(whole) - data.draw(st.integers(0, 20)) :]
    expected = _first_error(bytes(whole))
    if expected is None:
        check_batch(whole, stage=Stage.STORED)
        return
    with pytest.raises(RecordFormatError) as caught:
        check_batch(whole, stage=Stage.STORED)
    assert (caught.value.problem, caught.value.position) == (expected.problem, expected.position)


def _first_error(whole: bytes) -> RecordFormatError | None:
    at = 0
    while at < len(whole):
        try:
            at += decode_record(whole, at).size
        except RecordFormatError as error:
            return error
    return None


@pytest.mark.parametrize("kind", ["plain", "template"])
def test_every_flipped_bit_is_refused_by_both(kind: str) -> None:
    if kind == "plain":
        record = Record(
            "orders",
            b"body",
            "id-1",
            ("a", "b"),
            ("k",),
            {"p": "q", "订": "单"},
            sharding_key="s",
            born_host="h",
            delay_time=5,
        )
        pieces = [encode_record(record, Stamp(8, 1, 2, 3, 4, 5, 6, consume_count=7))]
    else:
        pieces = [encode_record(record, stamp) for record, stamp in _template_batch(9)]
    target = len(pieces) // 2
    before = sum(map(len, pieces[:target]))
    whole = b"".join(pieces)
    for bit in range(len(pieces[target]) * 8):
        flipped = bytearray(whole)
        flipped[before + bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_record(flipped, before)
        with pytest.raises(RecordFormatError) as caught:
            check_batch(flipped, stage=Stage.STORED)
        assert caught.value.position == before
        if bit < 64:
            # The size and the magic are under no checksum: their exact values are what guards them.
            with pytest.raises(RecordFormatError):
                decode_record(flipped, before, verify_crc=False)
            found = scan(flipped)
            columns = RecordColumns(flipped, found.starts)
            refused = find_faults(columns, verify_crc=False)
            ended = found.end == before and found.stop in (ScanStop.BROKEN, ScanStop.INCOMPLETE)
            assert (refused.size and found.starts[refused[0]] == before) or ended


@settings(max_examples=300)
@given(st.binary(max_size=2000), st.sampled_from(Stage))
def test_random_bytes_raise_only_a_format_error(noise: bytes, stage: Stage) -> None:
    for data in (noise, b"\x00\x00\x01\x00LMQ\x02" + noise + bytes(256)):
        calls: list[Callable[[], object]] = [
            lambda data=data: decode_record(data, stage=stage),  # type: ignore[misc]
            lambda data=data: check_batch(data, stage=stage),  # type: ignore[misc]
        ]
        for call in calls:
            try:
                call()
            except RecordFormatError:
                continue
            assert data == b""


def _hostile_records() -> dict[str, bytes]:
    """Return records that are as expensive as the rules allow, or claim more than they have."""
    many = RecordTemplate("t", properties={}).encode(b"")
    empty_strings = bytearray(many[:145]) + bytes(32768)
    empty_strings[136:140] = (32768).to_bytes(4, "big")
    empty_strings += bytes(-len(empty_strings) % 8)
    empty_strings[0:4] = len(empty_strings).to_bytes(4, "big")
    huge_lengths = bytearray(many)
    huge_lengths[128:144] = b"\xff" * 16
    tags = bytearray(many[:145]) + bytes(65534)
    tags[128:132] = (65534).to_bytes(4, "big")
    tags += bytes(-len(tags) % 8)
    tags[0:4] = len(tags).to_bytes(4, "big")
    return {
        "8,192 properties without a name": with_right_crcs(empty_strings, stamped=False),
        "lengths of 4 GiB": with_right_crcs(huge_lengths, stamped=False),
        "32,767 empty tags": with_right_crcs(tags, stamped=False),
        "distinct properties": encode_record(Record("t", properties={f"{n:x}": "" for n in range(4000)})),
        "non-ASCII": encode_record(
            Record(
                "t", bytes(10000), "订单" * 8, ("标签",) * 64, ("键" * 80,) * 64, {f"属{n}": "性" for n in range(2000)}
            )
        ),
        "a body of magics": encode_record(Record("t", b"\x00\x00\x00\x98LMQ\x02" * 8000)),
    }


@pytest.mark.parametrize("name", _hostile_records())
def test_hostile_records_cost_a_small_multiple_of_their_size(name: str) -> None:
    batch = _hostile_records()[name] * 4
    expected = _accepts(batch, Stage.SENT)
    check_once = bytes(batch)
    tracemalloc.start()
    try:
        for call in (lambda: decode_record(check_once, stage=Stage.SENT), lambda: check_batch(check_once)):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                call()
                accepted = True
            except RecordFormatError:
                accepted = False
            assert accepted == expected
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < 32 * len(batch) + 300_000, f"{used} bytes for {len(batch)}"
    finally:
        tracemalloc.stop()


def test_names_with_colliding_hashes_are_different() -> None:
    # crc32c of both is the same; the codec must look at the names themselves.
    one, other = _colliding_names()
    record = Record("orders", properties={one: "1", other: "2", "third": "3"})
    assert _faults([encode_record(record), encode_record(record._replace(body=b"x"))], Stage.SENT) == []
    many = [encode_record(Record("orders", bytes([n]), properties={one: str(n), other: "2"})) for n in range(20)]
    assert _faults(many, Stage.SENT) == []


def _colliding_names() -> tuple[str, str]:
    from litemq.format.crc import crc32c

    seen: dict[int, str] = {}
    for number in range(400_000):
        name = f"n{number * 2654435761 % 2**32:x}"
        other = seen.setdefault(crc32c(name.encode()), name)
        if other != name:
            return other, name
    raise AssertionError("no collision found")


def _shop(count: int) -> list[bytes]:
    """Return records with few distinct tags, enough for the quick check of tags."""
    tags = ("created", "paid", "shipped", "returned")
    return [
        encode_record(Record("orders", bytes(n % 9), f"{n}", (tags[n % 4],), (f"o-{n}",), {"p": f"{n % 3}"}), Stamp(n))
        for n in range(count)
    ]


@pytest.mark.parametrize("wrong", [{}, {7: b"x"}, {7: b"x", 1500: b"y"}])
def test_a_few_tags_repeated_over_and_over(wrong: dict[int, bytes]) -> None:
    pieces = _shop(1600)
    for number, byte in wrong.items():
        at = pieces[number].index(b"\x00\x08returned" if number % 4 == 3 else b"created") + 4
        pieces[number] = with_right_crcs(pieces[number][:at] + byte + pieces[number][at + 1 :], stamped=True)
    assert _faults(pieces, Stage.STORED) == sorted(wrong)


def test_the_same_wrong_tags_in_all_that_claim_one_hash() -> None:
    pieces = [with_right_crcs(piece.replace(b"created", b"craeted"), stamped=True) for piece in _shop(1600)]
    assert _faults(pieces, Stage.STORED) == list(range(0, 1600, 4))


def test_many_distinct_tags() -> None:
    pieces = [encode_record(Record("orders", tags=(f"tag-{n % 40}",)), Stamp()) for n in range(1200)]
    assert _faults(pieces, Stage.STORED) == []


def test_strings_of_very_different_lengths() -> None:
    hosts = ["h", "h" * 3000, "主" * 1000, ""]
    pieces = [
        encode_record(Record("orders", born_host=host, properties={"a": host[:5]}), Stamp()) for host in hosts
    ] * 3
    assert _faults(pieces, Stage.STORED) == []
    damaged = bytearray(pieces[1])
    damaged[damaged.index(b"hhh") + 1000] = 0xFF
    pieces[1] = with_right_crcs(damaged, stamped=True)
    assert _faults(pieces, Stage.STORED) == [1]


def test_long_lists() -> None:
    many = [
        encode_record(
            Record("orders", bytes(n), keys=tuple(f"k{i}" for i in range(n % 65)), tags=("t",) * (n % 30)), Stamp()
        )
        for n in range(90)
    ]
    assert _faults(many, Stage.STORED) == []
    for number in (20, 64):
        damaged = bytearray(many[number])
        damaged[damaged.index(b"\x00\x02k9") + 1] = 200  # a key that reaches beyond its list
        many[number] = with_right_crcs(damaged, stamped=True)
    assert _faults(many, Stage.STORED) == [20, 64]


def test_explain_of_a_valid_record() -> None:
    fine = encode_record(Record("orders"), Stamp())
    assert "please report" in str(explain(fine, 0))


def test_a_stage_is_one_of_two() -> None:
    with pytest.raises(InvalidArgumentError, match="stage"):
        check_batch(encode_record(Record("orders")), stage="sent")  # type: ignore[arg-type]


def test_the_topic_of_all_records() -> None:
    one, other = encode_record(Record("orders")), encode_record(Record("refund"))
    assert are_of_topic(check_batch(one * 3), b"orders")
    assert not are_of_topic(check_batch(one * 3), b"order")
    assert not are_of_topic(check_batch(one + other), b"orders")


def test_no_records_no_faults() -> None:
    assert find_faults(RecordColumns(b"", np.empty(0, np.int64))).size == 0
    assert len(check_batch(b"")) == 0
