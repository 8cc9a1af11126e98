"""The output of ``litemq up``: addresses, the first commands to try, and the master of a group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from litemq.cli.processes.supervision import Child

__all__ = ["UpOutput", "reachable"]

_DEFAULT_NAMESERVER: Final = ("127.0.0.1", 9876)


class UpOutput:
    """Writes to standard output. With replicas, it waits for the first master."""

    def __init__(self, data: Path, *, is_replicated: bool) -> None:
        self._data = data
        self._is_replicated = is_replicated
        self._announced_epoch = 0

    def ready(self, children: Sequence[Child]) -> None:
        """All children are ready for the first time."""
        if self._is_replicated:
            self.reported(children)
        else:
            self._announce(children, "")

    def reported(self, children: Sequence[Child]) -> None:
        """Name the master if there is a new one."""
        master = max(children, key=lambda child: child.master_epoch)
        if master.master_epoch <= self._announced_epoch:
            return
        is_first = not self._announced_epoch
        self._announced_epoch = master.master_epoch
        name = f"The master is {master.name}, pid {master.process.pid}"
        if is_first:
            self._announce(children, f"{name}. Another replica takes over after: kill -9 {master.process.pid}\n")
        else:
            _write(f"{name}\n")

    def restarted(self, child: Child) -> None:
        """A killed child was started again."""
        _write(f"{child.name} was killed: started it again, pid {child.process.pid}\n")

    def _announce(self, children: Sequence[Child], master: str) -> None:
        addresses = [f"{child.name} {child.address[0]}:{child.address[1]}" for child in children if child.address]
        nameserver = children[0].address or _DEFAULT_NAMESERVER
        variable = (
            ""
            if nameserver == _DEFAULT_NAMESERVER
            else f"  export LITEMQ_URL=litemq://{reachable(nameserver[0])}:{nameserver[1]}\n"
        )
        _write(
            f"LiteMQ is ready: {', '.join(addresses)}, data in {self._data}\n{master}\n"
            f"Now run, in another terminal:\n{variable}"
            "  litemq message send orders '{\"id\": 1}'\n"
            "  litemq message tail orders\n\n"
            "Press Ctrl-C to stop.\n"
        )


def reachable(host: str) -> str:
    """Return the address at which this machine reaches a server listening on ``host``."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 (compared only)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
