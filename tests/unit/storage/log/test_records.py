"""Reading one record by its log offset: only where a record begins, within the confirmed log."""

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.storage.log.records import read_checked
from litemq.types import Record
from support.stores import open_store, send


def test_a_record_is_read_only_at_its_log_offset(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, [Record("orders", b"one"), Record("orders", b"two")])
    log, confirmed = store._log, store.confirm_offset
    entries = store.read_entries(next(key for key in store.state.end_offsets if key.topic_id == 16), 0, 2)
    first, second = entries["log_offset"].tolist()
    raw, stored = read_checked(log, first, confirmed)
    assert stored.record.body == b"one"
    assert raw == bytes(log.read(first, second))
    for nowhere in (-8, first + 4, confirmed, confirmed + 8):
        with pytest.raises(OffsetOutOfRangeError, match=f"the readable log is 0 … {confirmed}"):
            read_checked(log, nowhere, confirmed)
    with pytest.raises(OffsetOutOfRangeError):
        read_checked(log, second, second)  # not confirmed yet
    with pytest.raises(CorruptStoreError) as caught:
        read_checked(log, first + 8, confirmed)
    assert (Path(caught.value.path).name, caught.value.offset) == ("0" * 20, first + 8)
    store.close()
