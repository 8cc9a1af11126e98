"""Fields of cron expressions: valid numbers and refused texts."""

import pytest

from litemq.errors import CronSyntaxError
from litemq.schedules.fields import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, parse_field


@pytest.mark.parametrize(
    ("position", "text", "numbers"),
    [
        (SECOND, "*/20", (0, 20, 40)),
        (MINUTE, "7", (7,)),
        (HOUR, "22-1", (0, 1, 22, 23)),
        (DAY_OF_MONTH, "1,15", (1, 15)),
        (MONTH, "jan-mar", (1, 2, 3)),
        (DAY_OF_WEEK, "5-7", (0, 5, 6)),
        (DAY_OF_WEEK, "*", (0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_numbers(position: int, text: str, numbers: tuple[int, ...]) -> None:
    field = parse_field(position, text)
    assert (field.numbers, field.members) == (numbers, frozenset(numbers))
    assert (field.is_any, field.is_star) == (text == "*", text.startswith("*"))


def test_last_days_and_the_nth_of_a_month() -> None:
    assert parse_field(DAY_OF_MONTH, "l").has_last
    assert parse_field(DAY_OF_WEEK, "mon#2").nth == {(1, 2)}
    assert parse_field(DAY_OF_WEEK, "5l").nth == {(5, -1)}


@pytest.mark.parametrize(
    ("position", "text", "says"),
    [
        (SECOND, "60", "field of the second"),
        (MINUTE, "x", "field of the minute"),
        (HOUR, "24", "field of the hour"),
        (DAY_OF_MONTH, "0", "day of month"),
        (MONTH, "13", "field of the month"),
        (DAY_OF_WEEK, "8", "day of week"),
        (DAY_OF_MONTH, "15w", "H, R and W"),
        (SECOND, "h", "H, R and W"),
        (SECOND, "r(0-30)", "H, R and W"),
        (SECOND, "*/0", "field of the second"),
        (DAY_OF_WEEK, "mon#6", "day of week"),
    ],
)
def test_invalid_text_is_refused(position: int, text: str, says: str) -> None:
    with pytest.raises(CronSyntaxError, match=says):
        parse_field(position, text)
