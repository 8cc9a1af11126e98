"""``litemq config``: the settings of a program, and where each value comes from."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from litemq.cli.configuration.resolve import ResolvedSetting, build, resolve
from litemq.cli.configuration.setting import Setting, Table
from litemq.cli.configuration.tables import TABLES
from litemq.cli.configuration.toml_document import Entry, toml_document
from litemq.cli.nouns import new_noun
from litemq.cli.rendering.output import OutputFormat, plain, write_table, write_value
from litemq.errors import InvalidArgumentError

__all__ = ["app"]

app = new_noun("config")


class Program(StrEnum):
    """Programs with settings; the values are the keys of ``TABLES``."""

    BROKER = "broker"
    NAMESERVER = "nameserver"
    CLIENT = "client"
    ARCHIVE = "archive"


class SettingsFormat(StrEnum):
    """Values of ``--format``: those of other commands, and TOML."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    TOML = "toml"


@app.callback()
def config() -> None:
    """Show settings and where they come from, or write a configuration file."""


@app.command("show")
def show(
    program: Annotated[Program, typer.Argument(help="Program whose settings to show.")] = Program.BROKER,
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="TOML configuration file of the program.", show_default=False),
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    output: Annotated[
        SettingsFormat,
        typer.Option("--format", envvar="LITEMQ_FORMAT", help="Output format: table, json, yaml or toml."),
    ] = SettingsFormat.TABLE,
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
    if output is SettingsFormat.TOML:
        sys.stdout.write(toml_document(_entry(resolved, origin=origin) for resolved in chosen.values()))
    elif output is SettingsFormat.TABLE:
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
        write_value(entries, OutputFormat(output.value))


@app.command("init")
def init(
    program: Annotated[Program, typer.Argument(help="Program to write a configuration file for.", show_default=False)],
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="File to write; must not exist. Default: standard output.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a configuration file with all settings of a program and their defaults.

    Each setting has a comment that explains it and names its flag and environment variable.
    """
    table = TABLES[program]
    text = f"# Settings of {_DESCRIPTIONS[program]} with their defaults. Delete those that you do not change.\n\n"
    text += toml_document(
        Entry(setting, table.defaults[setting.field], _explanation(table, setting)) for setting in table.settings
    )
    if target is None:
        sys.stdout.write(text)
        return
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidArgumentError(f"{target} exists: choose another --output, or remove the file") from None
    sys.stdout.write(f"wrote {target}\n")


_DESCRIPTIONS = {
    Program.BROKER: "a broker (litemq broker --config FILE)",
    Program.NAMESERVER: "a NameServer (litemq nameserver --config FILE)",
    Program.CLIENT: "the command's client (--config FILE)",
    Program.ARCHIVE: "an archive (litemq pipeline archive --config FILE)",
}


def _explanation(table: Table, setting: Setting) -> str:
    choices = f" One of {', '.join(setting.kind.choices)}." if setting.kind.choices else ""
    flag = "" if table is TABLES[Program.CLIENT] else f"{setting.flag}, "  # the client has no flags
    return f"{setting.help}{choices} [{flag}{table.variable(setting)}]"


def _entry(resolved: ResolvedSetting, *, origin: bool) -> Entry:
    is_hidden = resolved.setting.secret and resolved.value
    return Entry(resolved.setting, "(hidden)" if is_hidden else resolved.value, behind=resolved.origin * origin)


def _shown(resolved: ResolvedSetting) -> object:
    if resolved.setting.secret and resolved.value:
        return "(hidden)"
    return resolved.setting.kind.show(resolved.value)


def _in_table(resolved: ResolvedSetting) -> str:
    value = _shown(resolved)
    if isinstance(value, bool):
        return str(value).lower()
    return plain(", ".join(value) if isinstance(value, list) else str(value))
