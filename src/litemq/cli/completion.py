"""Completion of topic and group names in a shell.

A user waits for it at the prompt, so that it takes at most a second and is silent about errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from litemq.cli.connecting import check_server_listens, client_settings
from litemq.cli.suggestions import names_of

__all__ = ["complete_group", "complete_name", "complete_topic"]

_WITHIN_S: Final = 1.0
_TIMEOUTS: Final = {"connect_timeout_ms": 500, "contact_timeout_ms": 500, "request_timeout_ms": 500}


def complete_topic(ctx: Any, incomplete: str) -> list[str]:
    """Return the topics that begin with ``incomplete``."""
    return _names(ctx, incomplete, "topic")


def complete_group(ctx: Any, incomplete: str) -> list[str]:
    """Return the consumer groups that begin with ``incomplete``."""
    return _names(ctx, incomplete, "group")


def complete_name(ctx: Any, incomplete: str) -> list[str]:
    """Return the topics and the consumer groups that begin with ``incomplete``."""
    return sorted({*_names(ctx, incomplete, "topic"), *_names(ctx, incomplete, "group")})


def _names(ctx: Any, incomplete: str, kind: str) -> list[str]:
    logging.disable()  # a warning would appear at the prompt
    try:
        found = _ask(ctx.params.get("url"), ctx.params.get("config"), kind)
    except Exception:  # noqa: BLE001  no completion is better than an error at the prompt
        return []
    return sorted(name for name in found if name.startswith(incomplete))


def _ask(url: str | None, file: Path | None, kind: str) -> Collection[str]:
    address, settings = client_settings(url, file)
    check_server_listens(address, _WITHIN_S / 2)
    from litemq import AsyncClient

    async def connected() -> Collection[str]:
        async with asyncio.timeout(_WITHIN_S), AsyncClient(address, **{**settings, **_TIMEOUTS}) as mq:
            return await names_of(mq, kind)

    return asyncio.run(connected())
