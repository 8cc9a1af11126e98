"""The id of a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError
from litemq.storage.files.disk import DISK
from litemq.storage.log.store_id import STORE_ID_BYTES, open_store_id


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
