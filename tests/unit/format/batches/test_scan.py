"""Scans: all implementations find the same starts and the same reason to stop."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.batches.scan import ScanStop, Version, scan, scan_lanes
from litemq.format.limits import DEFAULT_LIMITS
from litemq.format.record import BLANK_MAGIC
from litemq.format.record_encode import encode_record
from litemq.format.v1.record import encode_record_v1
from litemq.types import Record, Stamp


def _naive(buffer: bytes, version: Version) -> tuple[list[int], int]:
    """Scan one record at a time, as plainly as possible."""
    starts: list[int] = []
    at = 0
    while len(buffer) - at >= 8:
        size, magic = struct.unpack_from(">II", buffer, at)
        size += 4 if version == 1 else 0
        sound = magic == (0x4C4D5102 if version == 2 else 0x4C4D5101) and size >= (144 if version == 2 else 109)
        if (
            not sound
            or (version == 2 and size % 8)
            or size > DEFAULT_LIMITS.max_record_bytes
            or at + size > len(buffer)
        ):
            break
        starts.append(at)
        at += size
    return starts, at


FAKE = encode_record(Record("f"))
BODIES = st.one_of(st.binary(max_size=60), st.just(FAKE * 3), st.just(b"\x00\x00\x00\x98LMQ\x02" * 5))
SHAPES = st.integers(0, 9).map(lambda n: Record("orders", tags=("tag",) * (n % 3), sharding_key="x" * n))
MANY = st.lists(st.tuples(SHAPES, BODIES), max_size=40)


@given(MANY, st.sampled_from([1, 2]), st.binary(max_size=12), st.integers(0, 30))
def test_scan_agrees_with_a_naive_scan(
    many: list[tuple[Record, bytes]], version: Version, behind: bytes, cut: int
) -> None:
    plain = [record._replace(body=body) for record, body in many]
    whole = b"".join(encode_record(r) if version == 2 else encode_record_v1(r, Stamp()) for r in plain) + behind
    whole = whole[: len(whole) - cut] if cut < len(whole) else whole
    starts, end = _naive(whole, version)
    found = scan(whole, version=version)
    assert (found.starts.tolist(), found.end) == (starts, end)
    if starts:
        for step in (1, 2, 7, 64):
            lanes = np.array(starts[::step])
            assert scan_lanes(whole, lanes, end, version=version).starts.tolist() == starts
            again = scan_lanes(whole, lanes, version=version)
            assert (again.starts.tolist(), again.end, again.stop) == (starts, end, found.stop)


def test_a_long_log_of_mixed_sizes_with_magics_in_bodies() -> None:
    pieces = [encode_record(Record("orders", FAKE * (n % 3) + bytes(n % 200))) for n in range(3000)]
    whole = b"".join(pieces)
    assert scan(whole).starts.tolist() == np.cumsum([0, *map(len, pieces[:-1])]).tolist()
    assert scan(whole).stop is ScanStop.END


def test_records_of_one_size_are_found_together() -> None:
    pieces = [encode_record(Record("orders", bytes([n % 256]) * 100)) for n in range(1000)]
    whole = b"".join(pieces)
    assert scan(whole).starts.tolist() == list(range(0, len(whole), len(pieces[0])))
    # The same length in all, but the last is no record.
    broken = whole[: -len(pieces[0])] + bytes(len(pieces[0]))
    found = scan(broken)
    assert (len(found.starts), found.stop) == (999, ScanStop.ZERO)


@pytest.mark.parametrize(
    ("behind", "stop"),
    [
        (b"", ScanStop.END),
        (bytes(4096), ScanStop.ZERO),
        (struct.pack(">II", 4096, BLANK_MAGIC) + bytes(4088), ScanStop.BLANK),
        (struct.pack(">II", 8192, BLANK_MAGIC) + bytes(4088), ScanStop.BLANK),
        (struct.pack(">II", 4096, BLANK_MAGIC) + bytes(4096), ScanStop.BROKEN),
        (struct.pack(">II", 4096, BLANK_MAGIC) + bytes(4087) + b"x", ScanStop.BROKEN),
        (struct.pack(">II", 0, 0x4C4D5102) + bytes(400), ScanStop.BROKEN),
        (struct.pack(">II", 8, BLANK_MAGIC), ScanStop.BLANK),
        (struct.pack(">II", 4, BLANK_MAGIC), ScanStop.BROKEN),
        (struct.pack(">II", 160, 0x4C4D5102) + bytes(100), ScanStop.INCOMPLETE),
        (struct.pack(">II", 161, 0x4C4D5102) + bytes(200), ScanStop.BROKEN),
        (struct.pack(">II", 136, 0x4C4D5102) + bytes(200), ScanStop.BROKEN),
        (struct.pack(">II", 1 << 30, 0x4C4D5102) + bytes(200), ScanStop.BROKEN),
        (b"\x00\x00\x00", ScanStop.INCOMPLETE),
        (b"garbage!", ScanStop.BROKEN),
    ],
)
def test_the_reason_of_a_scans_end(behind: bytes, stop: ScanStop) -> None:
    record = encode_record(Record("orders", b"x" * 30))
    found = scan(record + record + behind)
    assert found.starts.tolist() == [0, len(record)]
    assert found.end == 2 * len(record)
    assert found.stop is stop


@pytest.mark.parametrize("call", [(0, 1000, 2), (-8, None, 2), (9, 8, 1), (0, None, 3)])
def test_invalid_arguments_are_refused(call: tuple[int, int | None, int]) -> None:
    begin, end, version = call
    with pytest.raises(InvalidArgumentError):
        scan(encode_record(Record("orders")), begin, end, version=version)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        scan_lanes(encode_record(Record("orders")), np.array([0.5]))
    with pytest.raises(InvalidArgumentError):
        scan_lanes(encode_record(Record("orders")), np.array([10_000]))
    with pytest.raises(InvalidArgumentError):
        scan(memoryview(bytes(160)).cast("I"))


def test_a_part_of_a_buffer() -> None:
    record = encode_record(Record("orders"))
    whole = b"xyz" + record * 5 + b"behind"
    found = scan(whole, 3, 3 + 5 * len(record))
    assert found.starts.tolist() == [3 + n * len(record) for n in range(5)]
    assert found.stop is ScanStop.END


@pytest.mark.parametrize("lanes", [[], [-5], [0, 0], [0, 8], [0, 0, 160]])
def test_wrong_lanes_do_not_change_the_result(lanes: list[int]) -> None:
    whole = encode_record(Record("orders")) * 4
    assert scan_lanes(whole, np.array(lanes, np.int64)).starts.tolist() == scan(whole).starts.tolist()


@pytest.mark.parametrize("lanes", [[8], [160, 0], [600]])
def test_lanes_that_begin_elsewhere_are_read_from_there(lanes: list[int]) -> None:
    whole = encode_record(Record("orders")) * 4
    found, expected = scan_lanes(whole, np.array(lanes, np.int64)), scan(whole, lanes[0])
    assert (found.starts.tolist(), found.end, found.stop) == (expected.starts.tolist(), expected.end, expected.stop)
