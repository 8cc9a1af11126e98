"""The options of ``litemq-log``, checked: what is unknown or cannot be used raises, with what was most likely meant."""

from __future__ import annotations

import difflib
import glob
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from litemq.errors import ConfigurationError, InvalidArgumentError

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
_LEAST_PART: Final = 64 * 1024
_COUNT: Final = re.compile(r"(?P<digits>[0-9]{1,15})(?P<unit>)")
_SIZE: Final = re.compile(r"(?P<digits>[0-9]{1,15}) ?(?P<unit>[kmg]?)(b|ib)?")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class LogOptions:
    """What to read, and in which parts."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()  # none: all of the users'
    columns: tuple[str, ...] = ()  # none: all
    permissive: bool = False
    after_ms: int | None = None
    before_ms: int | None = None
    include_system: bool = False
    min_partitions: int = 1
    max_partition_bytes: int = 128 << 20
    broker: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> LogOptions:
        """The options of a reader, whose names come in any case."""
        names = {name.lower(): name for name in _KNOWN}
        given: dict[str, str] = {}
        for key, value in options.items():
            if key.lower() not in names:
                near = difflib.get_close_matches(key.lower(), names, n=1)
                meant = f": did you mean {names[near[0]]!r}?" if near else f": choose from {', '.join(_KNOWN)}"
                raise ConfigurationError(f"no option {key!r} of litemq-log{meant}")
            given[names[key.lower()]] = value
        return cls(
            paths=_paths(given),
            topics=_words("topic", given),
            columns=_words("columns", given),
            permissive=_one_of("mode", given, {"failfast": False, "permissive": True}, default=False),
            after_ms=_time("storedAfter", given),
            before_ms=_time("storedBefore", given),
            include_system=_one_of("includeSystem", given, {"true": True, "false": False}, default=False),
            min_partitions=_number("minPartitions", given, 1, 1_000_000, default=1),
            max_partition_bytes=_number("maxPartitionBytes", given, _LEAST_PART, 1 << 40, default=128 << 20, pattern=_SIZE),
            broker=given.get("broker"),
        )

    def found_paths(self) -> list[Path]:
        """The data directories and files that the paths name, patterns resolved."""
        found: list[Path] = []
        for path in self.paths:
            plain = path.removeprefix("file://")
            if not glob.has_magic(plain):
                found.append(Path(plain))
                continue
            matches = sorted(map(Path, glob.glob(plain)))  # noqa: PTH207 - an absolute pattern
            if not matches:
                raise InvalidArgumentError(f"nothing is like {path!r}: name data directories, or files of version 1")
            found += matches
        return list(dict.fromkeys(found))


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    paths = [given["path"]] if given.get("path") else []
    if "paths" in given:
        try:
            several = json.loads(given["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
            raise ConfigurationError(f'paths={given["paths"]!r}: write a JSON list, such as ["/data/broker-a", "/data/broker-b"]')
        paths += several
    if not paths:
        raise ConfigurationError("no path: name a data directory, as in .load('/var/lib/litemq/broker')")
    return tuple(paths)


def _words(name: str, given: Mapping[str, str]) -> tuple[str, ...]:
    if name not in given:
        return ()
    words = tuple(word.strip() for word in given[name].split(","))
    if not all(words):
        raise ConfigurationError(f"{name}={given[name]!r}: write one or more, separated by commas")
    return words


def _one_of(name: str, given: Mapping[str, str], choices: Mapping[str, bool], *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if value.lower() not in choices:
        raise ConfigurationError(f"{name}={value!r}: choose from {', '.join(choices)}")
    return choices[value.lower()]


def _number(name: str, given: Mapping[str, str], least: int, most: int, *, default: int, pattern: re.Pattern[str] = _COUNT) -> int:
    value = given.get(name)
    if value is None:
        return default
    match = pattern.fullmatch(value.strip().lower())
    number = int(match["digits"]) * _UNITS[match["unit"]] if match else -1
    if not least <= number <= most:
        raise ConfigurationError(f"{name}={value!r}: choose {least} … {most}")
    return number


def _time(name: str, given: Mapping[str, str]) -> int | None:
    """Milliseconds since 1970, written so or as a date and time; one without a zone is UTC."""
    value = given.get(name)
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ConfigurationError(f"{name}={value!r}: write a time such as 2026-11-15T06:00:00Z, or milliseconds since 1970") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
