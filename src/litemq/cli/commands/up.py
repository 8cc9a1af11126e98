"""``litemq up``: a NameServer and a broker on this machine, without configuration."""

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
from litemq.errors import AddressInUseError, StoreLockedError
from litemq.storage.files.lock import DirectoryLock

__all__ = ["app"]

app = new_noun("up")

_DEFAULT_NAMESERVER: Final = ("127.0.0.1", 9876)
# Added to the shutdown timeout of a child.
_GRACE_S: Final = 10.0


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
            "--port", envvar=["LITEMQ_UP_PORT", "LITEMQ_BROKER_PORT"], min=0, max=65535, help="Port of the broker."
        ),
    ] = 10911,
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
    """Run a NameServer and a broker for development until Ctrl-C or SIGTERM.

    Topics are created on first use. Both servers stop when this process ends, and if one
    of them exits, the other one is stopped. The environment variables of `litemq broker` apply.
    """
    if port == nameserver_port:
        raise typer.BadParameter(f"{port} is also the NameServer's port: choose another one", param_hint="--port")
    shutdown_s = parse_duration(shutdown_timeout)
    common = {"host": host, "insecure": insecure or None}
    nameserver = {**common, "port": nameserver_port, "data_path": str(data / "nameserver")}
    broker = {
        **common,
        "port": port,
        "data_path": str(data / "broker"),
        "nameservers": f"{_reachable(host)}:{nameserver_port}",
        "auto_create_topics": True,
        "shutdown_timeout_ms": shutdown_timeout,
    }
    lock = _lock(data)
    try:
        supervise(
            [
                partial(Child, "NameServer", "nameserver", log_level, nameserver),
                partial(Child, "broker", "broker", log_level, broker),
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
