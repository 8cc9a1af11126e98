"""The id of a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.files.disk import DISK
from litemq.storage.log.store_id import STORE_ID_BYTES, check_owner, open_store_id, refuse_replica


def test_a_directory_keeps_its_id(tmp_path: Path) -> None:
    first = open_store_id(DISK, tmp_path)
    assert len(first) == STORE_ID_BYTES
    assert open_store_id(DISK, tmp_path) == first


def test_a_wiped_directory_gets_another_id(tmp_path: Path) -> None:
    first = open_store_id(DISK, tmp_path)
    (tmp_path / "store_id").unlink()
    assert open_store_id(DISK, tmp_path) != first


@pytest.mark.parametrize("damaged", [b"", b"00", b"not hex at all, but thirty-two!!\n"])
def test_a_damaged_id_is_not_replaced_silently(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "store_id").write_bytes(damaged)
    with pytest.raises(CorruptStoreError, match="no id"):
        open_store_id(DISK, tmp_path)


def test_a_directory_belongs_to_one_group(tmp_path: Path) -> None:
    first = open_store_id(DISK, tmp_path, "orders")
    assert open_store_id(DISK, tmp_path, "orders") == open_store_id(DISK, tmp_path) == first
    with pytest.raises(StorageError, match="a replica of the group orders, not of order"):
        open_store_id(DISK, tmp_path, "order")


def test_a_file_without_a_group_gets_one(tmp_path: Path) -> None:
    first = open_store_id(DISK, tmp_path)
    assert open_store_id(DISK, tmp_path, "orders") == first
    assert (tmp_path / "store_id").read_text() == f"{first.hex()}\norders\n"


@pytest.mark.parametrize("content", ["{0}\n", "{0}\norders\n", "{0}\norders\na\n"])
def test_a_directory_belongs_to_one_replica(tmp_path: Path, content: str) -> None:
    """Also one that an older version has written, from its first start on."""
    (tmp_path / "store_id").write_text(content.format("0a" * STORE_ID_BYTES))
    check_owner(tmp_path, "orders", "a")
    assert open_store_id(DISK, tmp_path, "orders", "a") == b"\n" * STORE_ID_BYTES
    assert (tmp_path / "store_id").read_text() == f"{'0a' * STORE_ID_BYTES}\norders\na\n"
    assert open_store_id(DISK, tmp_path, "orders") == open_store_id(DISK, tmp_path)
    assert (tmp_path / "store_id").read_text().endswith("\norders\na\n")
    for refuses in (lambda: check_owner(tmp_path, "orders", "c"), lambda: open_store_id(DISK, tmp_path, "orders", "c")):
        with pytest.raises(StorageError, match="the directory of replica a, or a copy of it, but this is replica c"):
            refuses()
    with pytest.raises(StorageError, match="a replica of the group orders, not of order"):
        check_owner(tmp_path, "order", "a")


def test_a_new_directory_belongs_to_the_first_replica_that_opens_it(tmp_path: Path) -> None:
    check_owner(tmp_path, "orders", "a")
    open_store_id(DISK, tmp_path, "orders", "a")
    with pytest.raises(StorageError, match=r"To rename a itself, change the last line of .*/store_id$"):
        check_owner(tmp_path, "orders", "c")


@pytest.mark.parametrize("group", ["", "orders"])
def test_a_replicas_directory_is_refused_to_others(tmp_path: Path, group: str) -> None:
    refuse_replica(tmp_path)
    open_store_id(DISK, tmp_path, group)
    with pytest.raises(StorageError, match="only a broker with the group's `--replicas` may write"):
        refuse_replica(tmp_path)
