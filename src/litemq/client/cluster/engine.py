"""A cluster, as one client sees it: routes from the NameServers, a connection or more to each broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from google.protobuf.message import Message as WireMessage

from litemq.client.addresses import parse_addresses
from litemq.client.cluster import settling
from litemq.client.cluster.archives import ClusterArchives
from litemq.client.cluster.dead_letters import ClusterDeadLetters
from litemq.client.cluster.groups import GroupsOfBrokers
from litemq.client.cluster.jobs import ClusterJobs
from litemq.client.cluster.nameservers import Names
from litemq.client.cluster.sending.producer import Producer
from litemq.client.cluster.timers import ClusterTimers
from litemq.client.cluster.transactions import ClusterTransactions
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import (
    Assignment,
    BrokerFact,
    CommittedOffset,
    Granted,
    LeaseTerms,
    Post,
    Pulled,
    QueueFact,
    TopicFact,
    WhyFact,
)
from litemq.client.engine.groups import GroupDescription, GroupSummary, Joining, ResetPlan
from litemq.client.engine.routes import BrokerPlace, Route
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.client.transport.channel import Answer, Connect
from litemq.client.transport.connection import Link
from litemq.clock import SystemClock
from litemq.errors import ClientClosedError, LiteMQError, NoRouteError, TopicNotFoundError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import (
    CommitRequest,
    CreateTopicRequest,
    Empty,
    FindRequest,
    GroupAssignment,
    GroupHeartbeat,
    JoinRequest,
    LeaveRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    PullAnswer,
    PullRequest,
    QueueOffset,
    QueueRange,
    ReleaseRequest,
    TopicAnswer,
    TopicRequest,
    TopicsAnswer,
    WhyAnswer,
    WhyRequest,
)
from litemq.types import Durability, is_system_name

__all__ = ["ClusterEngine", "open_engine"]

_CLOCK: Final = SystemClock()
_LOG = logging.getLogger(__name__)


def open_engine(url: str, config: ClientConfig) -> ClusterEngine:
    """The engine of a URL ``litemq://host:port[,host:port]``, which names NameServers."""
    return ClusterEngine(parse_addresses(url), config)


