"""Replicated groups: their state at the NameServers, and changes of their masters."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.replica_views import describe_members, describe_replicas
from litemq.client.config import ClientConfig
from litemq.client.engine.replicas import GroupRecovery, MasterSwitch, ReplicaGroupInfo
from litemq.errors import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    InvalidArgumentError,
    RequestTimeoutError,
)
from litemq.proto.wire_pb2 import (
    ElectUncleanRequest,
    Opcode,
    RecoverGroupAnswer,
    RecoverGroupRequest,
    ReplicaGroup,
    SwitchMasterAnswer,
    SwitchMasterRequest,
)

__all__ = ["ClusterReplicas"]

_POLL_S: Final = 0.05


class ClusterReplicas:
    """Requests about replicated groups."""

    def __init__(
        self, nameservers: NameServers, connections: BrokerConnections, contacts: BrokerContacts, config: ClientConfig
    ) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._contacts = contacts
        self._config = config

    async def groups(self) -> list[ReplicaGroupInfo]:
        """Return all replicated groups."""
        return [describe_replicas(view) for view in await self._nameservers.replica_groups()]

    async def _group(self, name: str) -> ReplicaGroup:
        """Return the group ``name``, or raise."""
        groups = {each.name: each for each in await self._nameservers.replica_groups()}
        if name not in groups:
            known = f"choose one of {', '.join(groups)}" if groups else "the NameServer knows none"
            raise InvalidArgumentError(f"there is no replicated group {name!r}: {known}")
        return groups[name]

    async def switch_master(self, group: str, replica: str) -> MasterSwitch:
        """Let the master of ``group`` hand over, and wait until its successor serves clients."""
        if describe_replicas(await self._group(group)).master is None:
            raise ChangeRefusedError(
                f"group {group} has no master that could hand over. Run `litemq cluster status` to see why"
            )
        await self._contacts.learn_brokers()
        asked = SwitchMasterRequest(group=group, replica=replica)
        answer = SwitchMasterAnswer.FromString(await self._connections.ask(group, Opcode.SWITCH_MASTER, asked))
        waited_ms = await self._wait_registered(group, answer)
        return MasterSwitch(group, answer.former, answer.master, answer.epoch, answer.paused_us / 1000 + waited_ms)

    async def recover_group(self, group: str, *, applies: bool, forces: bool) -> GroupRecovery:
        """Store new facts of ``group``, or plan that."""
        await self._group(group)
        asked = RecoverGroupRequest(group=group, applies=applies, forces=forces)
        try:
            ask = self._nameservers.change if applies else self._nameservers.ask
            header = await ask(Opcode.RECOVER_GROUP, asked)
        except ChangeOutcomeUnknownError as error:
            raise ChangeOutcomeUnknownError(
                f"{error}. Run `litemq cluster status`: if the facts of group {group} are not lost any more, "
                "the change was made"
            ) from error
        answer = RecoverGroupAnswer.FromString(header)
        replicas = describe_members(answer.replicas, frozenset(answer.members), b"")
        return GroupRecovery(
            group,
            answer.epoch,
            tuple(each.broker_id for each in replicas if each.in_sync),
            replicas,
            answer.configured,
            answer.uncertainty,
            answer.is_applied,
        )

    async def elect_unclean(self, group: str, replica: str, revision: int) -> ReplicaGroupInfo:
        """Make ``replica`` the master, although it may lack acknowledged messages."""
        before = await self._group(group)
        asked = ElectUncleanRequest(group=group, replica=replica, revision=revision)
        try:
            after = ReplicaGroup.FromString(await self._nameservers.change(Opcode.ELECT_UNCLEAN, asked))
        except ChangeOutcomeUnknownError:
            after = await self._group(group)
            master = next((each.broker_id for each in after.replicas if each.store_id == after.holder), "")
            if after.epoch <= before.epoch or master != replica:
                raise
            return describe_replicas(after)
        # The answer has the facts. A list may have older ones: each NameServer learns them later.
        after.replicas.extend(before.replicas)
        after.configured = before.configured
        return describe_replicas(after)

    async def _wait_registered(self, group: str, answer: SwitchMasterAnswer) -> float:
        """Wait until the next master serves clients; return how long that took (ms)."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        limit = self._config.request_timeout_ms / 1000
        while not any(
            state.alive and state.facts.name == group and state.facts.epoch >= answer.epoch
            for state in await self._contacts.learn_brokers()
        ):
            if loop.time() - begun > limit:
                raise RequestTimeoutError(
                    f"group {group} was handed over to {answer.master}, but it has not registered within {limit:g} s. "
                    "Run `litemq cluster status`"
                )
            await asyncio.sleep(_POLL_S)
        return (loop.time() - begun) * 1000
