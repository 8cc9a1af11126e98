"""How a command answers: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["Format", "OutputFormat", "plain", "write_json", "write_rows", "write_table", "write_value"]


class OutputFormat(StrEnum):
    """What ``--format`` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Format = Annotated[OutputFormat, typer.Option("--format", envvar="LITEMQ_FORMAT", help="A table for people, JSON or YAML for programs.")]


def write_json(value: object) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def write_value(value: object, output: OutputFormat) -> None:
    """One document on standard output, for a program."""
    if output is OutputFormat.YAML:
        import yaml

        yaml.safe_dump(json.loads(json.dumps(value)), sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        write_json(value)


def write_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[str], output: OutputFormat, *, none: str) -> None:
    """Several things alike. For people those columns, or a sentence where there is nothing."""
    if output is not OutputFormat.TABLE:
        write_value(list(rows), output)
    elif rows:
        write_table([columns, *(["-" if row[column] is None else plain(str(row[column])) for column in columns] for row in rows)])
    else:
        sys.stdout.write(f"{none}\n")


def write_table(lines: Iterable[Sequence[str]]) -> None:
    """Columns beside each other, the first line their headings."""
    lines = list(lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        sys.stdout.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")


def plain(value: str | bytes, limit: int = 80) -> str:
    """Text that does nothing to a terminal, and is not longer than a line."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:limit])
    return shown + ("…" if len(text) > limit else "")
