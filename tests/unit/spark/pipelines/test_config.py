"""Settings of the archive, and rejected values."""

from pathlib import Path
from typing import Any

import pytest

from litemq.cli.configuration.resolve import build, resolve
from litemq.cli.configuration.tables import ARCHIVE
from litemq.errors import ConfigurationError, InvalidArgumentError
from litemq.spark.pipelines.config import UNPARSED, ArchiveConfig


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"topics": ("a",), "topic_pattern": "b"}, "exclude each other"),
        ({"topics": ("a/b",)}, "a/b"),
        ({"topic_pattern": "("}, "is not a valid regular expression"),
        ({"url": "http://x"}, "litemq://"),
        ({"table": ""}, "set the location"),
        ({"task_bytes": 1}, "choose"),
        ({"vacuum_keep_ms": 60_000}, "choose 3600000"),
        ({"max_rows_per_batch": 0}, "choose"),
        ({"parsed": {"orders": " "}}, "variant"),
        ({"table_format": "delta-spark", "parsed": {"orders": "variant"}}, "choose delta"),
        ({"table_format": "delta-spark", "fail_on_data_loss": False}, "choose delta"),
        ({"table_format": "iceberg"}, "choose delta"),
    ],
)
def test_what_cannot_be_used_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ArchiveConfig(**settings)


def test_places_that_follow_from_the_tables() -> None:
    config = ArchiveConfig(table="/lake/messages/")
    assert config.checkpoint_location == "/lake/messages/_checkpoint"
    assert config.parsed_table("orders") == "/lake/messages-parsed/orders"
    assert config.parsed_table(UNPARSED) == "/lake/messages-parsed/_unparsed"
    assert config.status_file == Path("/lake/messages/_checkpoint/litemq-status.json")
    assert ArchiveConfig(table="s3://bucket/messages").status_file is None


def test_a_file_with_parsed_topics_and_settings_of_spark(tmp_path: Path) -> None:
    file = tmp_path / "archive.toml"
    file.write_text(
        '[parsed.topics]\norders = "variant"\n"a.b" = "id bigint, n int"\n'
        '[spark.settings]\n"spark.driver.memory" = "2g"\n'
    )
    config: ArchiveConfig = build(ARCHIVE, resolve(ARCHIVE, flags={}, environment={}, file=file))
    assert dict(config.parsed) == {"orders": "variant", "a.b": "id bigint, n int"}
    assert dict(config.spark_settings) == {"spark.driver.memory": "2g"}


def test_the_same_by_a_flag() -> None:
    chosen = resolve(ARCHIVE, flags={"parsed": "orders=variant; payments=id bigint, n int"}, environment={})
    assert chosen["parsed"].value == {"orders": "variant", "payments": "id bigint, n int"}
    with pytest.raises(ConfigurationError, match="names and strings"):
        resolve(ARCHIVE, flags={"parsed": "orders"}, environment={})


def test_the_error_for_a_wrong_key_suggests_the_right_one(tmp_path: Path) -> None:
    file = tmp_path / "archive.toml"
    file.write_text('[table]\nlocatoin = "x"\n')
    with pytest.raises(ConfigurationError, match=r"did you mean table\.location\?"):
        resolve(ARCHIVE, flags={}, environment={}, file=file)
