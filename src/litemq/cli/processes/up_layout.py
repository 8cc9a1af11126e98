"""The brokers of ``litemq up``: how many, their directories, ports and names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from litemq.errors import InvalidArgumentError
from litemq.types import MAX_REPLICAS

__all__ = ["MAX_BROKERS", "broker_settings", "count_brokers", "count_replicas", "replica_settings"]

MAX_BROKERS: Final = 64
_MAX_PORT: Final = 65535


def count_brokers(data: Path, chosen: int | None) -> int:
    """Return the number of brokers to start; refuse to leave out one that has data."""
    known = max([1, *(number for number in range(2, MAX_BROKERS + 1) if _directory(data, number).exists())])
    if chosen is not None and chosen < known:
        raise InvalidArgumentError(
            f"{data} has the messages of {known} brokers: start with --brokers {known}, or without --brokers"
        )
    return chosen or known


def count_replicas(data: Path, chosen: int | None, brokers: int | None) -> int:
    """Return the number of replicas to start; 1 if the brokers are not replicated."""
    known = max([0, *(number for number in range(1, MAX_REPLICAS + 1) if _replica(data, number).exists())])
    if known and (brokers is not None or chosen not in (None, known)):
        raise InvalidArgumentError(
            f"{data} has a group of {known} replicas: start with --replicas {known}, or without --brokers and "
            "--replicas. Other numbers need another directory: --data"
        )
    if chosen is not None and chosen > 1:
        if brokers is not None:
            raise InvalidArgumentError("--brokers and --replicas: choose one of them")
        if not known and _directory(data, 1).exists():
            raise InvalidArgumentError(
                f"{data} has the messages of a broker without replicas: choose another directory with --data"
            )
    return chosen or known or 1


def broker_settings(data: Path, count: int, port: int, nameserver_port: int) -> dict[str, dict[str, object]]:
    """Return the settings in which the brokers differ, by the name that users see."""
    ports = _ports(count, port, nameserver_port, "brokers")
    if count == 1:
        return {"broker": {"port": port, "data_path": str(_directory(data, 1))}}
    return {
        name: {"broker_id": name, "broker_name": name, "port": each, "data_path": str(_directory(data, number))}
        for number, each in enumerate(ports, 1)
        for name in (f"broker-{number}",)
    }


def replica_settings(data: Path, count: int, port: int, nameserver_port: int) -> dict[str, dict[str, object]]:
    """Return the settings in which the replicas of one group differ, by the name that users see."""
    return {
        name: {"broker_id": name, "port": each, "data_path": str(_replica(data, number))}
        for number, each in enumerate(_ports(count, port, nameserver_port, "replicas"), 1)
        for name in (f"replica-{number}",)
    }


def _directory(data: Path, number: int) -> Path:
    return data / ("broker" if number == 1 else f"broker-{number}")


def _replica(data: Path, number: int) -> Path:
    return data / f"replica-{number}"


def _ports(count: int, port: int, nameserver_port: int, what: str) -> list[int]:
    ports = [port + number if port else 0 for number in range(count)]
    if nameserver_port in ports:
        raise typer.BadParameter(
            f"{nameserver_port} is also the NameServer's port: choose another one", param_hint="--port"
        )
    if ports[-1] > _MAX_PORT:
        raise typer.BadParameter(f"{count} {what} need the ports {port} … {ports[-1]}", param_hint="--port")
    return ports
