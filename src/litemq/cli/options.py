"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from litemq.cli.logs import Level

__all__ = ["LogLevel"]

LogLevel = Annotated[Level, typer.Option("--log-level", envvar="LITEMQ_LOG_LEVEL", help="What is logged, from this level up.")]
