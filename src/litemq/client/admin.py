"""Looking after topics, groups and brokers: ``mq.admin``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from litemq.client.config import ClientConfig
from litemq.client.engine.archives import ArchivedQueue, ArchiveFact
from litemq.client.engine.engine import Backend, BrokerFact, TopicFact, WhyFact
from litemq.client.engine.groups import GroupDescription, GroupSummary, ResetPlan
from litemq.client.engine.topics import CheckSettings, changes_from, settings_from
from litemq.client.messages.detached import Detached
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError
from litemq.types import ArchivedChoice, Priorities, WhenFull, check_name, check_readable

__all__ = ["AsyncAdmin"]


_MOST_OFFSET: Final = 1 << 62


class AsyncAdmin:
    """What operators ask of a cluster."""

    def __init__(self, backend: Backend, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
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
        max_backlog: int = 0,
        when_full: WhenFull = "reject",
        archived: ArchivedChoice = "no",
        archive_wait: float | timedelta | None = None,
        check_after: float | timedelta | None = None,
        check_every: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> TopicFact:
        """Create a topic with so many queues on each of the brokers: the named ones, or all that are alive.

        With ``priorities`` ("strict" or "weighted", True is strict) each queue has eight classes. ``ttl`` is for messages that name none;
        ``max_backlog`` is how many messages of a queue may wait for the slowest group, and ``when_full`` what becomes of the next.
        ``archived`` says whether retention waits for the topic's archive: until it has come ("block"), or until what it lacks is
        ``archive_wait`` seconds old ("drop-with-record"). Producers are asked for the outcome of a transaction ``check_after`` seconds after it
        began, then every ``check_every`` seconds, ``max_checks`` times.
        """
        settings = settings_from(
            priorities, ttl, max_backlog, when_full, archived, archive_wait, CheckSettings(check_after, check_every, max_checks)
        )
        if not isinstance(queues, int) or not 1 <= queues <= 100_000:
            raise InvalidArgumentError(f"queues={queues!r}: choose 1 … 100000")
        return await self._backend.create_topic(check_name(topic), queues, brokers, settings)

    async def alter_topic(
        self,
        topic: str,
        *,
        priorities: Literal["strict", "weighted"] | None = None,
        ttl: float | timedelta | None = None,
        max_backlog: int | None = None,
        when_full: WhenFull | None = None,
        archived: ArchivedChoice | None = None,
        archive_wait: float | timedelta | None = None,
        check_after: float | timedelta | None = None,
        check_every: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> TopicFact:
        """Change settings of a topic on every broker; what is not named stays as it is. A topic gets no priorities that was created without."""
        changes = changes_from(
            priorities, ttl, max_backlog, when_full, archived, archive_wait, CheckSettings(check_after, check_every, max_checks)
        )
        return await self._backend.alter_topic(check_name(topic), changes)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and all its messages, on every broker."""
        await self._backend.delete_topic(check_name(topic))

    async def describe_topic(self, topic: str) -> TopicFact:
        """A topic's queues, with the offsets there are."""
        return await self._backend.describe_topic(check_readable(topic))

    async def topics(self) -> dict[str, int]:
        """All topics, with the number of their queues."""
        return await self._backend.topics()

    async def brokers(self) -> list[BrokerFact]:
        """All brokers that the cluster knows."""
        return await self._backend.brokers()

    async def find(self, topic: str, key: str, *, most: int = 32) -> list[Message]:
        """The messages with a key, or with a message id: the newest so many, oldest first."""
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        try:
            key.encode()
        except (AttributeError, UnicodeEncodeError):
            raise InvalidArgumentError(f"key={key!r}: a string is wanted that can be written as UTF-8") from None
        found: list[Message] = []
        for broker, records in await self._backend.find(check_readable(topic), key, most):
            found += reversed(self._reader(broker).decode(records))  # brokers give the newest first
        return sorted(found, key=lambda message: message.store_timestamp)[-most:]

    async def get(self, topic: str, message_id: str) -> Message | None:
        """The message with this id, or ``None`` where there is none."""
        for message in await self.find(topic, message_id):
            if message.message_id == message_id:
                return message
        return None

    async def offset_at_time(self, topic: str, moment: datetime) -> dict[tuple[str, int], int]:
        """For each queue, as (broker, number), the first offset that was stored at this moment or later."""
        at = to_ms(moment, "moment")
        fact = await self._backend.describe_topic(check_readable(topic))
        return {
            (queue.broker, queue.queue_id): await self._backend.offset_at_time(queue.broker, topic, queue.queue_id, at)
            for queue in fact.queues
        }

    # Archives -----------------------------------------------------------------------------------------------------------------

    async def archived_through(self, topic: str, location: str, offsets: Mapping[tuple[str, int], int], *, replace: bool = False) -> None:
        """Say that an archive has everything of these queues, as (broker, number), below these offsets, and that its own commit is done.

        ``location`` is where readers find it. Offsets only rise, and saying them again changes nothing. A topic has one archive: another
        one is refused, unless it is to ``replace`` what was known.
        """
        queues = [ArchivedQueue(broker, queue_id, -1, offset) for (broker, queue_id), offset in sorted(offsets.items())]
        await self._backend.archives.report(check_name(topic), location, queues, replaces=replace)

    async def describe_archive(self, topic: str) -> ArchiveFact:
        """Where a topic's archive is, and how far it has come; without a location, nobody has told of one."""
        return await self._backend.archives.describe(check_name(topic))

    async def move_archive(self, topic: str, location: str) -> ArchiveFact:
        """Say that a topic's archive is elsewhere by now, with everything that it had."""
        known = await self.describe_archive(topic)
        if not known.location:
            raise InvalidArgumentError(f"topic {topic!r} has no archive that could be moved")
        await self._backend.archives.report(topic, location, known.queues, replaces=True)
        return await self.describe_archive(topic)

    # Groups -------------------------------------------------------------------------------------------------------------------

    async def groups(self) -> list[GroupSummary]:
        """All groups, with what they have left to do."""
        return await self._backend.groups()

    async def describe_group(self, group_id: str) -> GroupDescription:
        """How far a group has come in each queue, who reads for it, and by what its offsets were set."""
        fact = await self._backend.describe_group(check_name(group_id, "group"))
        if fact is None:
            raise InvalidArgumentError(f"there is no group {group_id!r}: `litemq group list` shows all")
        return fact

    async def plan_reset(
        self,
        topic: str,
        group_id: str,
        *,
        to: Literal["earliest", "latest"] | None = None,
        time: datetime | None = None,
        offset: int | None = None,
        shift: int | None = None,
    ) -> ResetPlan:
        """What setting a group's offsets would do: ``to`` the oldest or the next message, to those stored at a ``time`` or later, to an
        ``offset``, or ``shift`` messages on from where the group is (below 0: back). Nothing is changed."""
        wishes = {"to": to, "timestamp": None if time is None else to_ms(time, "time"), "offset": offset, "shift": shift}
        given = {name: value for name, value in wishes.items() if value is not None}
        if len(given) != 1:
            raise InvalidArgumentError("choose one of to='earliest', to='latest', time=, offset= and shift=")
        ((name, value),) = given.items()
        if isinstance(value, str):
            name, value = value, 0
        if not isinstance(value, int) or isinstance(value, bool) or not -_MOST_OFFSET < value < _MOST_OFFSET:
            raise InvalidArgumentError(f"{name}={value!r}: choose a whole number")
        return await self._backend.plan_reset(check_name(topic), check_name(group_id, "group"), name, value)

    async def reset(self, plan: ResetPlan, *, force: bool = False) -> ResetPlan:
        """Do what a plan says. While somebody reads for the group it is refused, unless forced: then consumers begin anew from there."""
        return await self._backend.reset(plan, force=force)

    async def plan_undo(self, topic: str, group_id: str, *, reset_id: str = "") -> ResetPlan:
        """What taking back a reset would do; without an id, that of the latest one."""
        return await self._backend.undo_reset(check_name(topic), check_name(group_id, "group"), reset_id, dry_run=True, force=False)

    async def undo_reset(self, topic: str, group_id: str, *, reset_id: str = "", force: bool = False) -> ResetPlan:
        """Take back a reset: the offsets are again as they were before it. What this returns can be undone, too."""
        return await self._backend.undo_reset(check_name(topic), check_name(group_id, "group"), reset_id, dry_run=False, force=force)

    async def pause_group(self, group_id: str) -> None:
        """Give a group no more messages, until it is resumed; what its consumers have fetched already is still handled."""
        await self.describe_group(group_id)
        await self._backend.pause_group(group_id, paused=True)

    async def resume_group(self, group_id: str) -> None:
        """Let a paused group go on."""
        await self.describe_group(group_id)
        await self._backend.pause_group(group_id, paused=False)

    async def delete_group(self, group_id: str) -> None:
        """Forget a group: its offsets, its failed tries that wait, its resets. Refused while somebody reads for it."""
        await self.describe_group(group_id)
        await self._backend.delete_group(group_id)

    async def dead_letter_topics(self) -> dict[str, int]:
        """The topics that have dead letters, and how many."""
        found: dict[str, int] = {}
        for topics in (await self._backend.dead_letters.topics()).values():
            for topic, letters in topics.items():
                found[topic] = found.get(topic, 0) + letters
        return dict(sorted(found.items()))

    async def why(self, message_id: str, *, group_id: str, topic: str = "") -> WhyFact:
        """Why a group has not consumed a message: one answer. Without a topic, all are looked through."""
        if not isinstance(message_id, str) or not message_id:
            raise InvalidArgumentError(f"message_id={message_id!r}: the id of a message is wanted, as its receipt has it")
        check_name(group_id, "group")
        found = await self._backend.why(check_name(topic) if topic else "", message_id, group_id)
        # Who has the message knows best; where nobody has, who knows the topic.
        return max(found, key=lambda fact: (bool(fact.topic), fact.verdict != "no-topic"))

    def _reader(self, broker: str) -> Detached:
        return Detached(broker, self._serializers, self._config.max_body_bytes)