class ClusterEngine:
    """Everything a client does, done by brokers."""

    def __init__(self, names: Sequence[tuple[str, int]], config: ClientConfig, connect: Connect = Peer.connect) -> None:
        self._config = config
        self._connect = connect
        self._names = Names(names, connect, config)
        self._addresses: dict[str, tuple[str, int]] = {}
        self._links: dict[tuple[str, int], Link] = {}
        self._routing: dict[str, asyncio.Task[Route]] = {}  # one question at a time for a topic
        self._groups = GroupsOfBrokers(self._ask)
        self._producer: Producer | None = None
        self._transactions: ClusterTransactions | None = None
        self._following: asyncio.Task[None] | None = None
        self.post: Post = _not_open
        self.dead_letters = ClusterDeadLetters(self._ask_whole, self._alive)
        self.timers = ClusterTimers(self._ask_whole, self._of_topic)
        self.archives = ClusterArchives(self._ask, self._of_topic)
        self.jobs = ClusterJobs(self._ask, self._alive, self._known_route)

    async def open(self) -> None:
        """Find a NameServer: a wrong address is noticed here, not at the first message."""
        for broker in await self._names.brokers():
            self._addresses[broker.facts.name] = (broker.facts.host, broker.facts.port)
        self._producer = Producer(
            self._config, route=lambda topic: self.route(topic, create=True), way=self._way, topic_gone=self._topic_gone
        )
        self._transactions = ClusterTransactions(self._config, self._ask_whole, self._alive, self._producer)
        self.post = self._producer.post  # each message comes through here, and a call between costs
        self._following = asyncio.get_running_loop().create_task(self._follow_routes(), name="litemq follows routes")

    async def close(self, within: float) -> None:
        if self._producer is not None and self._transactions is not None:
            await asyncio.gather(self._producer.close(within), self._transactions.close(within))
        tasks = [*self._routing.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()), self._names.close())

    # Links --------------------------------------------------------------------------------------------------------------------

    def _link(self, broker: str, number: int = 0) -> Link:
        link = self._links.get((broker, number))
        if link is None:

            def address() -> tuple[str, int]:
                known = self._addresses.get(broker)
                if known is None:
                    raise NoRouteError(f"where broker {broker!r} is, no NameServer says ({self._names.described})")
                return known

            link = self._links[broker, number] = Link(f"broker {broker!r}", address, self._connect, self._config)
        return link

    def _way(self, broker: str, queue_id: int, opened: Callable[[], None]) -> Link:
        # A queue stays with one connection: its requests arrive in their order.
        link = self._link(broker, queue_id % self._config.connections_per_broker)
        link.when_open.append(opened)
        return link

    async def _ask(self, broker: str, opcode: int, request: WireMessage, *, vital: bool = False) -> bytes:
        return (await self._link(broker).request(opcode, request.SerializeToString(), vital=vital)).header

    async def _ask_whole(self, broker: str, opcode: int, header: bytes, attachment: bytes, more_seconds: float) -> Answer:
        patience = self._config.request_timeout_ms / 1000 + more_seconds
        return await self._link(broker).request(opcode, header, attachment, answered_within=patience)

    async def _alive(self) -> list[str]:
        """The brokers that can be asked; raises where there is none."""
        await self._check_alive()
        states = await self._names.brokers()
        self._addresses.update({state.facts.name: (state.facts.host, state.facts.port) for state in states})
        return sorted(state.facts.name for state in states if state.alive)

    # Routes -------------------------------------------------------------------------------------------------------------------

    async def route(self, topic: str, *, create: bool = False) -> Route:
        """The brokers of a topic, asked anew; as remembered while no NameServer answers."""
        asking = self._routing.get(topic)
        if asking is None:
            asking = self._routing[topic] = asyncio.get_running_loop().create_task(self._ask_route(topic, create=create))
            asking.add_done_callback(lambda task: (self._routing.pop(topic, None), task.cancelled() or task.exception()))
        return await asyncio.shield(asking)

    async def _known_route(self, topic: str) -> Route:
        """As it is remembered, or else asked for; the topic is created where brokers do that by themselves."""
        return self._names.remembered(topic) or await self.route(topic, create=True)

    async def _ask_route(self, topic: str, *, create: bool) -> Route:
        route = await (self._system_route(topic) if is_system_name(topic) else self._names.fetch(topic))
        if route is None and create:
            route = await self._create_by_itself(topic)
        if route is None:
            await self._check_alive()
            raise TopicNotFoundError(f"no broker has topic {topic!r}: create it with `litemq topic create {topic}`")
        self._learn(route)
        return route

    async def _system_route(self, topic: str) -> Route | None:
        """The brokers that have a topic of their own, which no NameServer knows."""
        places = []
        for state in await self._names.brokers():
            facts = state.facts
            self._addresses[facts.name] = (facts.host, facts.port)
            if state.alive:
                with contextlib.suppress(TopicNotFoundError):
                    answer = TopicAnswer.FromString(await self._ask(facts.name, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic)))
                    places.append(BrokerPlace(facts.name, facts.host, facts.port, len(answer.queues), Durability(facts.default_durability)))
        return Route(topic, tuple(places)) if places else None

    async def _check_alive(self) -> None:
        """Nobody says that topics are gone because those who have them are."""
        if not any(state.alive for state in await self._names.brokers()):
            raise NoRouteError(
                f"no broker is alive, says the NameServer ({self._names.described}): start one with `litemq broker`, or all with `litemq up`"
            )

    def _learn(self, route: Route) -> None:
        for place in route.brokers:
            self._addresses[place.name] = (place.host, place.port)
        if self._producer is not None:
            self._producer.follow(route)

    async def _create_by_itself(self, topic: str) -> Route:
        """Somebody uses a topic that is not there: the brokers create it, where they are set to."""
        return await self._create_on_brokers(CreateTopicRequest(topic=topic, automatic=True), None)

    async def _create_on_brokers(self, request: CreateTopicRequest, chosen: Sequence[str] | None) -> Route:
        alive = {state.facts.name: state.facts for state in await self._names.brokers() if state.alive}
        missing = sorted(set(chosen or ()) - set(alive))
        if missing or not alive:
            which = f"no broker {', '.join(missing)} is alive" if missing else "no broker is alive"
            others = f"choose of {', '.join(alive)}" if alive else "start one with `litemq broker`, or all with `litemq up`"
            raise NoRouteError(f"{which}, says the NameServer ({self._names.described}): {others}")
        places = []
        for name in sorted(chosen or alive):
            facts = alive[name]
            self._addresses[name] = (facts.host, facts.port)
            answer = TopicAnswer.FromString(await self._ask(name, Opcode.CREATE_TOPIC, request))
            durability, has_priorities = Durability(facts.default_durability), answer.settings.has_priorities
            places.append(BrokerPlace(name, facts.host, facts.port, len(answer.queues), durability, has_priorities=has_priorities))
        route = Route(request.topic, tuple(places))
        self._names.remember(route)
        return route

    async def _follow_routes(self) -> None:
        """Ask again for the routes in use, so that new brokers and queues are found, and those that left."""
        while True:
            await asyncio.sleep(self._config.route_refresh_ms / 1000)
            for topic in self._sending.topics:
                if self._names.remembered(topic) is None:
                    continue
                try:
                    await self.route(topic)
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

    # Reading ------------------------------------------------------------------------------------------------------------------

    async def join(self, broker: str, joining: Joining, held: Sequence[int], held_retry: bool) -> Assignment:
        request = JoinRequest(
            group=joining.group,
            topic=joining.topic,
            member=joining.member,
            session_timeout_ms=joining.session_timeout_ms,
            strategy=joining.strategy,
            zone=joining.zone,
            held=held,
            held_retry=held_retry,
        )
        return _assignment(broker, GroupAssignment.FromString(await self._ask(broker, Opcode.JOIN_GROUP, request, vital=True)))

    async def heartbeat(self, broker: str, joining: Joining, session: int, version: int, wait_ms: int) -> Assignment | None:
        request = GroupHeartbeat(
            group=joining.group, topic=joining.topic, member=joining.member, session=session, version=version, wait_ms=wait_ms
        )
        patience = (wait_ms + self._config.request_timeout_ms) / 1000
        header, _ = await self._link(broker).request(
            Opcode.GROUP_HEARTBEAT, request.SerializeToString(), answered_within=patience, vital=True
        )
        answer = GroupAssignment.FromString(header)
        return None if answer.unchanged else _assignment(broker, answer)

    async def release(self, broker: str, joining: Joining, session: int, generations: Sequence[int]) -> None:
        request = ReleaseRequest(group=joining.group, topic=joining.topic, member=joining.member, session=session, generations=generations)
        await self._ask(broker, Opcode.RELEASE_QUEUES, request, vital=True)

    async def leave(self, broker: str, joining: Joining) -> None:
        if self._link(broker).is_open:  # else the place is free in a moment
            request = LeaveRequest(group=joining.group, topic=joining.topic, member=joining.member)
            await self._ask(broker, Opcode.LEAVE_GROUP, request)

    async def pull(
        self,
        broker: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        group: str,
        generation: int = 0,
        is_retry: bool = False,
        selection: Selection = EVERYTHING,
    ) -> Pulled:
        request = PullRequest(
            topic=topic,
            queue_id=queue_id,
            offset=offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            group=group,
            generation=generation,
            is_retry=is_retry,
            filter=selection.text,
            filter_is_sql=selection.is_sql,
        )
        patience = wait_ms / 1000 + self._config.request_timeout_ms / 1000
        header, records = await self._link(broker).request(Opcode.PULL, request.SerializeToString(), answered_within=patience, vital=True)
        answer = PullAnswer.FromString(header)
        return Pulled(records, answer.next_offset, answer.damaged)

    async def commit(self, broker: str, topic: str, group: str, offsets: Sequence[CommittedOffset]) -> None:
        done = [
            QueueOffset(queue_id=each.queue_id, offset=each.offset, generation=each.generation, is_retry=each.is_retry) for each in offsets
        ]
        await self._ask(broker, Opcode.COMMIT_OFFSETS, CommitRequest(group=group, topic=topic, offsets=done), vital=True)

    async def lease(
        self, broker: str, topic: str, group: str, terms: LeaseTerms, *, max_messages: int, max_bytes: int, wait_ms: int
    ) -> Granted:
        request = settling.lease_request(topic, group, terms, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms)
        patience = wait_ms / 1000 + self._config.request_timeout_ms / 1000
        header, records = await self._link(broker).request(Opcode.LEASE, request, answered_within=patience, vital=True)
        return settling.granted(header, records)

    async def settle(
        self, broker: str, topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], *, consumer: str
    ) -> list[Unsettled]:
        request = settling.settle_request(topic, group, acked, failed, consumer)
        return settling.unsettled(await self._ask(broker, Opcode.SETTLE, request, vital=True))

    async def extend(self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        request = settling.extend_request(topic, group, lease_ms, leases)
        return settling.unsettled(await self._ask(broker, Opcode.EXTEND, request, vital=True))

    # Looking after it ---------------------------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int, brokers: Sequence[str] | None, settings: TopicSettings) -> TopicFact:
        self._learn(await self._create_on_brokers(CreateTopicRequest(topic=topic, queues=queues, settings=settings.told()), brokers))
        return await self.describe_topic(topic)

    async def alter_topic(self, topic: str, changes: TopicChanges) -> TopicFact:
        request = changes.told(topic)
        for place in (await self.route(topic)).brokers:
            await self._ask(place.name, Opcode.ALTER_TOPIC, request)
        return await self.describe_topic(topic)

    async def delete_topic(self, topic: str) -> None:
        route = await self.route(topic)
        for place in route.brokers:
            with contextlib.suppress(TopicNotFoundError):
                await self._ask(place.name, Opcode.DELETE_TOPIC, TopicRequest(topic=topic))
        self._topic_gone(topic)

    async def describe_topic(self, topic: str) -> TopicFact:
        route = self._names.remembered(topic) or await self.route(topic)
        queues: list[QueueFact] = []
        settings = TopicSettings()
        for place in route.brokers:
            answer = TopicAnswer.FromString(await self._ask(place.name, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic)))
            queues += [_fact(place.name, queue) for queue in answer.queues]
            settings = TopicSettings.of(answer.settings)  # the same at all of them
        return TopicFact(topic, tuple(queues), settings)

    async def topics(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for broker in await self._alive():
            for entry in TopicsAnswer.FromString(await self._ask(broker, Opcode.LIST_TOPICS, Empty())).topics:
                found[entry.topic] = found.get(entry.topic, 0) + entry.queues
        return dict(sorted(found.items()))

    async def brokers(self) -> list[BrokerFact]:
        facts = [(state.facts, state.alive) for state in await self._names.brokers()]
        return [BrokerFact(fact.name, f"{fact.host}:{fact.port}", alive, fact.software, len(fact.topics)) for fact, alive in facts]

    async def find(self, topic: str, key: str, most: int) -> list[tuple[str, bytes]]:
        route = await self.route(topic)
        header = FindRequest(topic=topic, key=key, most=most).SerializeToString()
        answers = await asyncio.gather(*(self._link(place.name).request(Opcode.FIND, header) for place in route.brokers))
        return [(place.name, answer.attachment) for place, answer in zip(route.brokers, answers, strict=True)]

    # Looking after groups -----------------------------------------------------------------------------------------------------

    async def _of_topic(self, topic: str) -> list[str]:
        return [place.name for place in (await self.route(topic)).brokers]

    async def groups(self) -> list[GroupSummary]:
        return await self._groups.summaries(await self._alive())

    async def describe_group(self, group: str) -> GroupDescription | None:
        return await self._groups.describe(await self._alive(), group)

    async def plan_reset(self, topic: str, group: str, to: str, value: int) -> ResetPlan:
        return await self._groups.plan(await self._of_topic(topic), topic, group, to, value)

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        return await self._groups.reset(plan, force=force)

    async def undo_reset(self, topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool) -> ResetPlan:
        return await self._groups.undo(await self._of_topic(topic), topic, group, reset_id, dry_run=dry_run, force=force)

    async def pause_group(self, group: str, *, paused: bool) -> None:
        await self._groups.pause(await self._alive(), group, paused=paused)

    async def delete_group(self, group: str) -> None:
        await self._groups.delete(await self._alive(), group)

    async def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp: int) -> int:
        request = OffsetAtTimeRequest(topic=topic, queue_id=queue_id, store_timestamp=store_timestamp)
        return OffsetAnswer.FromString(await self._ask(broker, Opcode.OFFSET_AT_TIME, request)).offset

    async def why(self, topic: str, message_id: str, group: str) -> list[WhyFact]:
        header = WhyRequest(topic=topic, message_id=message_id, group=group).SerializeToString()
        found = []
        for broker in await self._alive():
            answer = WhyAnswer.FromString((await self._link(broker).request(Opcode.WHY, header)).header)
            found.append(WhyFact(broker, answer.verdict, answer.topic, answer.sentence, answer.advice, tuple(answer.facts)))
        return found


def _not_open(*_arguments: object) -> asyncio.Future[SendReceipt]:
    raise ClientClosedError("the client is not open: use it inside `async with`")


def _fact(broker: str, queue: QueueRange) -> QueueFact:
    archived_from = queue.archived_from if queue.HasField("archived_from") else queue.least
    return QueueFact(broker, queue.queue_id, queue.least, queue.next, earliest=archived_from)


def _assignment(broker: str, answer: GroupAssignment) -> Assignment:
    queues = tuple(
        _fact(broker, queue.range)._replace(committed=queue.committed, is_retry=queue.is_retry, generation=queue.generation)
        for queue in answer.queues
    )
    return Assignment(answer.session, answer.version, queues, tuple(answer.release), answer.reset_id, answer.session_timeout_ms)
