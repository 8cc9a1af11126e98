"""``litemq up``: a NameServer and brokers on this machine, without configuration."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.processes.supervision import Child, supervise
from litemq.cli.rendering.logs import Level
from litemq.errors import AddressInUseError, InvalidArgumentError, StoreLockedError
from litemq.storage.files.lock import DirectoryLock

__all__ = ["app"]

app = new_noun("up")

_DEFAULT_NAMESERVER: Final = ("127.0.0.1", 9876)
_MAX_BROKERS: Final = 64
_MAX_PORT: Final = 65535
# Added to the shutdown timeout of a child.
_GRACE_S: Final = 10.0

Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers",
        min=1,
        max=_MAX_BROKERS,
        help="Number of brokers, such as one per processor core; default: as before in DIR, or 1.",
        show_default=False,
    ),
]


@app.command("up")
def up(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Data directory; created if missing.")] = Path(
        "litemq-data"
    ),
    host: Annotated[
        str, typer.Option("--host", envvar=["LITEMQ_UP_HOST", "LITEMQ_BROKER_HOST"], help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            envvar=["LITEMQ_UP_PORT", "LITEMQ_BROKER_PORT"],
            min=0,
            max=65535,
            help="Port of the first broker; the others follow.",
        ),
    ] = 10911,
    brokers: Brokers = None,
    nameserver_port: Annotated[
        int,
        typer.Option(
            "--nameserver-port",
            envvar=["LITEMQ_UP_NAMESERVER_PORT", "LITEMQ_NAMESERVER_PORT"],
            min=1,
            max=65535,
            help="Port of the NameServer, which clients connect to.",
        ),
    ] = 9876,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow listening on non-loopback addresses without access control.")
    ] = False,
    shutdown_timeout: Annotated[
        str,
        typer.Option(
            "--shutdown-timeout",
            envvar=["LITEMQ_UP_SHUTDOWN_TIMEOUT", "LITEMQ_BROKER_SHUTDOWN_TIMEOUT"],
            metavar="DURATION",
            help="Maximum time for a graceful shutdown.",
        ),
    ] = "30s",
    log_level: LogLevel = Level.WARNING,
) -> None:
    """Run a NameServer and brokers for development until Ctrl-C or SIGTERM.

    Topics are created on first use, with queues on every broker. All servers stop when this
    process ends, and if one of them exits, the others are stopped. The environment variables of
    `litemq broker` apply.
    """
    shutdown_s = parse_duration(shutdown_timeout)
    common = {"host": host, "insecure": insecure or None}
    nameserver = {**common, "port": nameserver_port, "data_path": str(data / "nameserver")}
    broker = {
        **common,
        "nameservers": f"{_reachable(host)}:{nameserver_port}",
        "auto_create_topics": True,
        "shutdown_timeout_ms": shutdown_timeout,
    }
    lock = _lock(data)
    try:
        own = _own_settings(data, _count_brokers(data, brokers), port, nameserver_port)
        supervise(
            [
                partial(Child, "NameServer", "nameserver", log_level, nameserver),
                *(partial(Child, name, "broker", log_level, {**broker, **settings}) for name, settings in own.items()),
            ],
            ready=lambda children: _announce(data, children),
            shutdown_s=shutdown_s + _GRACE_S,
        )
    except AddressInUseError as error:
        raise AddressInUseError(
            f"{str(error).partition('. ')[0]}. If LiteMQ is already running, use it; otherwise choose other ports: "
            "litemq up --nameserver-port 9877 --port 10921"
        ) from None
    finally:
        lock.release()


def _count_brokers(data: Path, chosen: int | None) -> int:
    """Return the number of brokers to start; refuse to leave out one that has data."""
    known = max([1, *(number for number in range(2, _MAX_BROKERS + 1) if _directory(data, number).exists())])
    if chosen is not None and chosen < known:
        raise InvalidArgumentError(
            f"{data} has the messages of {known} brokers: start with --brokers {known}, or without --brokers"
        )
    return chosen or known


def _directory(data: Path, number: int) -> Path:
    return data / ("broker" if number == 1 else f"broker-{number}")


def _own_settings(data: Path, count: int, port: int, nameserver_port: int) -> dict[str, dict[str, object]]:
    """Return the settings in which the brokers differ, by the name that users see."""
    ports = [port + number if port else 0 for number in range(count)]
    if nameserver_port in ports:
        raise typer.BadParameter(
            f"{nameserver_port} is also the NameServer's port: choose another one", param_hint="--port"
        )
    if ports[-1] > _MAX_PORT:
        raise typer.BadParameter(f"{count} brokers need the ports {port} … {ports[-1]}", param_hint="--port")
    if count == 1:
        return {"broker": {"port": port, "data_path": str(_directory(data, 1))}}
    return {
        name: {"broker_id": name, "broker_name": name, "port": each, "data_path": str(_directory(data, number))}
        for number, each in enumerate(ports, 1)
        for name in (f"broker-{number}",)
    }


def _reachable(host: str) -> str:
    """Return the address at which this machine reaches a server listening on ``host``."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 (compared only)


def _lock(data: Path) -> DirectoryLock:
    data.mkdir(parents=True, exist_ok=True)
    try:
        return DirectoryLock(data)
    except StoreLockedError:
        holder = (data / "lock").read_text(errors="replace").strip()
        raise StoreLockedError(
            f"litemq up is already running with pid {holder} and data in {data}: use it, "
            f"stop it with Ctrl-C or `kill {holder}`, or start another one with --data, --port and --nameserver-port"
        ) from None


def _announce(data: Path, children: list[Child]) -> None:
    addresses = [f"{child.name} {child.address[0]}:{child.address[1]}" for child in children if child.address]
    nameserver = children[0].address or _DEFAULT_NAMESERVER
    variable = (
        ""
        if nameserver == _DEFAULT_NAMESERVER
        else f"  export LITEMQ_URL=litemq://{_reachable(nameserver[0])}:{nameserver[1]}\n"
    )
    sys.stdout.write(
        f"LiteMQ is ready: {', '.join(addresses)}, data in {data}\n\n"
        f"Now run, in another terminal:\n{variable}"
        "  litemq message send orders '{\"id\": 1}'\n"
        "  litemq message tail orders\n\n"
        "Press Ctrl-C to stop.\n"
    )
    sys.stdout.flush()
