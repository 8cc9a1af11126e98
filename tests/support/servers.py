"""A NameServer and a broker for one test."""

from __future__ import annotations

from pathlib import Path

from support.processes import ServerProcess


class Servers:
    """A NameServer and a broker in their own processes."""

    def __init__(self, names: ServerProcess, broker: ServerProcess, data: Path) -> None:
        self.names = names
        self.broker = broker
        self.data = data  # the broker's data directory

    @property
    def url(self) -> str:
        return f"litemq://{self.names.address}"
