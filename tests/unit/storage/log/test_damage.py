"""The damage log: each damaged record once, in the order of the log."""

import logging

import pytest

from litemq.errors import CorruptStoreError
from litemq.storage.log.damage import DamageLog, log_offset_of

SEGMENT = "commitlog/00000000000000069632"


def test_each_damaged_record_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    damage = DamageLog()
    later, earlier = CorruptStoreError(SEGMENT, 800, "broker-crc"), CorruptStoreError(SEGMENT, 16, "magic")
    with caplog.at_level(logging.ERROR):
        for error in (later, earlier, CorruptStoreError(SEGMENT, 800, "another reason")):
            damage.add(error)
    assert len(caplog.records) == 2
    assert damage.errors() == [earlier, later]
    assert [log_offset_of(error) for error in damage.errors()] == [69_648, 70_432]


def test_the_first_damaged_record_from_an_offset_on() -> None:
    damage = DamageLog()
    assert damage.first_from(0) is None
    errors = [CorruptStoreError(SEGMENT, offset, "magic") for offset in (80, 8, 160)]
    for error in errors:
        damage.add(error)
    assert damage.first_from(0) is errors[1]
    assert damage.first_from(69_640) is errors[1]
    assert damage.first_from(69_641) is errors[0]
    assert damage.first_from(69_793) is None
