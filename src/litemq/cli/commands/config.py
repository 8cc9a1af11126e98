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

    A flag overrides the environment, which overrides the TOML file, which overrides the default.
    Values are validated as at start-up.
    """
    table = TABLES[program]
    if file is None and table.file_variable in os.environ:
        file = Path(os.environ[table.file_variable])
    chosen = resolve(table, flags={}, environment=os.environ, file=file)
    build(table, chosen)
    if output is OutputFormat.TABLE:
        heading = ["setting", "value"] + ["origin"] * origin
        write_table([heading, *([one.setting.key, _in_table(one)] + [one.origin] * origin for one in chosen.values())])
        if not origin:
            sys.stdout.write("\nUse --origin to show where each value comes from.\n")
    else:
        entries = {
            one.setting.key: {"value": _shown(one), "origin": one.origin} if origin else _shown(one)
            for one in chosen.values()
        }
        write_value(entries, output)


def _shown(one: ResolvedSetting) -> object:
    if one.setting.secret and one.value:
        return "(hidden)"
    return one.setting.kind.show(one.value)


def _in_table(one: ResolvedSetting) -> str:
    value = _shown(one)
    if isinstance(value, bool):
        return str(value).lower()
    return plain(", ".join(value) if isinstance(value, list) else str(value))
