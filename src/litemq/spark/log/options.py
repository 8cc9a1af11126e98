"""Options of the data source ``litemq-log``, parsed and validated."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.spark.options import OptionReader

__all__ = ["LogOptions"]

_KNOWN: Final = (
    "path",
    "paths",
    "topic",
    "columns",
    "mode",
    "storedAfter",
    "storedBefore",
    "includeSystem",
    "minPartitions",
    "maxPartitionBytes",
    "broker",
)
_MIN_PART_BYTES: Final = 64 * 1024
_MAX_PART_BYTES: Final = 1 << 40
_PART: Final = 128 << 20  # Spark's own default for files
_SIZE: Final = re.compile(r"(?P<digits>[0-9]{1,15}) ?(?P<unit>[kmg]?)(b|ib)?")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class LogOptions:
    """The data to read, and the size of its parts."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()  # empty: all user topics
    columns: tuple[str, ...] = ()  # empty: all
    permissive: bool = False
    after_ms: int | None = None
    before_ms: int | None = None
    include_system: bool = False
    min_partitions: int = 1
    max_partition_bytes: int = _PART
    broker: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> LogOptions:
        """Parse Spark's options, whose names may be in any case."""
        given = OptionReader(options, _KNOWN, of="litemq-log")
        return cls(
            paths=_paths(given),
            topics=tuple(given.names("topic") or ()),
            columns=tuple(given.names("columns") or ()),
            permissive=_is_permissive(given.text("mode")),
            after_ms=given.moment("storedAfter"),
            before_ms=given.moment("storedBefore"),
            include_system=given.switch("includeSystem", False),
            min_partitions=given.number("minPartitions") or 1,
            max_partition_bytes=_bytes(given.text("maxPartitionBytes")),
            broker=given.text("broker"),
        )

    def found_paths(self) -> list[Path]:
        """Return the data directories and files of ``paths``, with glob patterns expanded."""
        found: list[Path] = []
        for path in self.paths:
            plain = path.removeprefix("file://")
            if not glob.has_magic(plain):
                found.append(Path(plain))
                continue
            matches = sorted(map(Path, glob.glob(plain)))  # noqa: PTH207 - an absolute pattern
            if not matches:
                raise InvalidArgumentError(f"no path matches {path!r}: give data directories, or files of version 1")
            found += matches
        return list(dict.fromkeys(found))


def _paths(given: OptionReader) -> tuple[str, ...]:
    path, several = given.text("path"), given.text("paths")
    paths = [] if path is None else [path]
    if several is not None:
        try:
            named = json.loads(several)
        except ValueError:
            named = None
        if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
            raise InvalidArgumentError(
                f'option paths={several!r}: write a JSON list, such as ["/data/broker-a", "/data/broker-b"]'
            )
        paths += named
    if not paths:
        raise InvalidArgumentError(
            "litemq-log needs a path: give a data directory, as in .load('/var/lib/litemq/broker')"
        )
    return tuple(paths)


def _is_permissive(mode: str | None) -> bool:
    if mode is not None and mode.lower() not in ("failfast", "permissive"):
        raise InvalidArgumentError(f"option mode={mode!r}: choose failfast or permissive")
    return mode is not None and mode.lower() == "permissive"


def _bytes(text: str | None) -> int:
    if text is None:
        return _PART
    match = _SIZE.fullmatch(text.strip().lower())
    number = int(match["digits"]) * _UNITS[match["unit"]] if match else -1
    if not _MIN_PART_BYTES <= number <= _MAX_PART_BYTES:
        raise InvalidArgumentError(
            f"option maxPartitionBytes={text!r}: choose {_MIN_PART_BYTES} … {_MAX_PART_BYTES}, or a size such as 64m"
        )
    return number
