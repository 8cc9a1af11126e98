"""Options of litemq-log, parsed from Spark's strings."""

import json
from pathlib import Path

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.log.options import LogOptions


def test_defaults() -> None:
    assert LogOptions.parse({"path": "/data"}) == LogOptions(("/data",))


def test_everything_is_read() -> None:
    options = LogOptions.parse(
        {
            "path": "/a",
            "paths": json.dumps(["/b", "/c"]),
            "topic": "orders, news",
            "columns": "topic,body",
            "mode": "PERMISSIVE",
            "storedafter": "2023-11-14T22:13:20Z",
            "storedbefore": "1700000000001",
            "includesystem": "true",
            "minpartitions": "8",
            "maxpartitionbytes": "64m",
            "broker": "broker-a",
        }
    )
    assert options == LogOptions(
        paths=("/a", "/b", "/c"),
        topics=("orders", "news"),
        columns=("topic", "body"),
        permissive=True,
        after_ms=1_700_000_000_000,
        before_ms=1_700_000_000_001,
        include_system=True,
        min_partitions=8,
        max_partition_bytes=64 << 20,
        broker="broker-a",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs a path"),
        ({"path": "/a", "topics": "orders"}, "Did you mean 'topic'"),
        ({"path": "/a", "failOnDataLoss": "true"}, "litemq-log has no option 'failOnDataLoss'"),
        ({"paths": "/a"}, "JSON list"),
        ({"paths": "[1]"}, "JSON list"),
        ({"path": "/a", "mode": "dropmalformed"}, "failfast or permissive"),
        ({"path": "/a", "includesystem": "yes"}, "true or false"),
        ({"path": "/a", "topic": "a,,b"}, "separated by commas"),
        ({"path": "/a", "minpartitions": "0"}, "minPartitions='0'"),
        ({"path": "/a", "minpartitions": "many"}, "minPartitions='many'"),
        ({"path": "/a", "maxpartitionbytes": "1k"}, "maxPartitionBytes='1k'"),
        ({"path": "/a", "maxpartitionbytes": "m"}, "maxPartitionBytes='m'"),
        ({"path": "/a", "storedafter": "yesterday"}, "storedAfter='yesterday'"),
    ],
)
def test_what_cannot_be_used_is_said(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        LogOptions.parse(options)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("65536", 65_536),
        ("64MB", 64 << 20),
        ("64MiB", 64 << 20),
        ("1g", 1 << 30),
        ("100000b", 100_000),
        ("128 k", 128 << 10),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert LogOptions.parse({"path": "/a", "maxpartitionbytes": text}).max_partition_bytes == value


def test_patterns_are_resolved_and_nothing_is_read_twice(tmp_path: Path) -> None:
    for name in ("broker-b", "broker-a", "other"):
        (tmp_path / name).mkdir()
    options = LogOptions((str(tmp_path / "broker-*"), f"file://{tmp_path / 'broker-a'}"))
    assert options.found_paths() == [tmp_path / "broker-a", tmp_path / "broker-b"]
    with pytest.raises(InvalidArgumentError, match="no path matches"):
        LogOptions((str(tmp_path / "x*"),)).found_paths()
