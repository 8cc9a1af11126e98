"""How a table of archived messages lies in its folder.

A file never mixes topics or hours: ``topic=orders/store_date=2026-01-31/store_hour=7/<name>.parquet``. The hour is that of
``store_timestamp``, in UTC. As in any partitioned table, what the folder says is not in the file: a file has every column of
``MESSAGE_SCHEMA`` but ``topic``. Rows are sorted by (broker, queue_id, queue_offset), so that a row group holds a few runs of queues,
and its statistics say which. Which files there are is only what the table's log says: others are left over, or not committed yet.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from litemq.spark.schema import BROKER, MESSAGE_SCHEMA

__all__ = ["FILE_SCHEMA", "KEY", "MESSAGES", "STATISTICS", "TableFile", "TableLayout", "hour_partition", "partition_folder"]

STORE_DATE: Final = pa.field("store_date", pa.date32())
STORE_HOUR: Final = pa.field("store_hour", pa.int32())
FILE_SCHEMA: Final = MESSAGE_SCHEMA.remove(MESSAGE_SCHEMA.get_field_index("topic"))
# By what the rows of a file are sorted; with the topic, which row it is.
KEY: Final = (BROKER, "queue_id", "queue_offset")
STATISTICS: Final = (*KEY, "store_timestamp")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table, and by which of them its files lie apart."""

    schema: pa.Schema
    partition_by: tuple[str, ...]
    statistics: tuple[str, ...] = ()  # the columns whose least and most value the table's log has of each file
    delta_schema: str = ""  # the columns as Delta's own JSON, for types that Arrow lacks


MESSAGES: Final = TableLayout(MESSAGE_SCHEMA.append(STORE_DATE).append(STORE_HOUR), ("topic", STORE_DATE.name, STORE_HOUR.name), STATISTICS)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file that a table's log names."""

    path: str  # from the table's folder on
    size: int
    rows: int
    partition: Mapping[str, str]  # as the folders' names have it
    # Of the columns with statistics; times as text, in milliseconds and UTC. A column that is missing may hold anything.
    # The names are those of the manifests of plain tables.
    least: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, Any] = field(default_factory=dict)

    def may_hold(self, broker: str, queue_id: int, begin: int, end: int) -> bool:
        """Whether some rows of a queue, from one offset to before another, may be here."""
        return (
            self._meets(BROKER, broker, broker)
            and self._meets("queue_id", queue_id, queue_id)
            and self._meets("queue_offset", begin, end - 1)
        )

    def _meets(self, column: str, minimum: Any, maximum: Any) -> bool:
        return column not in self.least or (self.least[column] <= maximum and minimum <= self.most[column])


def hour_partition(topic: str, hour: int) -> dict[str, str]:
    """The partition of a topic's messages that were stored in an hour, counted from 1970 on."""
    begin = dt.datetime.fromtimestamp(hour * 3600, dt.UTC)
    return {"topic": topic, STORE_DATE.name: begin.date().isoformat(), STORE_HOUR.name: str(begin.hour)}


def partition_folder(partition: Mapping[str, str], names: Iterable[str]) -> str:
    """Where the files of a partition are, from the table's folder on."""
    return "/".join(f"{name}={partition[name]}" for name in names)
