"""The addresses in a URL ``litemq://host:port[,host:port]``, and how to start servers there.

Imports no other module of the client: Spark tasks use this one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = ["broker_advice", "nameserver_advice", "parse_addresses"]

_NAMESERVER_PORT: Final = 9876
_THIS_HOST: Final = ("127.0.0.1", "localhost")


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


def nameserver_advice(addresses: Sequence[tuple[str, int]]) -> str:
    """Return what to do if no NameServer listens at ``addresses``."""
    if len(addresses) > 1:
        return "start one of them with `litemq nameserver`, or correct the URL"
    [(host, port)] = addresses
    if host not in _THIS_HOST:
        return f"start one on {host} with `litemq nameserver --host {host} --port {port}`, or correct the URL"
    if port != _NAMESERVER_PORT:
        return f"correct the URL, or start one at this port with `litemq up --nameserver-port {port}`"
    return "start one with `litemq up`"


def broker_advice(addresses: Sequence[tuple[str, int]]) -> str:
    """Return how to start a broker whose NameServers listen at ``addresses``."""
    named = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
    is_default = len(addresses) == 1 and addresses[0][0] in _THIS_HOST and addresses[0][1] == _NAMESERVER_PORT
    return "start one with `litemq broker`" if is_default else f"start one with `litemq broker --nameserver {named}`"
