"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from litemq.cli.rendering.logs import Level

__all__ = ["LogLevel", "named_values"]

LogLevel = Annotated[Level, typer.Option("--log-level", envvar="LITEMQ_LOG_LEVEL", help="What is logged, from this level up.")]


def named_values(pairs: list[str]) -> dict[str, str]:
    """``--property``, as often as it was given."""
    named = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r}: write NAME=VALUE", param_hint="--property")
        named[name] = value
    return named
