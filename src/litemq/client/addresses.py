"""The addresses in a URL ``litemq://host:port[,host:port]``. Imports nothing else of the client: a Spark task needs only this."""

from __future__ import annotations

from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = ["parse_addresses"]

_NAMESERVER_PORT: Final = 9876


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
