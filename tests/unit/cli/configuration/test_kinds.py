"""Parsing and formatting of setting values."""

import pytest

from litemq.cli.configuration.kinds import DURATION, INTEGER, SIZE, SWITCH, TEXT, TEXTS, Kind, choice
from litemq.errors import ConfigurationError


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (DURATION, "30s", 30_000),
        (DURATION, "500ms", 500),
        (DURATION, "1h30m", 5_400_000),
        (DURATION, "1.5s", 1500),
        (DURATION, "0", 0),
        (DURATION.or_none(), "none", None),
        (SIZE, 1_073_741_824, 1 << 30),
        (SIZE, "1GiB", 1 << 30),
        (SIZE, "100 MB", 100_000_000),
        (SIZE, "4096", 4096),
        (SIZE.or_none(), "None", None),
        (INTEGER, "10_000", 10_000),
        (INTEGER, -1, -1),
        (SWITCH, True, True),
        (SWITCH, "off", False),
        (TEXT, "x", "x"),
        (TEXTS, ["a", "b"], ("a", "b")),
        (TEXTS, "a, b,", ("a", "b")),
        (choice("sync", "async"), "async", "async"),
    ],
)
def test_what_is_read(kind: Kind, given: object, value: object) -> None:
    assert kind.read(given) == value


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (DURATION, 30, 'write a duration with its unit (ms, s, m, h, d), such as "30s", not 30'),
        (DURATION, "30", 'such as "30s", not "30"'),
        (DURATION, "s", "write a duration"),
        (DURATION, "30s!", "write a duration"),
        (DURATION, "none", "write a duration"),
        (DURATION.or_none(), "never", ', or "none", not "never"'),
        (SIZE, "1 GigaByte", 'such as "64MiB"'),
        (SIZE, 1.5, "not 1.5"),
        (SIZE, True, "not true"),
        (INTEGER, "many", 'write a whole number, not "many"'),
        (INTEGER, True, "not true"),
        (SWITCH, 1, "write true or false, not 1"),
        (TEXT, 5, "write a quoted string, not 5"),
        (TEXTS, [1], "write a list of strings"),
        (choice("sync", "async"), "fast", 'choose sync or async, not "fast"'),
    ],
)
def test_what_is_refused_says_what_would_be_right(kind: Kind, given: object, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind.read(given)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (DURATION, 90_000, "90s"),
        (DURATION, 0, "0"),
        (DURATION, 1234, "1234ms"),
        (DURATION.or_none(), None, "none"),
        (SIZE, 1 << 30, "1GiB"),
        (SIZE, 100_000_000, 100_000_000),
        (SIZE, 12, 12),
        (TEXTS, ("a",), ["a"]),
    ],
)
def test_what_is_shown_can_be_read_again(kind: Kind, value: object, shown: object) -> None:
    assert kind.show(value) == shown
    assert kind.or_none().read(shown) == value


def test_what_was_not_said_and_has_no_word_is_empty() -> None:
    assert choice("none", "memory").show(None) == ""
