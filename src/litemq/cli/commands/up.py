"""``litemq up``: a NameServer and brokers on this machine, without configuration."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.cli.configuration.resolve import build, resolve
from litemq.cli.configuration.tables import BROKER
from litemq.cli.nouns import new_noun
from litemq.cli.options import LogLevel
from litemq.cli.processes.supervision import Child, supervise
from litemq.cli.processes.up_layout import (
    MAX_BROKERS,
    broker_settings,
    count_brokers,
    count_replicas,
    replica_settings,
)
from litemq.cli.processes.up_output import UpOutput, reachable
from litemq.cli.rendering.logs import Level
from litemq.errors import AddressInUseError, StorageError, StoreLockedError
from litemq.storage.files.lock import DirectoryLock
from litemq.types import MAX_REPLICAS

__all__ = ["app"]

app = new_noun("up")

# Added to the shutdown timeout of a child.
_GRACE_S: Final = 10.0

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Data directory; created if missing.")]
Host = Annotated[
    str, typer.Option("--host", envvar=["LITEMQ_UP_HOST", "LITEMQ_BROKER_HOST"], help="Address to listen on.")
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers",
        min=1,
        max=MAX_BROKERS,
        help="Number of brokers, such as one per processor core; default: as before in DIR, or 1.",
        show_default=False,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        min=1,
        max=MAX_REPLICAS,
        help="Number of replicas of one broker: if one is killed, another one continues; default: as before in DIR.",
        show_default=False,
    ),
]
Experimental = Annotated[bool, typer.Option("--experimental", help="Allow --replicas, which may still lose messages.")]


@app.command("up")
def up(
    data: Data = Path("litemq-data"),
    host: Host = "127.0.0.1",
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
    replicas: Replicas = None,
    experimental: Experimental = False,
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
    process ends, and if one of them exits, the others are stopped; but a killed replica is started
    again. The environment variables of `litemq broker` apply.
    """
    shutdown_s = parse_duration(shutdown_timeout)
    common = {"host": host, "insecure": insecure or None}
    nameserver = {**common, "port": nameserver_port, "data_path": str(data / "nameserver")}
    broker: dict[str, object] = {
        **common,
        "nameservers": f"{reachable(host)}:{nameserver_port}",
        "auto_create_topics": True,
        "shutdown_timeout_ms": shutdown_timeout,
    }
    group = count_replicas(data, replicas, brokers)
    if group > 1:
        own = replica_settings(data, group, port, nameserver_port)
        broker |= {"replicas": group, "experimental": experimental or None}
        _check_broker(broker)
    else:
        own = broker_settings(data, count_brokers(data, brokers), port, nameserver_port)
    lock = _lock(data)
    try:
        start = [partial(Child, "NameServer", "nameserver", log_level, nameserver)]
        start += [partial(Child, name, "broker", log_level, broker | settings) for name, settings in own.items()]
        supervise(
            start,
            UpOutput(data, is_replicated=group > 1),
            restarted=range(1, group + 1) if group > 1 else (),
            again=shlex.join(["litemq", *sys.argv[1:]]),
            shutdown_s=shutdown_s + _GRACE_S,
        )
    except AddressInUseError as error:
        raise AddressInUseError(
            f"{str(error).partition('. ')[0]}. If LiteMQ is already running, use it; otherwise choose other ports: "
            "litemq up --nameserver-port 9877 --port 10921"
        ) from None
    finally:
        lock.release()


def _check_broker(flags: Mapping[str, object]) -> None:
    """Raise before a directory is made or a port opened, such as without ``--experimental``."""
    file = os.environ.get(BROKER.file_variable)
    build(BROKER, resolve(BROKER, flags=flags, environment=os.environ, file=Path(file) if file else None))


def _lock(data: Path) -> DirectoryLock:
    try:
        data.mkdir(parents=True, exist_ok=True)
        return DirectoryLock(data)
    except OSError as error:
        raise StorageError(
            f"cannot write to the data directory {data.absolute()}: {error.strerror}. Choose another one with --data"
        ) from None
    except StoreLockedError:
        holder = (data / "lock").read_text(errors="replace").strip()
        raise StoreLockedError(
            f"litemq up is already running with pid {holder} and data in {data}: use it, "
            f"stop it with Ctrl-C or `kill {holder}`, or start another one with --data, --port and --nameserver-port"
        ) from None
