"""``litemq config``: the settings of a program, and where each value comes from."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from litemq.cli.configuration.resolve import ResolvedSetting, build, resolve
from litemq.cli.configuration.tables import TABLES
from litemq.cli.nouns import new_noun
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_table, write_value

__all__ = ["app"]

app = new_noun("config")


class Program(StrEnum):
    """Programs with settings; the values are the keys of ``TABLES``."""

    BROKER = "broker"
    NAMESERVER = "nameserver"
    CLIENT = "client"
    ARCHIVE = "archive"


@app.callback()
def config() -> None:
    """Show settings and where they come from."""


@app.command("show")
def show(
    program: Annotated[Program, typer.Argument(help="Program whose settings to show.")] = Program.BROKER,
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="TOML configuration file of the program.", show_default=False),
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show the settings a program would start with.

    The environment overrides the TOML file, which overrides the default. A flag of the program
    would override them all.
    Values are checked as they are at start-up.
    """
    table = TABLES[program]
    if file is None and table.file_variable in os.environ:
        file = Path(os.environ[table.file_variable])
    chosen = resolve(table, flags={}, environment=os.environ, file=file)
    build(table, chosen)  # raises if a value is invalid
    if output is OutputFormat.TABLE:
        heading = ["setting", "value"] + ["origin"] * origin
        rows = [
            [resolved.setting.key, _in_table(resolved)] + [resolved.origin] * origin for resolved in chosen.values()
        ]
        write_table([heading, *rows])
        if not origin:
            sys.stdout.write("\nUse --origin to show where each value comes from.\n")
    else:
        entries = {
            resolved.setting.key: {"value": _shown(resolved), "origin": resolved.origin} if origin else _shown(resolved)
            for resolved in chosen.values()
        }
        write_value(entries, output)


def _shown(resolved: ResolvedSetting) -> object:
    if resolved.setting.secret and resolved.value:
        return "(hidden)"
    return resolved.setting.kind.show(resolved.value)


def _in_table(resolved: ResolvedSetting) -> str:
    value = _shown(resolved)
    if isinstance(value, bool):
        return str(value).lower()
    return plain(", ".join(value) if isinstance(value, list) else str(value))
