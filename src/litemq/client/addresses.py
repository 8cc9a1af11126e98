"""The addresses in a URL ``litemq://host:port[,host:port]``.

Imports no other module of the client: Spark tasks use this one alone.
"""

from __future__ import annotations

from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = ["parse_addresses"]

_NAMESERVER_PORT: Final = 9876


def parse_addresses(url: str) -> list[tuple[str, int]]:
    """Return the NameServers in ``litemq://host[:port][,host[:port]]``; default port: 9876."""
    _, _, rest = url.partition("://")
    addresses = []
    for part in rest.rstrip("/").split(","):
        host, colon, port = part.rpartition(":") if not part.endswith("]") else (part, "", "")
        if not colon:
            host, port = part, str(_NAMESERVER_PORT)
        if (
            not host
            or not port.isascii()
            or not port.isdigit()
            or not 0 < int(port) < 65536
            or "/" in part
            or "@" in part
        ):
            raise InvalidArgumentError(
                f"{url!r}: write litemq://host:{_NAMESERVER_PORT}, and separate several NameServers with commas"
            )
        addresses.append((host.strip("[]"), int(port)))
    return addresses
