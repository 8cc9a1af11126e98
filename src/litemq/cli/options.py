"""Options shared by several commands."""

from __future__ import annotations

from typing import Annotated

import typer

from litemq.cli.rendering.logs import Level

__all__ = ["LogLevel", "named_values"]

LogLevel = Annotated[Level, typer.Option("--log-level", envvar="LITEMQ_LOG_LEVEL", help="Minimum level to log.")]


def named_values(pairs: list[str]) -> dict[str, str]:
    """Parse the ``NAME=VALUE`` pairs of ``--property``."""
    named = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r}: write NAME=VALUE", param_hint="--property")
        named[name] = value
    return named
