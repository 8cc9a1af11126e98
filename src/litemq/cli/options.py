"""Options shared by several commands."""

from __future__ import annotations

from typing import Annotated

import typer

from litemq.cli.rendering.logs import Level

__all__ = ["Keys", "LogLevel", "Properties", "Tags", "Yes", "named_values"]

LogLevel = Annotated[Level, typer.Option("--log-level", envvar="LITEMQ_LOG_LEVEL", help="Minimum level to log.")]
# Never from the environment: a variable that was exported once would confirm every change.
Yes = Annotated[bool, typer.Option("--yes", help="Apply the change.", allow_from_autoenv=False)]
Keys = Annotated[list[str] | None, typer.Option("--key", help="Key for lookups; repeatable.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag for filters; repeatable.")]
Properties = Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="Property; repeatable.")]


def named_values(pairs: list[str]) -> dict[str, str]:
    """Parse the ``NAME=VALUE`` pairs of ``--property``."""
    named = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r}: write NAME=VALUE", param_hint="--property")
        named[name] = value
    return named
