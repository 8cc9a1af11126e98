"""``litemq config``: every setting of a program, and where its value comes from."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from litemq.cli.configuration.resolve import Chosen, build, resolve
from litemq.cli.configuration.tables import TABLES
from litemq.cli.nouns import new_noun
from litemq.cli.rendering.output import Format, OutputFormat, plain, write_table, write_value

__all__ = ["app"]

app = new_noun("config")


class Program(StrEnum):
    """Whose settings: the names of the tables."""

    BROKER = "broker"
    NAMESERVER = "nameserver"
    CLIENT = "client"
    ARCHIVE = "archive"


@app.callback()
def config() -> None:
    """Show the settings, and where each comes from."""


@app.command("show")
def show(
    program: Annotated[Program, typer.Argument(help="Whose settings.")] = Program.BROKER,
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The TOML file that the program would be given.", show_default=False)
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show what a program would run with: flag before environment before TOML before default.

    The same checks are made as when it starts: what it would refuse is refused here.
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
            sys.stdout.write("\nWhere each comes from: --origin\n")
    else:
        entries = {one.setting.key: {"value": _shown(one), "origin": one.origin} if origin else _shown(one) for one in chosen.values()}
        write_value(entries, output)


def _shown(one: Chosen) -> object:
    if one.setting.secret and one.value:
        return "(hidden)"
    return one.setting.kind.show(one.value)


def _in_table(one: Chosen) -> str:
    value = _shown(one)
    if isinstance(value, bool):
        return str(value).lower()
    return plain(", ".join(value) if isinstance(value, list) else str(value))
