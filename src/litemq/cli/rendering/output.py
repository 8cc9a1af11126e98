"""Output of commands: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

__all__ = [
    "Format",
    "OutputFormat",
    "counted",
    "duration",
    "plain",
    "write_json",
    "write_rows",
    "write_table",
    "write_value",
]


class OutputFormat(StrEnum):
    """Values of ``--format``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Format = Annotated[
    OutputFormat, typer.Option("--format", envvar="LITEMQ_FORMAT", help="Output format: table, json or yaml.")
]


def write_json(value: object) -> None:
    """Write ``value`` as a JSON document to standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def write_value(value: object, output: OutputFormat) -> None:
    """Write ``value`` as a JSON or YAML document to standard output."""
    if output is OutputFormat.YAML:
        import yaml

        yaml.safe_dump(json.loads(json.dumps(value)), sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        write_json(value)


def write_rows(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], output: OutputFormat, *, none: str
) -> None:
    """Write ``rows``. A table shows ``columns``, or the sentence ``none`` if there are no rows."""
    if output is not OutputFormat.TABLE:
        write_value(list(rows), output)
    elif rows:
        write_table(
            [
                columns,
                *(["-" if row[column] is None else plain(str(row[column])) for column in columns] for row in rows),
            ]
        )
    else:
        sys.stdout.write(f"{none}\n")


def write_table(lines: Iterable[Sequence[str]]) -> None:
    """Write aligned columns; the first line is the headings."""
    lines = list(lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        sys.stdout.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")


def counted(number: int, noun: str) -> str:
    """Return ``number`` with ``noun``, which has an s unless there is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(milliseconds: float) -> str:
    """Format a duration in the largest unit that divides it, as settings are written: 90s, 1d."""
    number = round(milliseconds)
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if number and number % factor == 0:
            return f"{number // factor}{unit}"
    return f"{number}ms" if number else "0"


def plain(value: str | bytes, limit: int = 80) -> str:
    """Return ``value`` with unprintable characters escaped, cut to ``limit`` characters.

    Bytes that are not UTF-8 are returned in hexadecimal digits, and in full: a part of them may be
    part of a character.
    """
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return f"hex:{value.hex()}"
    else:
        text = value
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:limit])
    return shown + ("…" if len(text) > limit else "")
