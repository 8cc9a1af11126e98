"""Engine lookup: the scheme of a URL names an entry point of the group ``litemq.engines``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine
from litemq.client.entry_points import installed
from litemq.errors import InvalidArgumentError

__all__ = ["find_engine"]

_GROUP: Final = "litemq.engines"
_NAMESERVER_PORT: Final = 9876


def find_engine(url: str) -> Callable[[str, ClientConfig], Engine]:
    """Return the factory of the engine for ``url``."""
    scheme, separator, _ = url.partition("://")
    engines = {entry.name: entry for entry in installed(_GROUP)}
    if not separator or scheme not in engines:
        known = ", ".join(f"{name}://" for name in sorted(engines)) or "none (reinstall litemq)"
        raise InvalidArgumentError(
            f"{url!r}: write it like litemq://127.0.0.1:{_NAMESERVER_PORT}; installed engines: {known}"
        )
    make: Callable[[str, ClientConfig], Engine] = engines[scheme].load()
    return make
