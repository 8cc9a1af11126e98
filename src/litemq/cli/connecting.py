"""Client for one command: connected with the client's settings, closed when the command ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from litemq.cli.configuration.resolve import build, resolve
from litemq.cli.configuration.tables import CLIENT
from litemq.cli.partial import accept_partial
from litemq.cli.suggestions import with_suggestion
from litemq.errors import ConnectionLostError, GroupNotFoundError, TopicNotFoundError

__all__ = ["ClientFile", "Url", "check_server_listens", "client_settings", "url_option", "with_client"]

T = TypeVar("T")
_PROBE_S = 2.0


def url_option(default: str) -> Any:
    """Return the option ``--url``; ``default`` is for its help."""
    explanation = f"URL of the NameServers; default: {default}."
    return typer.Option("--url", envvar="LITEMQ_URL", metavar="URL", show_default=False, help=explanation)


Url = Annotated[str | None, url_option("litemq://127.0.0.1:9876")]
ClientFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar=CLIENT.file_variable,
        metavar="FILE",
        help="TOML file with client settings; `litemq config init client` writes one with every setting.",
    ),
]


def client_settings(url: str | None, file: Path | None, **more: object) -> tuple[str, dict[str, Any]]:
    """Return the URL and the client settings that differ from their defaults.

    ``more`` holds the command's own flags by field; ``None`` means not given.
    """
    flags = {"url": url, **{name: value for name, value in more.items() if value is not None}}
    chosen = resolve(CLIENT, flags=flags, environment=os.environ, file=file)
    build(CLIENT, chosen)  # raises on an invalid value, with its origin
    settings = {field: one.value for field, one in chosen.items() if one.origin != "default" and field != "url"}
    return chosen["url"].value, settings


def with_client(url: str | None, file: Path | None, use: Callable[[Any], Coroutine[Any, Any, T]], **more: object) -> T:
    """Run ``use`` with a connected client on a new event loop, and return its result.

    If ``use`` raises ``PartialAnswerError``, the result is the partial answer.
    """
    address, settings = client_settings(url, file, **more)
    check_server_listens(address)
    from litemq import AsyncClient
    from litemq.net.event_loop import run

    async def connected() -> T:
        async with AsyncClient(address, **settings) as mq:
            try:
                return await accept_partial(use(mq))
            except (TopicNotFoundError, GroupNotFoundError) as error:
                raise await with_suggestion(mq, error) from None

    return run(connected())


def check_server_listens(url: str, within_s: float = _PROBE_S) -> None:
    """Raise if every NameServer refuses connections; wait at most ``within_s`` for each.

    A client would retry; an interactive user should not wait.
    """
    if not url.startswith("litemq://"):
        return
    from litemq.client.addresses import nameserver_advice, parse_addresses

    refused, addresses = [], parse_addresses(url)
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=within_s).close()
        except ConnectionRefusedError:
            refused.append(f"{host}:{port}")
        except OSError:
            return  # the client reports a better error
        else:
            return
    raise ConnectionLostError(f"no NameServer is listening at {', '.join(refused)}: {nameserver_advice(addresses)}")
