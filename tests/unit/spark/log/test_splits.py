"""Splitting of logs: every byte in exactly one part, cut at record boundaries."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format.v1.record import encode_record_v1
from litemq.spark.log.splits import ByteRange, part_bytes, split_file_v1, split_log, within_times
from litemq.types import Record, Stamp


def _record(n: int) -> bytes:
    return encode_record_v1(Record("orders", b"x" * n), Stamp())


@given(
    st.integers(0, 10_000),
    st.integers(1, 3_000),
    st.sets(st.integers(0, 12_000)),
)
def test_parts_meet_and_begin_at_borders(length: int, size: int, borders: set[int]) -> None:
    def border(begin: int, end: int) -> int | None:
        return min((at for at in borders if begin <= at < end), default=None)

    whole = ByteRange(1_000, 1_000 + length)
    parts = split_log(whole, size, border)
    assert sum(part.end - part.begin for part in parts) == length
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert all(part.begin in borders for part in parts[1:])
    assert not parts or (parts[0].begin, parts[-1].end) == whole


def test_parts_are_of_one_size_where_borders_are_everywhere() -> None:
    assert split_log(ByteRange(0, 100), 25, lambda begin, _end: begin) == [(0, 25), (25, 50), (50, 75), (75, 100)]


def test_without_borders_there_is_one_part() -> None:
    assert split_log(ByteRange(0, 100), 25, lambda _begin, _end: None) == [(0, 100)]


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 30), st.integers(1, 1000))
def test_as_many_parts_as_were_asked_for_and_none_too_large(total: int, limit: int, min_parts: int) -> None:
    size = part_bytes(total, limit, min_parts)
    assert 1 <= size <= limit
    assert size == 1 or (size - 1) * min_parts < total  # no smaller than it must be
    assert size * min_parts >= total or size * -(-total // limit) >= total


STORED = {0: 100, 10: 200, 20: 200, 30: 300}


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (None, None, (0, 40)),
        (50, None, (0, 40)),
        (200, None, (0, 40)),  # a record stored at 200 may be in the segment before
        (201, None, (20, 40)),
        (400, None, (30, 40)),
        (None, 300, (0, 30)),
        (None, 200, (0, 10)),
        (None, 100, (0, 0)),
        (201, 201, (20, 30)),
        (500, 50, (0, 0)),
    ],
)
def test_segments_in_a_span_of_time(after: int | None, before: int | None, expected: tuple[int, int]) -> None:
    assert within_times(list(STORED), 40, STORED.get, after, before) == expected


def test_an_empty_log_has_no_segments_in_any_time() -> None:
    assert within_times([], 7, STORED.get, 1, None) == (7, 7)


def test_a_file_of_version_1_is_counted_off(tmp_path: Path) -> None:
    file = tmp_path / "export"
    records = [_record(n) for n in range(100)]
    file.write_bytes(b"".join(records))
    borders = {sum(map(len, records[:n])) for n in range(100)}
    parts = split_file_v1(file, 2_000)
    assert len(parts) > 3
    assert (parts[0].begin, parts[-1].end) == (0, file.stat().st_size)
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert all(part.begin in borders for part in parts)
    assert split_file_v1(file, 1 << 20) == [(0, file.stat().st_size)]


def test_nothing_is_cut_behind_what_is_no_record(tmp_path: Path) -> None:
    file = tmp_path / "export"
    good = b"".join(_record(n) for n in range(50))
    file.write_bytes(good + b"\xff" * 50_000)
    parts = split_file_v1(file, 2_000)
    assert parts[-1].end == len(good) + 50_000
    assert parts[-1].begin < len(good)


def test_an_empty_file_has_no_parts(tmp_path: Path) -> None:
    (tmp_path / "export").touch()
    assert split_file_v1(tmp_path / "export", 100) == []
