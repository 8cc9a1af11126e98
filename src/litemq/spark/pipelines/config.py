"""Settings of the archive with their defaults.

Does not import Spark, since commands read settings first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from litemq.client.config import ReadFrom
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["UNPARSED", "VARIANT", "ArchiveConfig", "CodecName", "TableFormat"]

TableFormat = Literal["delta", "delta-spark", "parquet"]
CodecName = Literal["zstd", "snappy", "none"]
VARIANT: Final = "variant"
UNPARSED: Final = "_unparsed"  # not a valid topic name

_MIB: Final = 1 << 20
_HOUR_MS: Final = 3_600_000
_MIN_KEPT_MS: Final = _HOUR_MS
_MAX_KEPT_MS: Final = 30 * 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    """Settings of the archive. Suffixes give the units: ``_ms`` and ``_bytes``."""

    url: str = "litemq://127.0.0.1:9876"
    topics: tuple[str, ...] = ()  # empty: all user topics, including future ones
    topic_pattern: str = ""
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    fail_on_data_loss: bool = True
    read_from: ReadFrom = "master"

    # The table
    table: str = "./litemq-data/archive"
    table_format: TableFormat = "delta"
    codec: CodecName = "zstd"
    codec_level: int = 1  # of zstd

    # The stream
    checkpoint: str = ""  # empty: _checkpoint in the table's directory
    trigger_ms: int = 60_000
    max_rows_per_batch: int = 4_000_000
    task_bytes: int = 128 * _MIB

    # Parsed tables, by topic: the word variant, or SQL columns
    parsed: Mapping[str, str] = field(default_factory=dict)
    parsed_location: str = ""  # empty: the table's location with the suffix -parsed

    # Upkeep
    compact_every_batches: int = 60  # 0: no compaction in the stream
    compact_target_bytes: int = 256 * _MIB
    vacuum_keep_ms: int = 7 * 24 * _HOUR_MS

    # Spark
    spark_master: str = ""  # empty: Spark's own setting, or all cores of this machine
    spark_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for topic in (*self.topics, *self.parsed):
            check_name(topic)
        if self.topics and self.topic_pattern:
            raise InvalidArgumentError("topic_pattern and topics exclude each other: set one of them")
        try:
            re.compile(self.topic_pattern)
        except re.error as error:
            raise InvalidArgumentError(
                f"topic_pattern={self.topic_pattern!r} is not a valid regular expression: {error}"
            ) from None
        if not self.url.startswith("litemq://"):
            raise InvalidArgumentError(f"url={self.url!r}: write it like litemq://127.0.0.1:9876")
        if not self.table:
            raise InvalidArgumentError("table is empty: set the location of the table, such as /data/lake/messages")
        if self.table_format not in get_args(TableFormat):
            raise InvalidArgumentError(
                f"table_format={self.table_format!r}: choose {' or '.join(get_args(TableFormat))}"
            )
        self._check_bounds("trigger_ms", 0, 24 * _HOUR_MS)
        self._check_bounds("max_rows_per_batch", 1, 1 << 40)
        self._check_bounds("task_bytes", _MIB, 4096 * _MIB)
        self._check_bounds("codec_level", 1, 22)
        self._check_bounds("compact_every_batches", 0, 1 << 31)
        self._check_bounds("compact_target_bytes", _MIB, 4096 * _MIB)
        # A shorter time could delete files of an uncommitted batch or of a long read.
        self._check_bounds("vacuum_keep_ms", _MIN_KEPT_MS, _MAX_KEPT_MS)
        if self.table_format == "delta-spark" and (self.parsed or not self.fail_on_data_loss):
            raise InvalidArgumentError(
                "table_format delta-spark supports neither parsed tables nor fail_on_data_loss=false: choose delta"
            )
        for topic, columns in self.parsed.items():
            if not columns.strip():
                raise InvalidArgumentError(
                    f"parsed topic {topic!r}: write {VARIANT}, or columns such as 'id bigint, amount double'"
                )

    def _check_bounds(self, name: str, minimum: int, maximum: int) -> None:
        value = getattr(self, name)
        if not minimum <= value <= maximum:
            raise InvalidArgumentError(f"{name}={value}: choose {minimum} … {maximum}")

    @property
    def checkpoint_location(self) -> str:
        """Location of the stream's checkpoint."""
        return self.checkpoint or f"{self.table.rstrip('/')}/_checkpoint"

    def parsed_table(self, topic: str) -> str:
        """Return the location of a parsed table, by topic or ``UNPARSED``."""
        return f"{self.parsed_location.rstrip('/') or self.table.rstrip('/') + '-parsed'}/{topic}"

    @property
    def status_file(self) -> Path | None:
        """The stream's status file; ``None`` if the checkpoint is not on a local file system."""
        parts = urlsplit(self.checkpoint_location)
        if len(parts.scheme) > 1 and parts.scheme != "file":
            return None
        return Path(parts.path if parts.scheme == "file" else self.checkpoint_location) / "litemq-status.json"
