"""Baseline of ``litemq-log``: reads the log record by record with ``struct``, one tuple per row."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.format.record import FIXED_BYTES, MAGIC
from litemq.spark.log.options import LogOptions
from litemq.spark.log.planning import plan_parts
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.spark_types import spark_schema

__all__ = ["StructLoopSource"]

_HEADER: Final = struct.Struct(">IIIIqqqqIIIBxHqqqqqIIBBBx5H2x4I")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StructLoopSource(DataSource):
    """The data source ``litemq-struct-loop``, which reads the first ``parts`` parts of a log."""

    @classmethod
    def name(cls) -> str:
        return "litemq-struct-loop"

    def schema(self) -> StructType:
        return spark_schema(MESSAGE_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  Spark's name
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._parts = int(options.pop("parts"))
        self._options = LogOptions.parse(options)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in plan_parts(self._options)[: self._parts]]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        part = partition.value
        at, end = part.range
        paths = sorted((Path(part.path) / "commitlog").glob("[0-9]" * 20))
        for path, next_path in zip(paths, [*paths[1:], None], strict=True):
            start = int(path.name)
            until = end if next_path is None else min(end, int(next_path.name))
            if at >= until:
                continue
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from _rows(data, at - start, until - start, part.broker, part.topic_ids)
            at = until


def _rows(
    data: mmap.mmap, at: int, end: int, broker: str | None, topic_ids: frozenset[int]
) -> Iterator[tuple[Any, ...]]:
    while at < end:
        fields = _HEADER.unpack_from(data, at)
        size, magic, crc, _, offset, queue_offset, stored, origin, topic_id, queue_id, epoch, kind, tries = fields[:13]
        if magic != MAGIC:
            return
        born, due, expires, producer, sequence, tag_hash, flags, type_, priority, reliability, *lengths = fields[13:]
        record = data[at : at + size]
        if crc32c(record[64:]) != crc:
            raise CorruptStoreError("", at, "checksum mismatch")
        at += size
        if topic_id not in topic_ids:
            continue
        parts, begin = [], FIXED_BYTES
        for length in lengths:
            parts.append(record[begin : begin + length])
            begin += length
        message_id, topic, transaction, sharding, host, tags, keys, properties, body = parts
        pairs = _strings(properties)
        yield (
            message_id.decode(),
            topic.decode(),
            queue_id,
            queue_offset,
            _strings(tags),
            _strings(keys),
            dict(zip(pairs[::2], pairs[1::2], strict=True)),
            body,
            kind,
            type_,
            priority,
            reliability,
            _time(born),
            _time(stored),
            _time(due) if due else None,
            _time(expires) if expires else None,
            sharding.decode(),
            transaction.decode(),
            host.decode(),
            producer,
            sequence,
            offset,
            origin,
            topic_id,
            epoch,
            tries,
            tag_hash,
            flags,
            size,
            2,
            None,
            None,
            None,
            None,
            None,
            broker,
        )


def _strings(raw: bytes) -> list[str]:
    found, at = [], 0
    while at < len(raw):
        length = raw[at] << 8 | raw[at + 1]
        found.append(raw[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return found


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
