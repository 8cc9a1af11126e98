"""Checksums by column agree with single checksums."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litemq.format.crc import crc32c, crc32c_of_records, crc32c_of_rows, crc32c_of_strings


def test_the_standard_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(
    st.binary(min_size=1, max_size=2000),
    st.lists(st.tuples(st.integers(0, 1999), st.integers(0, 300)), max_size=40),
    st.binary(max_size=20),
)
def test_strings(data: bytes, spans: list[tuple[int, int]], prefix: bytes) -> None:
    inside = [(p % len(data), min(n, len(data) - p % len(data))) for p, n in spans]
    positions, lengths = (np.array([span[i] for span in inside], np.int64) for i in (0, 1))
    expected = [crc32c(prefix + data[p : p + n]) for p, n in inside]
    assert crc32c_of_strings(np.frombuffer(data, np.uint8), positions, lengths, prefix).tolist() == expected
    same = np.full(len(inside), 1)
    alike = crc32c_of_strings(np.frombuffer(data, np.uint8), np.minimum(positions, len(data) - 1), same, prefix)
    assert alike.tolist() == [crc32c(prefix + data[min(p, len(data) - 1) :][:1]) for p in positions]


def test_more_strings_than_are_looked_up_at_once() -> None:
    data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    lengths = np.arange(6000) % 200
    positions = np.arange(6000) % 4800
    expected = [crc32c(data[p : p + n].tobytes()) for p, n in zip(positions.tolist(), lengths.tolist(), strict=True)]
    assert crc32c_of_strings(data, positions, lengths).tolist() == expected
    assert crc32c_of_strings(data, positions, np.full(6000, 100)).tolist() == [
        crc32c(data[p : p + 100].tobytes()) for p in positions.tolist()
    ]


@given(st.lists(st.binary(min_size=48, max_size=48), max_size=30), st.booleans(), st.sampled_from([48, 20, 5]))
def test_rows(rows: list[bytes], alike: bool, width: int) -> None:
    if alike and rows:
        rows = [rows[0][:40] + row[40:] for row in rows]
    rows = [row[-width:] for row in rows]
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    assert crc32c_of_rows(matrix).tolist() == [crc32c(row) for row in rows]


def test_records() -> None:
    data = bytes(range(200))
    assert crc32c_of_records(memoryview(data), [0, 10], [10, 200]) == [crc32c(data[:10]), crc32c(data[10:])]
