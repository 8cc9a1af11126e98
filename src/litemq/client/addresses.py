"""The URL that a client is given: its scheme chooses the engine, which entry points name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from litemq.errors import InvalidArgumentError

if TYPE_CHECKING:  # whoever only reads addresses, as a Spark task does, need not wait for the whole client
    from litemq.client.config import ClientConfig
    from litemq.client.engine.engine import Backend

__all__ = ["find_engine", "parse_addresses"]

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


def parse_addresses(url: str) -> list[tuple[str, int]]:
    """The NameServers that ``litemq://host:port[,host:port]`` names; the port may be left out."""
    _, _, rest = url.partition("://")
    addresses = []
    for part in rest.rstrip("/").split(","):
        host, colon, port = part.rpartition(":") if not part.endswith("]") else (part, "", "")
        if not colon:
            host, port = part, str(_NAMESERVER_PORT)
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536 or "/" in part or "@" in part:
            raise InvalidArgumentError(
                f"{url!r}: write it like litemq://host:{_NAMESERVER_PORT}, several NameServers with commas between them"
            )
        addresses.append((host.strip("[]"), int(port)))
    return addresses
