"""Layout of a table of archived messages.

Files are partitioned by topic and hour:
``topic=orders/store_date=2026-01-31/store_hour=7/<name>.parquet``. The hour is that of
``store_timestamp``, in UTC. As in any partitioned table, partition columns are not in the file: a
file has every column of ``MESSAGE_SCHEMA`` except ``topic``. Rows are sorted by (broker, queue_id,
queue_offset), so a row group holds a few runs of queues, and its statistics tell which. Only the
table's log defines which files belong to the table; others are leftovers or not committed yet.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from litemq.spark.schema import BROKER, MESSAGE_SCHEMA

__all__ = [
    "FILE_SCHEMA",
    "KEY",
    "MESSAGES",
    "STATISTICS",
    "TableFile",
    "TableLayout",
    "hour_partition",
    "partition_folder",
]

STORE_DATE: Final = pa.field("store_date", pa.date32())
STORE_HOUR: Final = pa.field("store_hour", pa.int32())
FILE_SCHEMA: Final = MESSAGE_SCHEMA.remove(MESSAGE_SCHEMA.get_field_index("topic"))
# Sort order of a file; together with the topic, the key of a row.
KEY: Final = (BROKER, "queue_id", "queue_offset")
STATISTICS: Final = (*KEY, "store_timestamp")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table, and those that it is partitioned by."""

    schema: pa.Schema
    partition_by: tuple[str, ...]
    statistics: tuple[str, ...] = ()  # columns whose minimum and maximum per file are in the table's log
    delta_schema: str = ""  # the schema as Delta's JSON, for types that Arrow lacks


MESSAGES: Final = TableLayout(
    MESSAGE_SCHEMA.append(STORE_DATE).append(STORE_HOUR), ("topic", STORE_DATE.name, STORE_HOUR.name), STATISTICS
)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table."""

    path: str  # relative to the table's location
    size: int
    rows: int
    partition: Mapping[str, str]  # values as in the directory names
    # Minimum and maximum of the columns with statistics; times as text, in milliseconds and UTC. A
    # missing column may have any value. The field names are part of the manifest format of plain
    # tables.
    least: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, Any] = field(default_factory=dict)

    def may_hold(self, broker: str, queue_id: int, begin: int, end: int) -> bool:
        """Return whether the file may hold rows ``begin … end - 1`` of a queue."""
        return (
            self._meets(BROKER, broker, broker)
            and self._meets("queue_id", queue_id, queue_id)
            and self._meets("queue_offset", begin, end - 1)
        )

    def _meets(self, column: str, minimum: Any, maximum: Any) -> bool:
        return column not in self.least or (self.least[column] <= maximum and minimum <= self.most[column])


def hour_partition(topic: str, hour: int) -> dict[str, str]:
    """Return the partition of a topic and an hour, counted since 1970."""
    begin = dt.datetime.fromtimestamp(hour * 3600, dt.UTC)
    return {"topic": topic, STORE_DATE.name: begin.date().isoformat(), STORE_HOUR.name: str(begin.hour)}


def partition_folder(partition: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the directory of a partition, relative to the table's location."""
    return "/".join(f"{name}={partition[name]}" for name in names)
