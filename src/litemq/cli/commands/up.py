"""``litemq up``: a NameServer and a broker here, with nothing to set."""

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
# Beyond what a child gives itself.
_GRACE_S: Final = 10.0


@app.command("up")
def up(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the data goes; made if it is missing.")] = Path("litemq-data"),
    host: Annotated[
        str, typer.Option("--host", envvar=["LITEMQ_UP_HOST", "LITEMQ_BROKER_HOST"], help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", envvar=["LITEMQ_UP_PORT", "LITEMQ_BROKER_PORT"], min=0, max=65535, help="The broker's port.")
    ] = 10911,
    nameserver_port: Annotated[
        int,
        typer.Option(
            "--nameserver-port",
            envvar=["LITEMQ_UP_NAMESERVER_PORT", "LITEMQ_NAMESERVER_PORT"],
            min=1,
            max=65535,
            help="The NameServer's port, which clients are given.",
        ),
    ] = 9876,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on other addresses than this machine's own, with nobody's rights checked.")
    ] = False,
    shutdown_timeout: Annotated[
        str,
        typer.Option(
            "--shutdown-timeout",
            envvar=["LITEMQ_UP_SHUTDOWN_TIMEOUT", "LITEMQ_BROKER_SHUTDOWN_TIMEOUT"],
            metavar="DURATION",
            help="How long a stop may take.",
        ),
    ] = "30s",
    log_level: LogLevel = Level.WARNING,
) -> None:
    """Run a NameServer and a broker here until Ctrl-C or SIGTERM: what development needs.

    Topics are created by the first message. Both stop when this process ends, however that comes about; if one of them ends by itself,
    the other is stopped, too. Every setting of `litemq broker` can be given as its variable of the environment.
    """
    if port == nameserver_port:
        raise typer.BadParameter(f"{port} is the NameServer's port, too: each needs one of its own", param_hint="--port")
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
            f"{error}. If that is a LiteMQ, use it as it is; else choose other ports: litemq up --nameserver-port 9877 --port 10921"
        ) from None
    finally:
        lock.release()


def _reachable(host: str) -> str:
    """Where this machine itself finds a server that listens everywhere."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 (compared only)


def _lock(data: Path) -> DirectoryLock:
    data.mkdir(parents=True, exist_ok=True)
    try:
        return DirectoryLock(data)
    except StoreLockedError:
        holder = (data / "lock").read_text(errors="replace").strip()
        raise StoreLockedError(
            f"litemq up is already running here with pid {holder}, with its data in {data}: use it as it is, "
            f"stop it with Ctrl-C or `kill {holder}`, or start another one with --data, --port and --nameserver-port"
        ) from None


def _announce(data: Path, children: list[Child]) -> None:
    addresses = [f"{child.name} {child.address[0]}:{child.address[1]}" for child in children if child.address]
    nameserver = children[0].address or _DEFAULT_NAMESERVER
    variable = "" if nameserver == _DEFAULT_NAMESERVER else f"  export LITEMQ_URL=litemq://{_reachable(nameserver[0])}:{nameserver[1]}\n"
    sys.stdout.write(
        f"LiteMQ is ready: {', '.join(addresses)}, data in {data}\n\n"
        f"Now type, in another terminal:\n{variable}"
        "  litemq message send orders '{\"id\": 1}'\n"
        "  litemq message tail orders\n\n"
        "Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
