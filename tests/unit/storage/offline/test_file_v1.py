"""Reading files of version 1 records: with any window, and damage by position."""

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.record_encode import encode_record
from litemq.format.v1.record import encode_record_v1
from litemq.storage.offline import file_v1
from litemq.storage.offline.file_v1 import read_file_v1
from litemq.types import Record, Stamp

PARTS = [encode_record_v1(Record("t", b"x" * (n * 37 % 500), f"m-{n}"), Stamp()) for n in range(40)]
STARTS = [sum(map(len, PARTS[:n])) for n in range(40)]


def _starts(path: Path) -> list[int]:
    return [int(start) + base for base, columns in read_file_v1(path, path.stat().st_size) for start in columns.starts]


@pytest.mark.parametrize("window", [8, 100, 300, 1000, 4 << 20])
@pytest.mark.parametrize("zeros", [0, 8, 5000])
def test_every_record_is_found(tmp_path: Path, window: int, zeros: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_v1, "_WINDOW", window)
    path = tmp_path / "file"
    path.write_bytes(b"".join(PARTS) + bytes(zeros))
    assert _starts(path) == STARTS


def test_a_file_may_be_empty_or_filled_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", bytes(100)):
        path.write_bytes(content)
        assert _starts(path) == []


def test_bytes_added_meanwhile_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(PARTS))
    found = [len(columns) for _, columns in read_file_v1(path, STARTS[7])]
    assert found == [7]


@pytest.mark.parametrize("window", [100, 4 << 20])
@pytest.mark.parametrize(
    ("damaged", "offset", "reason"),
    [
        (b"".join(PARTS)[:-1], STARTS[-1], "truncated"),
        (b"".join(PARTS) + b"\0\0\1", STARTS[-1] + len(PARTS[-1]), "truncated"),
        (b"".join([*PARTS[:5], b"\0" * 8, *PARTS[5:]]), STARTS[5], "magic"),
        (b"".join([*PARTS[:5], b"noise", *PARTS[5:]]), STARTS[5], "magic"),
        (b"".join([*PARTS[:5], PARTS[5].replace(b"m-5", b"\xff-5"), *PARTS[6:]]), STARTS[5], "utf8"),
        (b"".join([*PARTS[:5], b"\x7f" + PARTS[5][1:], *PARTS[6:]]), STARTS[5], "size"),
        (b"".join([*PARTS[:5], encode_record(Record("t"), Stamp()), *PARTS[5:]]), STARTS[5], "magic"),
    ],
)
def test_damage_is_reported_by_position(
    tmp_path: Path, damaged: bytes, offset: int, reason: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_v1, "_WINDOW", window)
    path = tmp_path / "file"
    path.write_bytes(damaged)
    with pytest.raises(CorruptStoreError, match=reason) as caught:
        _starts(path)
    assert (caught.value.path, caught.value.offset) == (str(path), offset)


@pytest.mark.parametrize("content", [encode_record(Record("t"), Stamp()), b"this is no log", b"short"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="not a file of version 1"):
        _starts(path)
