"""The engine of a cluster: routes from the NameServers, and connections to the brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from litemq.client.addresses import parse_addresses
from litemq.client.cluster.address_refresh import AddressRefresh
from litemq.client.cluster.archives import ClusterArchives
from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.dead_letters import ClusterDeadLetters
from litemq.client.cluster.groups import ClusterGroups
from litemq.client.cluster.jobs import ClusterJobs
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.reading import ClusterReader
from litemq.client.cluster.replica_reads import ReplicaReads
from litemq.client.cluster.replicas import ClusterReplicas
from litemq.client.cluster.routes import Routes
from litemq.client.cluster.sending.producer import Producer
from litemq.client.cluster.timers import ClusterTimers
from litemq.client.cluster.topics import ClusterTopics
from litemq.client.cluster.transactions import ClusterTransactions
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import AddPlain, BrokerInfo, Post, WhyInfo
from litemq.client.engine.groups import GroupDescription, GroupSummary, ResetPlan
from litemq.client.engine.routes import Route
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.transport.channel import Connect
from litemq.clock import SystemClock
from litemq.errors import ClientClosedError, LiteMQError, TopicNotFoundError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import Opcode, WhyAnswer, WhyRequest

__all__ = ["ClusterEngine", "open_engine"]

_CLOCK: Final = SystemClock()
_LOG = logging.getLogger(__name__)


def open_engine(url: str, config: ClientConfig) -> ClusterEngine:
    """Make the engine for ``litemq://host:port[,host:port]``, the addresses of the NameServers."""
    return ClusterEngine(parse_addresses(url), config)


