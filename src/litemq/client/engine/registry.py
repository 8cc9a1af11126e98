"""Which engine a URL means: its scheme names an entry point of ``litemq.engines``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Backend
from litemq.errors import InvalidArgumentError

__all__ = ["find_engine"]

_GROUP: Final = "litemq.engines"
_NAMESERVER_PORT: Final = 9876


def find_engine(url: str) -> Callable[[str, ClientConfig], Backend]:
    """What makes the engine for a URL."""
    scheme, separator, _ = url.partition("://")
    engines = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if not separator or scheme not in engines:
        known = ", ".join(f"{name}://" for name in sorted(engines)) or "none: install litemq again"
        raise InvalidArgumentError(
            f"{url!r}: write it like litemq://127.0.0.1:{_NAMESERVER_PORT}; the engines that are installed are {known}"
        )
    make: Callable[[str, ClientConfig], Backend] = engines[scheme].load()
    return make
