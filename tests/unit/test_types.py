"""Rules for names of topics and groups."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.types import check_name, is_system_name


@pytest.mark.parametrize("name", ["orders", "a", "A-b_c.9", "x" * 127, "..."])
def test_valid_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "must not be empty"),
        ("x" * 128, "at most 127"),
        (".", "neither"),
        ("..", "neither"),
        ("a/b", "use A-Z"),
        ("订单", "use A-Z"),
        ("a b", "use A-Z"),
        ("orders\n", "use A-Z"),
        ("%RETRY%orders", "broker's own"),
        ("LITEMQ_SYS_TIMER", "broker's own"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "broker's own"),
    ],
)
def test_invalid_names_are_refused_with_the_rule(name: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        check_name(name, "group")


def test_system_names() -> None:
    assert is_system_name("%DLQ%orders")
    assert not is_system_name("orders")
