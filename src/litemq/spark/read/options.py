"""Options of the data source ``litemq``, named like those of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from litemq.client.config import ReadFrom
from litemq.errors import InvalidArgumentError
from litemq.spark.options import OptionReader, moment_ms

__all__ = ["ReadOptions", "Start", "parse_read_options"]

_SOURCE_NAME: Final = "the litemq source"
EARLIEST: Final = -2
LATEST: Final = -1
_CHOICE: Final = ("subscribe", "subscribePattern", "assign")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "storedAfter", "storedBefore")
_OFFSETS_EXAMPLE: Final = 'earliest, latest or {"orders": {"0": 23, "broker-a/1": -2}}'
_TIMES_EXAMPLE: Final = '{"orders": {"0": "2026-01-31T12:00:00Z"}}'
KNOWN: Final = (
    "url",
    *_CHOICE,
    "includeSystem",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    *_ENDING,
    "maxOffsetsPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "groupId",
    "groupIdPrefix",
    "readFrom",
    "columns",
    "tag",
    "key",
)

# Values per queue, by topic and by queue id or ``broker/queue id``.
QueueValues = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Start:
    """The start or end of a read: ``default``, or offsets or times for some queues."""

    default: int = EARLIEST  # or LATEST
    time_ms: int | None = None  # for all queues
    offsets: QueueValues | None = None
    times_ms: QueueValues | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The validated options of a read. They are sent to the tasks."""

    url: str
    topics: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: Mapping[str, tuple[str, ...]] | None = None  # queue ids by topic
    include_system: bool = False
    start: Start = Start()
    end: Start = Start(LATEST)
    stored_after: int | None = None
    stored_before: int | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    group_id: str | None = None
    read_from: ReadFrom = "master"
    columns: tuple[str, ...] | None = None
    tag: str | None = None
    key: str | None = None


def parse_read_options(given: Mapping[str, str], kind: Literal["batch", "stream", "either"]) -> ReadOptions:
    """Parse and validate the options ``given``. Raise ``InvalidArgumentError`` if they are invalid.

    With ``kind="either"``, options that only batches or only streams accept are not rejected.
    """
    read = OptionReader(given, KNOWN, of=_SOURCE_NAME)
    if kind == "stream" and read.given & set(_ENDING):
        name = min(read.given & set(_ENDING))
        hint = (
            "use startingTimestamp, or spark.read" if name == "storedAfter" else "a stream has no end; use spark.read"
        )
        raise InvalidArgumentError(f"option {name} is for spark.read only: {hint}")
    if kind == "batch" and read.given & {"maxOffsetsPerTrigger", "groupId", "groupIdPrefix"}:
        name = min(read.given & {"maxOffsetsPerTrigger", "groupId", "groupIdPrefix"})
        raise InvalidArgumentError(f"option {name} is for spark.readStream only: remove it")
    chosen = [name for name in _CHOICE if name in read.given]
    if len(chosen) != 1:
        hint = "they exclude each other" if chosen else 'for example .option("subscribe", "orders")'
        raise InvalidArgumentError(
            f"{_SOURCE_NAME} needs exactly one of subscribe, subscribePattern and assign: {hint}"
        )
    columns = read.names("columns")
    topics = read.names("subscribe")
    group, prefix = read.text("groupId"), read.text("groupIdPrefix")
    if group and prefix:
        raise InvalidArgumentError("options groupId and groupIdPrefix exclude each other: remove one")
    options = ReadOptions(
        url=read.needed("url", "litemq://127.0.0.1:9876"),
        topics=None if topics is None else tuple(topics),
        pattern=read.pattern("subscribePattern"),
        assigned=_assigned(read),
        include_system=read.switch("includeSystem", False),
        start=_start(read, "starting", LATEST if kind == "stream" else EARLIEST),
        end=_start(read, "ending", LATEST),
        stored_after=read.moment("storedAfter"),
        stored_before=read.moment("storedBefore"),
        max_offsets_per_trigger=read.number("maxOffsetsPerTrigger"),
        min_partitions=read.number("minPartitions"),
        max_records_per_partition=read.number("maxRecordsPerPartition"),
        fail_on_data_loss=read.switch("failOnDataLoss", True),
        group_id=group or (f"{prefix}-spark" if prefix else None),
        read_from=read.choice("readFrom", get_args(ReadFrom)) or "master",
        columns=None if columns is None else tuple(columns),
        tag=read.text("tag"),
        key=read.text("key"),
    )
    if kind == "batch" and options.start.default == LATEST:
        raise InvalidArgumentError(
            "option startingOffsets=latest: there is nothing after the latest message; choose earliest or offsets"
        )
    if options.end.default == EARLIEST:
        raise InvalidArgumentError(
            "option endingOffsets=earliest: there is nothing before the earliest message; choose latest or offsets"
        )
    return options


def _start(read: OptionReader, edge: str, default: int) -> Start:
    """Parse the start or end.

    As in Kafka's source, a time for all queues wins over times, then offsets, per queue.
    """
    time_ms = read.moment(f"{edge}Timestamp")
    if time_ms is not None:
        return Start(default, time_ms=time_ms)
    times = read.json_object(f"{edge}OffsetsByTimestamp", _TIMES_EXAMPLE)
    if times is not None:
        return Start(
            default, times_ms=_parse_queue_values(times, f"{edge}OffsetsByTimestamp", _TIMES_EXAMPLE, times=True)
        )
    word = read.text(f"{edge}Offsets")
    if word is None or word.strip().lower() in ("earliest", "latest"):
        return Start(default if word is None else EARLIEST if word.strip().lower() == "earliest" else LATEST)
    offsets = read.json_object(f"{edge}Offsets", _OFFSETS_EXAMPLE)
    return Start(default, offsets=_parse_queue_values(offsets or {}, f"{edge}Offsets", _OFFSETS_EXAMPLE, times=False))


def _parse_queue_values(found: Mapping[str, Any], name: str, example: str, *, times: bool) -> dict[str, dict[str, int]]:
    read: dict[str, dict[str, int]] = {}
    for topic, queues in found.items():
        if not isinstance(queues, dict):
            raise InvalidArgumentError(f"option {name}, topic {topic!r}: write it like {example}")
        for queue, value in queues.items():
            what = f"option {name}, queue {topic}/{queue}"
            if times:
                read.setdefault(topic, {})[queue] = moment_ms(value, what)
            elif isinstance(value, int) and not isinstance(value, bool) and EARLIEST <= value < 1 << 62:
                read.setdefault(topic, {})[queue] = value
            else:
                raise InvalidArgumentError(
                    f"{what}: invalid offset {value!r}; choose 0 or more, -2 for earliest or -1 for latest"
                )
    return read


def _assigned(read: OptionReader) -> dict[str, tuple[str, ...]] | None:
    example = '{"orders": [0, "broker-a/1"]}'
    found = read.json_object("assign", example)
    if found is None:
        return None
    for topic, queues in found.items():
        if not isinstance(queues, list) or not queues or not all(isinstance(each, int | str) for each in queues):
            raise InvalidArgumentError(f"option assign, topic {topic!r}: write it like {example}")
    return {topic: tuple(str(each) for each in queues) for topic, queues in found.items()}
