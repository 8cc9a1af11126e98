"""Cron schedules agree with croniter, cronsim, and a search by seconds when clocks change."""

import os
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from litemq.errors import CronSyntaxError
from litemq.schedules.cron import NEVER, Schedule, cron_schedule
from support.cron_reference import CHANGES, as_time_passes, by_croniter, by_cronsim, expressions

# `just cron-reference` looks at all of them.
WHOLE = bool(os.environ.get("LITEMQ_CRON_WHOLE"))
EXPRESSIONS, TIMES = (500, 1_000) if WHOLE else (60, 60)


def times(schedule: Schedule, after: datetime, count: int) -> list[int]:
    found, at = [], int(after.timestamp() * 1000)
    for _ in range(count):
        at = schedule.next(at)
        assert at % 1000 == 0
        found.append(at // 1000)
    return found


def local(expression: str, zone: str, after: str, count: int = 3) -> list[str]:
    begin = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    found = times(cron_schedule(expression, zone), begin, count)
    return [datetime.fromtimestamp(each, ZoneInfo(zone)).strftime("%m-%d %H:%M:%S%z") for each in found]


def has_star(expression: str) -> bool:
    """Return whether minute or hour of five fields begins with ``*``."""
    minute, hour, *_ = expression.split()
    return minute.startswith("*") or hour.startswith("*")


@pytest.mark.parametrize("part", range(10 if WHOLE else 1))
def test_times_in_utc_agree_with_both_references(part: int) -> None:
    after = datetime(2026, 2, 27, 23, 59, 58, tzinfo=UTC)
    for expression in expressions(EXPRESSIONS // (10 if WHOLE else 1), part):
        found = times(cron_schedule(expression), after, TIMES)
        assert found == by_croniter(expression, after, TIMES), expression
        assert found == by_cronsim(expression, after, "UTC", TIMES), expression


@pytest.mark.parametrize("zone", CHANGES)
def test_five_fields_agree_with_debians_cron_when_clocks_change(zone: str) -> None:
    for after in CHANGES[zone]:
        for expression in expressions(EXPRESSIONS // 4, 100, fields=5):
            if not has_star(
                expression
            ):  # else the reference's steps of an hour miss changes at midnight, or by half an hour
                found = times(cron_schedule(expression, zone), after, min(TIMES, 200))
                assert found == by_cronsim(expression, after, zone, min(TIMES, 200)), expression


@pytest.mark.parametrize("zone", CHANGES)
def test_five_fields_with_a_star_follow_the_clock_when_clocks_change(zone: str) -> None:
    for after in CHANGES[zone]:
        until = after + timedelta(days=4)
        for expression in expressions(EXPRESSIONS // 4, 100, fields=5):
            if has_star(expression):
                expected = as_time_passes(expression, after, zone, until, step_s=60)
                found = times(cron_schedule(expression, zone), after, len(expected) + 1)
                assert found[:-1] == expected, expression
                assert found[-1] > until.timestamp(), expression


@pytest.mark.parametrize("zone", CHANGES)
def test_hourly_schedules_follow_the_clock(zone: str) -> None:
    for after in CHANGES[zone]:
        begin = after + timedelta(hours=30)
        until = begin + timedelta(hours=24 if WHOLE else 14)
        for expression in ("0 */20 * * * *", "30 7 */2 * * *", "*/45 * 1,2 * * *", "0 15-45/15 * * * sun"):
            expected = as_time_passes(expression, begin, zone, until)
            assert times(cron_schedule(expression, zone), begin, len(expected)) == expected, expression


def test_a_skipped_time_runs_after_the_gap_and_a_repeated_time_once() -> None:
    assert local("0 30 2 * * *", "Europe/Berlin", "2026-03-28 12:00") == [
        "03-29 03:00:00+0200",
        "03-30 02:30:00+0200",
        "03-31 02:30:00+0200",
    ]
    assert local("0 0,30 2 * * *", "Europe/Berlin", "2026-03-29 00:00", 2) == [
        "03-29 03:00:00+0200",
        "03-30 02:00:00+0200",
    ]
    assert local("0 30 2 * * *", "Europe/Berlin", "2026-10-24 12:00") == [
        "10-25 02:30:00+0200",
        "10-26 02:30:00+0100",
        "10-27 02:30:00+0100",
    ]
    assert local("0 0 * * * *", "Europe/Berlin", "2026-10-25 01:30") == [
        "10-25 02:00:00+0200",
        "10-25 02:00:00+0100",
        "10-25 03:00:00+0100",
    ]
    assert local("0 0 * * * *", "Europe/Berlin", "2026-03-29 01:30", 2) == [
        "03-29 03:00:00+0200",
        "03-29 04:00:00+0200",
    ]
    # Asked in the second pass of the hour, when the first is over.
    second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert times(cron_schedule("* 30 2 * * *", "Europe/Berlin"), second, 1) == [
        int(datetime(2026, 10, 26, 1, 30, tzinfo=UTC).timestamp())
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 0 29 2 *", ["2028-02-29T00:00:00"]),
        ("0 0 0 L * *", ["2026-01-31T00:00:00", "2026-02-28T00:00:00"]),
        ("0 0 9 * * mon#2", ["2026-01-12T09:00:00", "2026-02-09T09:00:00"]),
        ("0 0 9 * * 5L", ["2026-01-30T09:00:00", "2026-02-27T09:00:00"]),
        ("0 0 9 * * mon#5", ["2026-03-30T09:00:00"]),
        ("0 0 9 * 2 mon#5", ["2044-02-29T09:00:00"]),
        ("0 0 9 * * 7", ["2026-01-04T09:00:00"]),
        ("0 0 9 * * 5-7", ["2026-01-02T09:00:00", "2026-01-03T09:00:00", "2026-01-04T09:00:00"]),
        ("0 0 9 13 * fri", ["2026-01-02T09:00:00", "2026-01-09T09:00:00", "2026-01-13T09:00:00"]),
        ("30 9 * * *", ["2026-01-01T09:30:00"]),
        ("@monthly", ["2026-02-01T00:00:00"]),
        ("0 0 22-1 * * *", ["2026-01-01T01:00:00", "2026-01-01T22:00:00"]),
        ("0 0 9 ? * *", ["2026-01-01T09:00:00"]),
    ],
)
def test_the_grammar(expression: str, expected: list[str]) -> None:
    found = times(cron_schedule(expression), datetime(2026, 1, 1, tzinfo=UTC), len(expected))
    assert [datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%dT%H:%M:%S") for each in found] == expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 0 0 30 2 *", "never matches"),
        ("0 0 0 31 4,6 *", "never matches"),
        ("* * *", "has 3 fields"),
        ("0 0 0 1 1 * 2030", "has 7 fields"),
        ("", "has 0 fields"),
        ("*" * 300, "300 characters"),
        ("0 0 0 * * mon#6", "day of week"),
    ],
)
def test_invalid_text_is_refused(expression: str, says: str) -> None:
    with pytest.raises(CronSyntaxError, match=says):
        cron_schedule(expression)


def test_an_end_of_time() -> None:
    assert cron_schedule("0 0 0 1 1 *").next(int(datetime(9999, 6, 1, tzinfo=UTC).timestamp() * 1000)) == NEVER
