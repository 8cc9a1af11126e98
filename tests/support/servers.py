"""A NameServer and a broker that a test has for itself."""

from __future__ import annotations

from pathlib import Path

from support.processes import ServerProcess


class Servers:
    """A NameServer and a broker, in processes of their own."""

    def __init__(self, names: ServerProcess, broker: ServerProcess, data: Path) -> None:
        self.names = names
        self.broker = broker
        self.data = data  # the broker's data directory

    @property
    def url(self) -> str:
        return f"litemq://{self.names.address}"
