"""A failure of NATS 2.12: one flipped bit on one disk spread to the other replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.storage.log import chunks
from litemq.types import Record
from support.damage import damage_log, record_starts
from support.replicas import confirm_all, open_replica, ship
from support.stores import CONFIG

BODY_AT = 170  # in a record


def test_a_flipped_bit_does_not_spread(tmp_path: Path, is_guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: the master checks what it ships, and the follower what it appends (I12)."""
    master, follower = (open_replica(tmp_path / name, CONFIG, FakeClock()) for name in ("master", "follower"))
    master.begin_writing(1)
    topic = master.create_topic("orders", 1)
    for _ in range(8):
        master.append(bytearray(encode_record(Record("orders", bytes(500)))), topic.topic_id, 0)
    confirm_all(master)
    damaged = record_starts(master)[5]
    damage_log(tmp_path / "master", damaged + BODY_AT)
    if is_guarded:
        with pytest.raises(CorruptStoreError):
            ship(master, follower, 1 << 20)
        assert follower.log_end == damaged
    else:
        monkeypatch.setattr(chunks, "check_records", _unchecked)
        ship(master, follower, 1 << 20)
        assert follower.log_end == master.log_end
    master.abandon()
    follower.abandon()


def _unchecked(data: bytes, _begin: int) -> RecordColumns:
    return RecordColumns(data, scan(data, limits=STORED_LIMITS).starts)
