"""Output of commands: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["Format", "OutputFormat", "plain", "write_json", "write_rows", "write_table", "write_value"]


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


def plain(value: str | bytes, limit: int = 80) -> str:
    """Return ``value`` with unprintable characters escaped, cut to ``limit`` characters."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:limit])
    return shown + ("…" if len(text) > limit else "")
