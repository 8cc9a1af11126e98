"""Tables for people, JSON and YAML for programs."""

import json

import pytest
import yaml

from litemq.cli.configuration.kinds import DURATION
from litemq.cli.rendering.exit_codes import EXIT_CODES, exit_code
from litemq.cli.rendering.messages import body_as_value
from litemq.cli.rendering.output import OutputFormat, counted, duration, plain, write_rows, write_value
from litemq.errors import (
    AddressInUseError,
    ConfigurationError,
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    QuotaExceededError,
    StoreLockedError,
    TopicNotFoundError,
)
from litemq.types import Durability

ROWS = [{"topic": "orders", "queues": 4}, {"topic": "a\x1b", "queues": 12}]


def test_rows_for_people_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(ROWS, ["topic", "queues"], OutputFormat.TABLE, none="nothing")
    assert capsys.readouterr().out == "topic   queues\norders  4\na\\x1b   12\n"


def test_rows_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(ROWS, ["topic"], OutputFormat.JSON, none="nothing")
    assert json.loads(capsys.readouterr().out) == ROWS
    write_rows(ROWS, ["topic"], OutputFormat.YAML, none="nothing")
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


@pytest.mark.parametrize(
    ("output", "shown"), [(OutputFormat.TABLE, "nothing\n"), (OutputFormat.JSON, "[]\n"), (OutputFormat.YAML, "[]\n")]
)
def test_nothing(output: OutputFormat, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([], ["topic"], output, none="nothing")
    assert capsys.readouterr().out == shown


def test_yaml_has_plain_values_only(capsys: pytest.CaptureFixture[str]) -> None:
    write_value({"level": Durability.DISK, "tags": ("a",)}, OutputFormat.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == {"level": 2, "tags": ["a"]}


def test_a_long_text_is_cut() -> None:
    assert plain("x" * 100) == "x" * 80 + "…"
    assert plain(b"x" * 100) == "x" * 80 + "…"


@pytest.mark.parametrize("encoding", ["gbk", "utf-16", "latin-1"])
def test_bytes_that_are_not_utf_8_are_shown_in_full(encoding: str) -> None:
    body = ("é" if encoding == "latin-1" else "中文消息").encode(encoding) * 1000
    assert plain(body) == f"hex:{body.hex()}"
    assert body_as_value(body) == {"body": None, "body_hex": body.hex()}
    assert body_as_value("中文".encode()) == {"body": "中文"}


def test_one_thing_is_no_plural() -> None:
    assert [counted(number, "queue file") for number in (0, 1, 2)] == ["0 queue files", "1 queue file", "2 queue files"]


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, "0"), (1, "1ms"), (1500, "1500ms"), (90_000, "90s"), (120_000, "2m"), (86_400_000, "1d"), (7_200_000, "2h")],
)
def test_durations_are_written_as_in_settings(milliseconds: int, shown: str) -> None:
    assert duration(milliseconds) == shown
    assert DURATION.read(shown) == milliseconds


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LiteMQError, 1),
        (InvalidArgumentError, 2),
        (ConfigurationError, 2),
        (TopicNotFoundError, 3),
        (ConnectionLostError, 4),
        (StoreLockedError, 5),
        (AddressInUseError, 5),
        (QuotaExceededError, 7),
    ],
)
def test_exit_codes_follow_the_class(error: type[LiteMQError], code: int) -> None:
    assert exit_code(error) == code
    assert code in EXIT_CODES
