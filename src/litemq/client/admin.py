"""Administration of topics, groups, brokers and archives: ``mq.admin``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from litemq.client.config import ClientConfig
from litemq.client.engine.archives import ArchivedQueue, ArchiveInfo
from litemq.client.engine.engine import BrokerInfo, Engine, TopicInfo, WhyInfo
from litemq.client.engine.replicas import GroupRecovery, MasterSwitch, ReplicaGroupInfo
from litemq.client.engine.topics import CheckSettings, topic_changes, topic_settings
from litemq.client.group_admin import GroupAdmin
from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, PartialAnswerError, TopicNotFoundError
from litemq.types import (
    ArchivedChoice,
    CompatibilityChoice,
    Priorities,
    ReplicaAckChoice,
    VisibilityChoice,
    WhenFull,
    check_name,
    check_readable,
)

__all__ = ["AsyncAdmin"]


class AsyncAdmin(GroupAdmin):
    """The methods of ``mq.admin``, for operators and tools."""

    def __init__(self, engine: Engine, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._config = config
        self._serializers = serializers

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        brokers: Sequence[str] | None = None,
        priorities: bool | Priorities = False,
        ttl: float | timedelta | None = None,
        retention: float | timedelta | None = None,
        max_backlog: int = 0,
        when_full: WhenFull = "reject",
        archived: ArchivedChoice = "no",
        archive_wait: float | timedelta | None = None,
        check_after: float | timedelta | None = None,
        check_every: float | timedelta | None = None,
        max_checks: int | None = None,
        visibility: VisibilityChoice = "confirmed",
        replica_ack: ReplicaAckChoice = "disk",
        min_in_sync: int = 0,
    ) -> TopicInfo:
        """Create a topic. Creating it again with the same settings changes nothing.

        Args:
            topic: The name of the topic.
            queues: The number of queues on each broker.
            brokers: The names of the brokers. Default: all that are alive.
            priorities: ``strict`` (or ``True``) or ``weighted``: each queue has eight priority
                classes.
            ttl: Seconds after which messages without a TTL expire. Default: never.
            retention: The maximum age of messages in seconds. The broker's own limits apply, too.
                Default: only those.
            max_backlog: The most messages of a queue that the slowest group may leave unread; 0:
                the broker's limit.
            when_full: What happens to messages above ``max_backlog``: ``reject`` or
                ``dead_letter``.
            archived: Retention keeps messages until the archive has them (``block``), or at most
                ``archive_wait`` seconds (``drop-with-record``), or ignores the archive (``no``).
            archive_wait: The age in seconds at which unarchived messages may be dropped.
            check_after: Seconds from the first message of a transaction to the first check-back.
            check_every: Seconds between two check-backs.
            max_checks: The most check-backs of a transaction.
            visibility: Consumers read messages once they are ``confirmed``, or as soon as they are
                ``received``. After a power cut, a received message may be gone and its offset taken
                by another.
            replica_ack: In a replicated group, a message of durability ``replicas`` is acknowledged
                when each replica in sync has it on ``disk``, or in ``memory``.
            min_in_sync: In a replicated group, the least number of replicas in sync with which a
                message of durability ``replicas`` is acknowledged. The setting of the group
                counts, too, if it is higher.

        Returns:
            The topic, its queues and its settings.

        Raises:
            InvalidArgumentError: An argument is invalid, or the topic exists with other settings.
            NoRouteError, NetworkError: A named broker, or every broker, is not reachable.
        """
        settings = topic_settings(
            priorities,
            ttl,
            max_backlog,
            when_full,
            archived,
            archive_wait,
            CheckSettings(check_after, check_every, max_checks),
            retention,
            visibility,
            replica_ack,
            min_in_sync,
        )
        if not isinstance(queues, int) or not 1 <= queues <= 100_000:
            raise InvalidArgumentError(f"queues={queues!r}: choose 1 … 100000")
        return await self._engine.create_topic(check_name(topic), queues, brokers, settings)

    async def alter_topic(
        self,
        topic: str,
        *,
        priorities: Literal["strict", "weighted"] | None = None,
        ttl: float | timedelta | None = None,
        retention: float | timedelta | None = None,
        max_backlog: int | None = None,
        when_full: WhenFull | None = None,
        archived: ArchivedChoice | None = None,
        archive_wait: float | timedelta | None = None,
        check_after: float | timedelta | None = None,
        check_every: float | timedelta | None = None,
        max_checks: int | None = None,
        schema: Mapping[str, Any] | None = None,
        compatibility: CompatibilityChoice | None = None,
        visibility: VisibilityChoice | None = None,
        replica_ack: ReplicaAckChoice | None = None,
        min_in_sync: int | None = None,
    ) -> TopicInfo:
        """Change the named settings of a topic on all its brokers. Other settings stay unchanged.

        Args:
            topic: The name of the topic.
            priorities: How the priority classes share a lease; only for topics created with
                priorities.
            ttl, retention, max_backlog, when_full: As in ``create_topic``.
            archived, archive_wait: As in ``create_topic``.
            check_after, check_every, max_checks: As in ``create_topic``.
            visibility, replica_ack, min_in_sync: As in ``create_topic``.
            schema: The JSON schema of the bodies. ``mq.topic`` sets it from a type.
            compatibility: With ``backward``, a new schema must accept all messages of the earlier
                ones. ``none`` accepts any.

        Returns:
            The topic with its new settings.

        Raises:
            InvalidArgumentError: An argument is invalid, or the topic was created without
                priorities.
            IncompatibleSchemaError: Stored messages may not be readable with ``schema``.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        changes = topic_changes(
            priorities,
            ttl,
            max_backlog,
            when_full,
            archived,
            archive_wait,
            CheckSettings(check_after, check_every, max_checks),
            retention,
            schema,
            compatibility,
            visibility,
            replica_ack,
            min_in_sync,
        )
        return await self._engine.alter_topic(check_name(topic), changes)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and all its messages on every broker.

        Args:
            topic: The name of the topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
            InvalidArgumentError: A name is invalid.
            NoRouteError, NetworkError: No broker can be reached.
        """
        try:
            await self._engine.delete_topic(check_name(topic))
        except TopicNotFoundError:  # without the advice to create it
            raise TopicNotFoundError(f"topic {topic!r} does not exist: `litemq topic list` shows all topics") from None

    async def describe_topic(self, topic: str) -> TopicInfo:
        """Return a topic's settings and queues, with their offsets.

        Args:
            topic: The name of the topic; system topics are allowed.

        Raises:
            TopicNotFoundError: The topic does not exist.
            InvalidArgumentError: A name is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.describe_topic(check_readable(topic))

    async def topics(self) -> dict[str, int]:
        """Return all topics with the number of their queues.

        Raises:
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.topics()

    async def brokers(self) -> list[BrokerInfo]:
        """Return all brokers that the NameServer knows, and whether each one answers.

        Raises:
            NetworkError: No NameServer can be reached.
        """
        return await self._engine.brokers()

    async def replica_groups(self) -> list[ReplicaGroupInfo]:
        """Return the replicated groups that the NameServer knows, with their replicas.

        Raises:
            NetworkError: No NameServer can be reached.
        """
        return await self._engine.replica_groups()

    async def switch_master(self, group: str, replica: str = "") -> MasterSwitch:
        """Make another replica of a group its master. Clients continue there.

        The master stops accepting requests, waits until the next one has everything, and hands
        over. If that takes longer than a second, it goes on.

        Args:
            group: The ``broker_name`` of the group.
            replica: The ``broker_id`` of the next master; default: the one that has most.

        Raises:
            InvalidArgumentError: There is no such group or replica.
            ChangeRefusedError: The replica cannot become the master now, or not in time.
            NetworkError: A server cannot be reached.
        """
        return await self._engine.switch_master(group, replica)

    async def plan_recovery(self, group: str) -> GroupRecovery:
        """Return what ``recover_group`` would do. It changes nothing.

        Args:
            group: The ``broker_name`` of the group.

        Raises:
            InvalidArgumentError: There is no such group.
            ChangeRefusedError: The facts of the group are not lost, or its last master may still
                write.
            NetworkError: No NameServer can be reached.
        """
        return await self._engine.recover_group(group, applies=False, forces=False)

    async def recover_group(self, group: str, *, force: bool = False) -> GroupRecovery:
        """Store new facts of a group whose facts are lost, by the logs of its replicas.

        Args:
            group: The ``broker_name`` of the group.
            force: Go on although replicas are missing. Acknowledged messages that only they have
                are lost then.

        Raises:
            InvalidArgumentError: There is no such group.
            ChangeRefusedError: As for ``plan_recovery``, or replicas are missing.
            ChangeOutcomeUnknownError: The answer was lost. Look at ``replica_groups``.
            NetworkError: No NameServer can be reached.
        """
        return await self._engine.recover_group(group, applies=True, forces=force)

    async def elect_unclean(self, group: ReplicaGroupInfo, replica: str) -> ReplicaGroupInfo:
        """Make a replica the master of a group, although it may lack acknowledged messages.

        Args:
            group: The group, as ``replica_groups`` has returned it. It must not have changed.
            replica: The ``broker_id`` of the next master.

        Raises:
            ChangeRefusedError: The group has a master or can elect one, or the replica is silent.
            ChangeOutcomeUnknownError: The answer was lost. Look at ``replica_groups``.
            NetworkError: No NameServer can be reached.
        """
        return await self._engine.elect_unclean(group.name, replica, group.revision)

    async def find(self, topic: str, key: str, *, most: int = 32) -> list[Message]:
        """Return the messages with a key or a message id, oldest first.

        Args:
            topic: The name of the topic; system topics are allowed.
            key: A key of the message, or its id.
            most: Return at most this many messages, the newest.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        try:
            key.encode()
        except (AttributeError, UnicodeEncodeError):
            raise InvalidArgumentError(f"key={key!r}: choose a string that is valid UTF-8") from None
        survey = await self._engine.survey(check_readable(topic))
        found: list[Message] = []
        for broker, records in await survey.ask(lambda broker: self._engine.find(broker, topic, key, most)):
            found += reversed(self._reader(broker).decode(records))  # brokers return the newest first
        return survey.complete(sorted(found, key=lambda message: message.store_timestamp)[-most:])

    async def get(self, topic: str, message_id: str) -> Message | None:
        """Return the message with an id, or ``None`` if the topic has no such message.

        Args:
            topic: The name of the topic.
            message_id: The id, from the receipt or from ``Message.message_id``.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            PartialAnswerError: A broker did not answer, and the others do not have the message.
            NoRouteError, NetworkError: No broker can be reached.
        """
        partial: PartialAnswerError | None = None
        try:
            found = await self.find(topic, message_id)
        except PartialAnswerError as error:
            partial, found = error, error.answer
        for message in found:
            if message.message_id == message_id:
                return message
        if partial is not None:
            raise PartialAnswerError(str(partial), None, partial.missing)
        return None

    async def offset_at_time(self, topic: str, moment: datetime) -> dict[tuple[str, int], int]:
        """Return the first offset of each queue, as (broker, number), at ``moment`` or later.

        Args:
            topic: The name of the topic.
            moment: A time with a time zone, by the broker's clock.

        Raises:
            InvalidArgumentError: ``moment`` has no time zone, or the name is invalid.
            TopicNotFoundError: The topic does not exist.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        at = to_ms(moment, "moment")

        async def ask(broker: str) -> dict[tuple[str, int], int]:
            queues = (await self._engine.describe_topic(topic, broker)).queues
            offsets = [await self._engine.offset_at_time(broker, topic, each.queue_id, at) for each in queues]
            return {(broker, each.queue_id): offset for each, offset in zip(queues, offsets, strict=True)}

        survey = await self._engine.survey(check_readable(topic))
        found: dict[tuple[str, int], int] = {}
        for _, offsets in await survey.ask(ask):
            found |= offsets
        return survey.complete(found)

    # Archives -------------------------------------------------------------------------------------

    async def archived_through(
        self, topic: str, location: str, offsets: Mapping[tuple[str, int], int], *, replace: bool = False
    ) -> None:
        """Report that an archive has committed all messages below ``offsets``.

        Args:
            topic: The name of the topic.
            location: Where readers find the archive: a path or a URL.
            offsets: The end offset of each queue, as (broker, number). They never decrease;
                repeating them changes nothing.
            replace: Replace the topic's archive. Otherwise, a report from another location is
                refused.

        Raises:
            InvalidArgumentError: The topic has another archive, or a queue or an offset does not
                exist.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        queues = [ArchivedQueue(broker, queue_id, -1, offset) for (broker, queue_id), offset in sorted(offsets.items())]
        await self._engine.archives.report(check_name(topic), location, queues, replaces=replace)

    async def describe_archive(self, topic: str) -> ArchiveInfo:
        """Return where a topic's archive is, and its end offsets.

        The location is empty if there is none.

        Args:
            topic: The name of the topic.

        Raises:
            TopicNotFoundError: The topic does not exist.
            InvalidArgumentError: A name is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return await self._engine.archives.describe(check_name(topic))

    async def move_archive(self, topic: str, location: str) -> ArchiveInfo:
        """Report that a topic's archive has moved, with all its messages.

        Args:
            topic: The name of the topic.
            location: The new path or URL.

        Returns:
            The archive at its new location.

        Raises:
            InvalidArgumentError: The topic has no archive, or an argument is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: No broker can be reached.
        """
        (await self._engine.survey(check_name(topic))).require_all("the archive was not moved; retry when it is back")
        known = await self.describe_archive(topic)
        if not known.location:
            raise InvalidArgumentError(f"topic {topic!r} has no archive to move")
        await self._engine.archives.report(topic, location, known.queues, replaces=True)
        return await self.describe_archive(topic)

    async def dead_letter_topics(self) -> dict[str, int]:
        """Return the topics that have dead letters, with their number.

        Raises:
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        survey = await self._engine.survey()
        found: dict[str, int] = {}
        for _, topics in await survey.ask(self._engine.dead_letters.topics):
            for topic, count in topics.items():
                found[topic] = found.get(topic, 0) + count
        return survey.complete(dict(sorted(found.items())))

    async def why(self, message_id: str, *, group_id: str, topic: str = "") -> WhyInfo:
        """Explain why a group has not consumed a message.

        Args:
            message_id: The id of the message.
            group_id: The consumer group.
            topic: The topic of the message. Default: search all topics.

        Returns:
            The verdict, a sentence that explains it, and what to do.

        Raises:
            InvalidArgumentError: An argument is invalid.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if not isinstance(message_id, str) or not message_id:
            raise InvalidArgumentError(f"message_id={message_id!r}: choose the id of a message, as in its receipt")
        check_name(group_id, "group")
        name = check_name(topic) if topic else ""
        survey = await self._engine.survey()
        answers = await survey.ask(lambda broker: self._engine.why(broker, name, message_id, group_id))
        found = [info for _, info in answers]
        if not any(info.topic for info in found):
            survey.require_all(f"the others do not have message {message_id!r}")
        # Prefer the broker that has the message, then one that has the topic.
        return max(found, key=lambda info: (bool(info.topic), info.verdict != "no-topic"))

    def _reader(self, broker: str) -> DetachedSource:
        return DetachedSource(broker, self._serializers, self._config.max_body_bytes)
