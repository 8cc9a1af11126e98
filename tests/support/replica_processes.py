"""A replicated group of real processes: a NameServer, and replicas with short leases by default."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from litemq.proto.wire_pb2 import ReplicaGroup
from support.commands import litemq
from support.processes import ServerProcess
from support.replica_views import master_of, wait_master

__all__ = ["ReplicaProcesses"]


class ReplicaProcesses:
    """The group ``orders``, which is started at once and killed with ``stack``."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        names: tuple[str, ...] = ("a", "b", "c"),
        *,
        master_lease: str = "1s",
        **flags: Any,
    ) -> None:
        self.folder = folder
        self.nameserver = ServerProcess(
            "nameserver", folder / "nameserver.log", data_path=folder / "nameserver", master_lease=master_lease
        )
        stack.enter_context(self.nameserver)
        self.replicas = {
            name: ServerProcess(
                "broker",
                folder / f"{name}.log",
                broker_id=name,
                broker_name="orders",
                nameserver=self.nameserver.address,
                data_path=folder / name,
                file_size="8MB",
                replicas=len(names),
                experimental=True,
                **flags,
            )
            for name in names
        }
        for replica in self.replicas.values():
            stack.callback(replica.kill)
            replica.start()
        self.view = ReplicaGroup()
        self._folder = folder

    async def wait_master(self, epoch: int, members: int = 3) -> ServerProcess:
        """Wait for the master of ``epoch`` or later, and for the size of the in-sync set."""
        self.view = await wait_master(self.nameserver.port, epoch, members)
        return self.replicas[master_of(self.view)]

    def log_of(self, name: str) -> str:
        """Return what a replica has logged."""
        return (self.folder / f"{name}.log").read_text()

    async def cluster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``litemq cluster`` while this process goes on."""
        environment = {"LITEMQ_URL": f"litemq://{self.nameserver.address}"}
        return await asyncio.to_thread(
            litemq, "cluster", *arguments, cwd=self.folder, check=False, environment=environment
        )

    async def status(self) -> dict[str, Any]:
        """Return the state of the group according to ``litemq cluster status``."""
        (group,) = json.loads((await self.cluster("status", "--format", "json")).stdout)["replica_groups"]
        return dict(group)
