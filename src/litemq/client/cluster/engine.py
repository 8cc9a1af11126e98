"""A cluster, as one client sees it: routes from the NameServers, a connection or more to each broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from litemq.client.addresses import parse_addresses
from litemq.client.cluster.archives import ClusterArchives
from litemq.client.cluster.dead_letters import ClusterDeadLetters
from litemq.client.cluster.groups import GroupsOfBrokers
from litemq.client.cluster.jobs import ClusterJobs
from litemq.client.cluster.links import Links
from litemq.client.cluster.nameservers import Names
from litemq.client.cluster.reading import ClusterReading
from litemq.client.cluster.routes import Routes
from litemq.client.cluster.sending.producer import Producer
from litemq.client.cluster.timers import ClusterTimers
from litemq.client.cluster.topics import ClusterTopics
from litemq.client.cluster.transactions import ClusterTransactions
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import BrokerFact, Post, WhyFact
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
    """The engine of a URL ``litemq://host:port[,host:port]``, which names NameServers."""
    return ClusterEngine(parse_addresses(url), config)


class ClusterEngine:
    """A ``Backend`` whose parts ask the brokers. The methods of ``ClusterReading`` and ``ClusterTopics`` are its own."""

    def __init__(self, names: Sequence[tuple[str, int]], config: ClientConfig, connect: Connect = Peer.connect) -> None:
        self._config = config
        self._names = Names(names, connect, config)
        self._links = Links(self._names.described, connect, config)
        self._routes = Routes(self._names, self._links, self._follow)
        self._producer: Producer | None = None
        self._transactions: ClusterTransactions | None = None
        self._following: asyncio.Task[None] | None = None
        self.post: Post = _not_open
        self.route = self._routes.route

        reading = ClusterReading(self._links, config)
        self.join, self.heartbeat, self.release, self.leave = reading.join, reading.heartbeat, reading.release, reading.leave
        self.pull, self.commit, self.offset_at_time = reading.pull, reading.commit, reading.offset_at_time
        self.lease, self.settle, self.extend = reading.lease, reading.settle, reading.extend

        topics = ClusterTopics(self._names, self._links, self._routes, self._topic_gone)
        self.create_topic, self.alter_topic, self.delete_topic = topics.create, topics.alter, topics.delete
        self.describe_topic, self.topics, self.find = topics.describe, topics.count_queues, topics.find

        links, routes = self._links, self._routes
        self._groups = GroupsOfBrokers(links.ask)
        self.dead_letters = ClusterDeadLetters(links.ask_whole, routes.alive)
        self.timers = ClusterTimers(links.ask_whole, routes.brokers_of)
        self.archives = ClusterArchives(links.ask, routes.brokers_of)
        self.jobs = ClusterJobs(links.ask, routes.alive, routes.known)

    async def open(self) -> None:
        """Find a NameServer: a wrong address is noticed here, not at the first message."""
        await self._routes.learn_brokers()
        self._producer = Producer(
            self._config,
            route=lambda topic: self._routes.route(topic, create=True),
            way=self._links.of_queue,
            topic_gone=self._topic_gone,
        )
        self._transactions = ClusterTransactions(self._config, self._links.ask_whole, self._routes.alive, self._producer)
        self.post = self._producer.post  # each message comes through here, and a call between costs
        self._following = asyncio.get_running_loop().create_task(self._follow_routes(), name="litemq follows routes")

    async def close(self, within: float) -> None:
        if self._producer is not None and self._transactions is not None:
            await asyncio.gather(self._producer.close(within), self._transactions.close(within))
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._routes.close()
        await asyncio.gather(self._links.close(), self._names.close())

    # Routes -------------------------------------------------------------------------------------------------------------------

    def _follow(self, route: Route) -> None:
        if self._producer is not None:
            self._producer.follow(route)

    async def _follow_routes(self) -> None:
        """Ask again for the routes in use, so that new brokers and queues are found, and those that left."""
        while True:
            await asyncio.sleep(self._config.route_refresh_ms / 1000)
            for topic in self._sending.topics:
                if self._names.remembered(topic) is None:
                    continue
                try:
                    await self._routes.route(topic)
                except TopicNotFoundError:
                    self._topic_gone(topic)
                except LiteMQError as error:
                    _LOG.info("the route of %s is asked for later: %s", topic, error)

    def _topic_gone(self, topic: str) -> None:
        self._names.forget(topic)
        self._sending.forget(topic)

    # Sending ------------------------------------------------------------------------------------------------------------------

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

    async def wait_for_room(self) -> None:
        await self._sending.room.wait()

    async def flush(self, within: float | None = None) -> None:
        await self._sending.flush(within)

    # Looking after it ---------------------------------------------------------------------------------------------------------

    async def brokers(self) -> list[BrokerFact]:
        facts = [(state.facts, state.alive) for state in await self._names.brokers()]
        return [BrokerFact(fact.name, f"{fact.host}:{fact.port}", alive, fact.software, len(fact.topics)) for fact, alive in facts]

    async def groups(self) -> list[GroupSummary]:
        return await self._groups.summaries(await self._routes.alive())

    async def describe_group(self, group: str) -> GroupDescription | None:
        return await self._groups.describe(await self._routes.alive(), group)

    async def plan_reset(self, topic: str, group: str, to: str, value: int) -> ResetPlan:
        return await self._groups.plan(await self._routes.brokers_of(topic), topic, group, to, value)

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        return await self._groups.reset(plan, force=force)

    async def undo_reset(self, topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool) -> ResetPlan:
        return await self._groups.undo(await self._routes.brokers_of(topic), topic, group, reset_id, dry_run=dry_run, force=force)

    async def pause_group(self, group: str, *, paused: bool) -> None:
        await self._groups.pause(await self._routes.alive(), group, paused=paused)

    async def delete_group(self, group: str) -> None:
        await self._groups.delete(await self._routes.alive(), group)

    async def why(self, topic: str, message_id: str, group: str) -> list[WhyFact]:
        header = WhyRequest(topic=topic, message_id=message_id, group=group).SerializeToString()
        found = []
        for broker in await self._routes.alive():
            answer = WhyAnswer.FromString((await self._links.to(broker).request(Opcode.WHY, header)).header)
            found.append(WhyFact(broker, answer.verdict, answer.topic, answer.sentence, answer.advice, tuple(answer.facts)))
        return found


def _not_open(*_arguments: object) -> asyncio.Future[SendReceipt]:
    raise ClientClosedError("the client is not open: use it inside `async with`")
