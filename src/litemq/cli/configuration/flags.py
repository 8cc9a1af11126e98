"""Command-line flags of a program, generated from its table of settings."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from litemq.cli.configuration.resolve import ResolvedSetting, resolve
from litemq.cli.configuration.setting import Setting, Table

__all__ = ["with_settings"]


def with_settings(table: Table) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with ``--config`` and a flag per setting of ``table``.

    The command receives the resolved settings as ``chosen``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [parameter for name, parameter in signature.parameters.items() if name != "chosen"]
        positional = [parameter for parameter in own if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
        keyword = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        generated = [
            _parameter("config", Path | None, _file_option(table)),
            *(_flag(table, setting) for setting in table.settings),
        ]

        @wraps(command)
        def run(*arguments: Any, **named: Any) -> None:
            file = named.pop("config")
            flags = {setting.field: named.pop(setting.field) for setting in table.settings}
            command(*arguments, **named, chosen=choose(table, flags, file))

        run.__signature__ = signature.replace(parameters=[*positional, *generated, *keyword])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *generated]} | {
            "return": None
        }
        del run.__wrapped__
        return run

    return decorate


def choose(table: Table, flags: Mapping[str, object], file: Path | None) -> dict[str, ResolvedSetting]:
    """Resolve the settings of ``table`` with this process's environment."""
    return resolve(table, flags=flags, environment=os.environ, file=file)


def _file_option(table: Table) -> Any:
    return typer.Option(
        "--config",
        metavar="FILE",
        envvar=table.file_variable,
        help=f"TOML configuration file; `litemq config init {table.program}` writes one with every setting.",
    )


def _flag(table: Table, setting: Setting) -> inspect.Parameter:
    variable, default = table.variable(setting), setting.kind.show(table.defaults[setting.field])
    shown = (
        ""
        if default is False or default in ("", [])
        else f"; default: {','.join(default) if isinstance(default, list) else default}"
    )
    text = f"{setting.help} [{variable}{shown}]"
    if setting.kind.name == "switch":
        option = typer.Option(
            f"{setting.flag}/--no-{setting.flag[2:]}", help=text, show_default=False, allow_from_autoenv=False
        )
        return _parameter(setting.field, bool | None, option)
    metavar = setting.kind.metavar
    option = typer.Option(setting.flag, metavar=metavar, help=text, show_default=False, allow_from_autoenv=False)
    return _parameter(setting.field, str | None, option)


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
