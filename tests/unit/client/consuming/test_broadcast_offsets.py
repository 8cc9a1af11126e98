"""The progress file of a broadcast consumer: written atomically, by one consumer at a time."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.consuming.broadcast_offsets import BroadcastOffsets
from litemq.errors import InvalidArgumentError, StorageError, StoreLockedError


def _open(folder: Path, client_id: str = "shop-1") -> BroadcastOffsets:
    offsets = BroadcastOffsets(folder, "prices", client_id, "orders")
    offsets.open()
    return offsets


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    first = _open(tmp_path)
    assert first.offsets == {}
    first.write({("a", 0): 7, ("b", 11): 0})
    first.close()
    assert first.path == tmp_path / "prices" / "shop-1" / "orders.json"
    assert _open(tmp_path).offsets == {("a", 0): 7, ("b", 11): 0}


def test_the_file_is_whole_whatever_happens_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = _open(tmp_path)
    offsets.write({("a", 0): 1})

    def fail(_descriptor: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        offsets.write({("a", 0): 2})
    monkeypatch.undo()
    offsets.close()
    assert _open(tmp_path).offsets == {("a", 0): 1}


def test_two_cannot_read_as_one(tmp_path: Path) -> None:
    first = _open(tmp_path)
    with pytest.raises(StoreLockedError, match="another client_id"):
        _open(tmp_path)
    _open(tmp_path, "shop-2").close()
    first.close()
    _open(tmp_path).close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 2, "offsets": {}}',
        b'{"version": 1}',
        b'{"version": 1, "offsets": {"a": {"x": 1}}}',
        b'{"version": 1, "offsets": {"a": {"0": -1}}}',
        b'{"version": 1, "offsets": {"a": {"0": "1"}}}',
        b'{"version": 1, "offsets": {"a": 0}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    offsets = _open(tmp_path)
    offsets.close()
    offsets.path.write_bytes(content)
    with pytest.raises(StorageError, match="remove it"):
        _open(tmp_path)
    assert offsets.path.read_bytes() == content
    offsets.path.unlink()
    _open(tmp_path).close()  # the lock was given back


@given(
    st.binary(max_size=64)
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ).map(lambda value: json.dumps({"version": 1, "offsets": value}).encode())
)
def test_any_content_is_offsets_or_damaged(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("offsets")
    offsets = BroadcastOffsets(folder, "prices", "shop-1", "orders")
    offsets.path.parent.mkdir(parents=True)
    offsets.path.write_bytes(content)
    try:
        offsets.open()
    except StorageError as error:
        assert "remove it" in str(error)  # noqa: PT017
        assert offsets.path.read_bytes() == content
    else:
        assert all(offset >= 0 for offset in offsets.offsets.values())
    finally:
        offsets.close()


def test_names_stay_within_the_directory(tmp_path: Path) -> None:
    for group, client, topic in (("..", "c", "t"), ("g", "../x", "t"), ("g", "c", "a/b"), ("g", "", "t")):
        with pytest.raises(InvalidArgumentError):
            BroadcastOffsets(tmp_path, group, client, topic)


def test_it_is_open_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="not open"):
        BroadcastOffsets(tmp_path, "g", "c", "t").write({})