class ClusterEngine:
    """An ``Engine`` whose parts send requests to brokers.

    It exposes the methods of ``ClusterReader`` and ``ClusterTopics``.
    """

    def __init__(
        self, nameservers: Sequence[tuple[str, int]], config: ClientConfig, connect: Connect = Peer.connect
    ) -> None:
        self._config = config
        self._nameservers = NameServers(nameservers, connect, config)
        self._connections = BrokerConnections(self._nameservers.description, connect, config)
        self._contacts = BrokerContacts(self._nameservers, self._connections, config)
        self._routes = Routes(self._nameservers, self._connections, self._contacts, self._on_route)
        self._producer: Producer | None = None
        self._transactions: ClusterTransactions | None = None
        self._refreshing: list[asyncio.Task[None]] = []
        self._addresses = AddressRefresh(self._nameservers, self._connections, self._contacts, config)
        self.post: Post = _not_open
        self._add_plain: dict[str, AddPlain] = {}
        self.add_plain: Mapping[str, AddPlain] = self._add_plain
        self.route = self._routes.route
        self.survey = self._routes.survey

        self._reads = ReplicaReads(self._nameservers, self._connections, config)
        reader = ClusterReader(self._connections, self._reads, config)
        self.join, self.heartbeat, self.release, self.leave = (
            reader.join,
            reader.heartbeat,
            reader.release,
            reader.leave,
        )
        self.pull, self.commit, self.offset_at_time = reader.pull, reader.commit, reader.offset_at_time
        self.lease, self.settle, self.extend = reader.lease, reader.settle, reader.extend

        topics = ClusterTopics(self._nameservers, self._connections, self._reads, self._routes, self._on_topic_gone)
        self.create_topic, self.alter_topic, self.delete_topic = topics.create, topics.alter, topics.delete
        self.describe_topic, self.topics, self.find = topics.describe, topics.count_queues, topics.find

        replicas = ClusterReplicas(self._nameservers, self._connections, self._contacts, config)
        self.replica_groups, self.switch_master = replicas.groups, replicas.switch_master
        self.recover_group, self.elect_unclean = replicas.recover_group, replicas.elect_unclean

        connections, routes = self._connections, self._routes
        self._groups = ClusterGroups(connections.ask)
        self.dead_letters = ClusterDeadLetters(connections.ask_with_attachment)
        self.timers = ClusterTimers(connections.ask_with_attachment)
        self.archives = ClusterArchives(connections.ask, routes.survey)
        self.jobs = ClusterJobs(connections.ask, routes.alive, routes.known)

    async def open(self) -> None:
        """Connect to a NameServer, so that a wrong address fails here, not at the first send."""
        await self._contacts.learn_brokers()
        self._producer = Producer(
            self._config,
            route=lambda topic: self._routes.route(topic, create=True),
            connection=self._connections.for_queue,
            on_topic_gone=self._on_topic_gone,
            add_plain=self._add_plain,
        )
        self._transactions = ClusterTransactions(
            self._config, self._connections.ask_with_attachment, self._routes.alive, self._producer
        )
        self.post = self._producer.post  # no method in between: each message takes this path
        loop = asyncio.get_running_loop()
        self._refreshing = [
            loop.create_task(self._refresh_routes(), name="litemq refreshes routes"),
            loop.create_task(self._addresses.run(), name="litemq finds moved brokers"),
        ]

    async def close(self, within: float) -> None:
        if self._producer is not None and self._transactions is not None:
            await asyncio.gather(self._producer.close(within), self._transactions.close(within))
        for task in self._refreshing:
            task.cancel()
        await asyncio.gather(*self._refreshing, return_exceptions=True)
        await self._routes.close()
        await asyncio.gather(self._connections.close(), self._reads.close(), self._nameservers.close())

    # Routes ---------------------------------------------------------------------------------------

    def _on_route(self, route: Route) -> None:
        if self._producer is not None:
            self._producer.update_route(route)

    async def _refresh_routes(self) -> None:
        """Refresh the routes in use, to find brokers and queues that came or left."""
        while True:
            await asyncio.sleep(self._config.route_refresh_ms / 1000)
            for topic in self._sending.topics:
                if self._nameservers.cached(topic) is None:
                    continue
                try:
                    await self._routes.route(topic)
                except TopicNotFoundError:
                    self._on_topic_gone(topic)
                except LiteMQError as error:
                    _LOG.info("cannot refresh the route of %s, will retry: %s", topic, error)

    def _on_topic_gone(self, topic: str) -> None:
        self._nameservers.forget(topic)
        self._sending.forget(topic)

    # Sending --------------------------------------------------------------------------------------

    @property
    def _sending(self) -> Producer:
        if self._producer is None:
            raise ClientClosedError("the client is not open: use it inside `async with`")
        return self._producer

    @property
    def transactions(self) -> ClusterTransactions:
        if self._transactions is None:
            raise ClientClosedError("the client is not open: use it inside `async with`")
        return self._transactions

    def wall_ms(self) -> int:
        return _CLOCK.wall_ms()

    async def wait_for_buffer(self) -> None:
        await self._sending.buffer.wait()

    async def flush(self, within: float | None = None) -> None:
        await self._sending.flush(within)

    def refusals(self) -> dict[str, str]:
        return self._sending.refusals()

    # Brokers and groups ---------------------------------------------------------------------------

    async def brokers(self) -> list[BrokerInfo]:
        states = await self._contacts.learn_brokers()
        missing = await self._contacts.missing([state.facts.name for state in states], states)
        return [
            BrokerInfo(
                facts.name,
                f"{facts.host}:{facts.port}",
                state.alive,
                facts.software,
                len(facts.topics),
                facts.started_at,
                state.heard_ms_ago,
                missing.get(facts.name, ""),
            )
            for state in states
            for facts in (state.facts,)
        ]

    async def groups(self) -> list[GroupSummary]:
        return await self._groups.summaries(await self.survey())

    async def describe_group(self, group: str) -> GroupDescription | None:
        return await self._groups.describe(await self.survey(), group)

    async def plan_reset(self, topic: str, group: str, to: str, value: int) -> ResetPlan:
        return await self._groups.plan(await self._routes.all_brokers(topic), topic, group, to, value)

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        return await self._groups.reset(plan, force=force)

    async def undo_reset(self, topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool) -> ResetPlan:
        return await self._groups.undo(
            await self._routes.all_brokers(topic), topic, group, reset_id, dry_run=dry_run, force=force
        )

    async def pause_group(self, group: str, *, paused: bool) -> None:
        await self._groups.pause(await self.survey(), group, paused=paused)

    async def delete_group(self, group: str) -> None:
        await self._groups.delete(await self._routes.all_brokers(), group)

    async def why(self, broker: str, topic: str, message_id: str, group: str) -> WhyInfo:
        request = WhyRequest(topic=topic, message_id=message_id, group=group)
        answer = WhyAnswer.FromString(await self._connections.ask(broker, Opcode.WHY, request))
        return WhyInfo(broker, answer.verdict, answer.topic, answer.sentence, answer.advice, tuple(answer.facts))


def _not_open(*_arguments: object) -> asyncio.Future[SendReceipt]:
    raise ClientClosedError("the client is not open: use it inside `async with`")
