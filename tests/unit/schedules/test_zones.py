"""Time zones: names, and changes of the offset."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from litemq.errors import CronSyntaxError
from litemq.schedules.zones import first_change, local_time, time_zone, zone_clock

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp())  # clocks are set from 02:00 to 03:00


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(CronSyntaxError, match="timezone"):
        time_zone(zone)


def test_utc_has_no_zone() -> None:
    assert [time_zone(name) for name in ("", "UTC", "Etc/UTC")] == [None, None, None]
    assert time_zone("Europe/Berlin") == BERLIN


def test_the_offset_changes_at_the_moment_the_clocks_change() -> None:
    assert first_change(BERLIN, SPRING - 30 * 86_400, SPRING + 30 * 86_400, 3_600) == SPRING
    assert first_change(BERLIN, SPRING, SPRING + 86_400, 7_200) is None
    clock = zone_clock(BERLIN)
    for second in (SPRING + 90 * 86_400, SPRING - 1, SPRING, SPRING + 1):  # the first fills the cache
        assert clock.offset_at(second) == (3_600 if second < SPRING else 7_200)


def test_local_time() -> None:
    assert local_time(SPRING * 1000, "Europe/Berlin").isoformat() == "2026-03-29T03:00:00+02:00"
    assert local_time(SPRING * 1000, "").isoformat() == "2026-03-29T01:00:00+00:00"
