"""Parsing of options, and errors that name the valid values."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.options import OptionReader, moment_ms, nearest


def reader(**options: str) -> OptionReader:
    return OptionReader(options, ["maxThings", "isOn", "names", "at", "pattern", "facts"], of="the test")


def test_names_are_found_whatever_their_case() -> None:
    assert reader(MAXTHINGS="3").number("maxThings") == 3
    assert reader(maxthings="3").given == {"maxThings"}


def test_an_unknown_option_is_refused_and_the_nearest_is_named() -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"the test has no option 'maxthing'\. Did you mean 'maxThings'\? Its options are at, facts",
    ):
        reader(maxthing="3")


def test_values() -> None:
    given = reader(isOn="True", names="a, b,a", at="2026-01-31T12:00:00", pattern="a.*", facts='{"a": 1}')
    assert given.switch("isOn", False) is True
    assert given.names("names") == ["a", "b"]
    assert given.moment("at") == 1769860800000
    assert given.json_object("facts", "{}") == {"a": 1}
    pattern = given.pattern("pattern")
    assert pattern is not None
    assert pattern.fullmatch("abc")


def test_what_is_left_out_is_none_or_the_default() -> None:
    given = reader()
    assert [given.text("at"), given.number("at"), given.names("at"), given.moment("at"), given.pattern("at")] == [
        None
    ] * 5
    assert given.json_object("at", "{}") is None
    assert given.switch("isOn", True) is True


def test_what_is_needed_says_how_to_give_it() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the test needs the option at: write .option\('at', 'noon'\)"):
        reader().needed("at", "noon")


def test_values_that_cannot_be_are_refused() -> None:
    given = reader(maxThings="0", isOn="maybe", names="a,,b", at="noon", pattern="(", facts="[]")
    for read, said in (
        (lambda: given.number("maxThings"), "maxThings='0': choose an integer of at least 1"),
        (lambda: given.switch("isOn", True), "choose true or false"),
        (lambda: given.names("names"), "names separated by commas"),
        (lambda: given.moment("at"), "at='noon': write milliseconds since 1970, or a time like 2026"),
        (lambda: given.pattern("pattern"), "not a valid regular expression"),
        (lambda: given.json_object("facts", '{"a": 1}'), 'write it like {"a": 1}'),
        (lambda: reader(facts="{").json_object("facts", "{}"), "is not valid JSON"),
        (lambda: reader(at=" ").text("at"), "option at is empty"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            read()
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "ms"),
    [(5, 5), ("5", 5), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-02", 86_400_000)],
)
def test_moments(value: object, ms: int) -> None:
    assert moment_ms(value, "at") == ms


def test_the_nearest_name_is_said_only_where_one_is_near() -> None:
    assert nearest("ordrs", ["orders", "users"]) == " Did you mean 'orders'?"
    assert nearest("zzz", ["orders", "users"]) == ""
