"""Options and columns of a write, and the errors for wrong ones."""

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.write.options import COLUMNS, WriteOptions, check_columns

URL = {"url": "litemq://127.0.0.1:9876"}


def test_options_come_in_lower_case() -> None:
    options = WriteOptions.parse(
        URL | {"topic": "orders", "jobid": "2026-11-15", "checkpointlocation": "checkpoints", "path": "x"}
    )
    assert options == WriteOptions("litemq://127.0.0.1:9876", "orders", "2026-11-15")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the litemq sink needs the option url"),
        (URL | {"topik": "orders"}, "has no option 'topik'. Did you mean 'topic'"),
        (URL | {"startingoffsets": "earliest"}, "has no option 'startingoffsets'"),
        (URL | {"topic": "a b"}, "topic name 'a b'"),
        (URL | {"topic": "%RETRY%x"}, "are the broker's own"),
        (URL | {"jobid": "a/b"}, "without '/'"),
        (URL | {"jobid": "x" * 129}, "at most 128 bytes"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        WriteOptions.parse(options)


def test_every_column_may_be_there() -> None:
    check_columns({name: types[0] for name, types in COLUMNS.items()}, has_topic=False)
    check_columns({"body": "string"}, has_topic=True)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": "binary", "key": "string"}, "column 'key' cannot be written. Did you mean 'keys'"),
        ({"body": "binary", "zzz": "string"}, "the columns are body, topic"),
        ({"body": "int"}, "has type int: cast it to binary or string"),
        ({"body": "binary", "keys": "string"}, r"cast it to array<string>"),
        ({"topic": "string"}, "no column 'body'"),
        ({"body": "binary"}, "no topic"),
    ],
)
def test_columns_that_cannot_be_written(columns: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        check_columns(columns, has_topic=False)
