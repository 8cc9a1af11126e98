"""A client for one command: connected with the client's settings, gone when the command ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from litemq.cli.configuration.resolve import build, resolve
from litemq.cli.configuration.tables import CLIENT
from litemq.errors import ConnectionLostError

__all__ = ["ClientFile", "Url", "client_settings", "with_client"]

T = TypeVar("T")
_PROBE_S = 2.0

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="LITEMQ_URL",
        metavar="URL",
        show_default=False,
        help="Where the NameServers are; default: litemq://127.0.0.1:9876.",
    ),
]
ClientFile = Annotated[
    Path | None,
    typer.Option("--config", envvar=CLIENT.file_variable, metavar="FILE", help="A TOML file; configs/client.toml has every key."),
]


def client_settings(url: str | None, file: Path | None, **more: object) -> tuple[str, dict[str, Any]]:
    """Where to connect, and every setting of a client that was not left to its default."""
    flags = {"url": url, **{name: value for name, value in more.items() if value is not None}}
    chosen = resolve(CLIENT, flags=flags, environment=os.environ, file=file)
    build(CLIENT, chosen)  # says what cannot be used, and where it was said
    settings = {field: one.value for field, one in chosen.items() if one.origin != "default" and field != "url"}
    return chosen["url"].value, settings


def with_client(url: str | None, file: Path | None, use: Callable[[Any], Coroutine[Any, Any, T]], **more: object) -> T:
    """Run something with a client, on a loop of its own."""
    where, settings = client_settings(url, file, **more)
    _check_server_listens(where)
    from litemq import AsyncClient
    from litemq.net.event_loop import run

    async def connected() -> T:
        async with AsyncClient(where, **settings) as mq:
            return await use(mq)

    return run(connected())


def _check_server_listens(url: str) -> None:
    """A client would try again for a while, as it should; somebody who types wants to know at once."""
    if not url.startswith("litemq://"):
        return
    from litemq.client.addresses import parse_addresses

    refused = []
    for host, port in parse_addresses(url):
        try:
            socket.create_connection((host, port), timeout=_PROBE_S).close()
        except ConnectionRefusedError:
            refused.append(f"{host}:{port}")
        except OSError:
            return  # the client knows more, and says so
        else:
            return
    raise ConnectionLostError(f"nobody listens at {', '.join(refused)}: start one with: litemq up")
