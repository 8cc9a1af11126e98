"""The dead letters of a topic or a group: ``mq.dead_letters(name)``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.dead_letters.dead_letter import DeadLetter, decode_dead_letter
from litemq.client.dead_letters.edited_redrive import EditedRedrive, Transform
from litemq.client.dead_letters.error_groups import ErrorGroup, ErrorGroups
from litemq.client.dead_letters.redrive import BrokerRedrive, Redrive, RedrivePart
from litemq.client.engine.engine import Engine
from litemq.client.engine.survey import Survey
from litemq.client.messages.serializers import Serializers
from litemq.client.times import seconds, to_ms
from litemq.errors import GroupNotFoundError, InvalidArgumentError, NoRouteError, PartialAnswerError
from litemq.format.dead_letters import DeadSelection
from litemq.format.messages import decode_messages
from litemq.types import DeadReason, check_name

__all__ = ["DeadLetters"]

_PAGE: Final = 500
_WHOLE_PAGE: Final = 50

Reasons = DeadReason | str | Iterable[DeadReason | str]


class DeadLetters:
    """The dead letters of a topic, or of a group in all topics.

    Redriven and purged ones are not among them.
    """

    def __init__(self, engine: Engine, name: str, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._dead_letters = engine.dead_letters
        self._name = check_name(name, "topic or group")
        self._config = config
        self._serializers = serializers

    async def count(self) -> int:
        """Return the number of dead letters. For a group, this reads them all.

        Raises:
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        survey = await self._engine.survey()
        found = dict(await survey.ask(self._dead_letters.topics))
        sources, group = await self._sources(found)
        if not group:
            return survey.complete(sum(found[broker].get(topic, 0) for broker, topic in sources))
        count = 0
        async for _ in self._each(survey, DeadSelection(group=group), sources):
            count += 1
        return survey.complete(count)

    async def select(
        self,
        *,
        ids: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        reasons: Reasons = (),
        group_id: str = "",
        fingerprint: str = "",
        undecodable: bool | None = None,
        most: int = 100,
    ) -> list[DeadLetter]:
        """Return the dead letters that match all arguments, oldest first, without their messages.

        Args:
            ids: Only those of these message ids.
            since, until: Only those that died from ``since`` to before ``until``.
            reasons: Only those with one of these reasons, as ``DeadReason`` or its name.
            group_id: Only those of this group.
            fingerprint: Only those whose error has this fingerprint.
            undecodable: Only those whose body could not be read, or only the others.
            most: Return at most this many.

        Raises:
            GroupNotFoundError: No topic and no group has this name.
            InvalidArgumentError: An argument is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        survey, sources, group = await self._survey()
        found = [letter async for letter in self._each(survey, _for_group(selection, group), sources, most=most)]
        return survey.complete(sorted(found, key=lambda letter: letter.died_at)[:most])

    async def get(self, message_id: str, *, group_id: str = "") -> DeadLetter | None:
        """Return the latest dead letter of a message, complete, or ``None`` if it has none.

        Args:
            message_id: The id of the original message.
            group_id: Only for this group.

        Raises:
            InvalidArgumentError: ``group_id`` is not the group of these dead letters.
            NoRouteError, NetworkError: No broker can be reached.
        """
        selection = DeadSelection(message_ids=frozenset({message_id}), group=group_id)
        survey, sources, group = await self._survey()
        latest: DeadLetter | None = None
        async for letter in self._each(survey, _for_group(selection, group), sources, whole=True):
            if latest is None or letter.died_at >= latest.died_at:
                latest = letter
        if latest is None:
            survey.require_all(f"the others have no dead letter of message {message_id!r}")
        return latest

    async def groups(
        self, *, since: datetime | None = None, until: datetime | None = None, reasons: Reasons = (), group_id: str = ""
    ) -> list[ErrorGroup]:
        """Group the dead letters by error, the most frequent error first.

        Args:
            since, until: Only those that died from ``since`` to before ``until``.
            reasons: Only those with one of these reasons, as ``DeadReason`` or its name.
            group_id: Only those of this group.

        Raises:
            GroupNotFoundError: No topic and no group has this name.
            InvalidArgumentError: An argument is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        selection = _selection((), since, until, reasons, group_id, "", None)
        groups = ErrorGroups()
        survey, sources, group = await self._survey()
        selected = _for_group(selection, group)
        for broker, topic in sources:
            after, is_end = -1, False
            with survey.asking(broker):
                while not is_end:
                    page = await self._dead_letters.page(broker, topic, selected, after=after, limit=_PAGE, whole=False)
                    for info in page.dead_letters:
                        groups.add(info)
                    after, is_end = page.next_after, page.is_end
        return survey.complete(groups.groups())

    async def redrive(
        self,
        *,
        ids: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        reasons: Reasons = (),
        group_id: str = "",
        fingerprint: str = "",
        undecodable: bool | None = None,
        messages_per_s: int = 1000,
        dry_run: bool = False,
        transform: Transform | None = None,
        ttl: float | timedelta | None = None,
    ) -> Redrive:
        """Send the matching dead letters back to their topic; every group receives them again.

        Args:
            ids: Only those of these message ids.
            since, until: Only those that died from ``since`` to before ``until``.
            reasons: Only those with one of these reasons, as ``DeadReason`` or its name.
            group_id: Only those of this group.
            fingerprint: Only those whose error has this fingerprint.
            undecodable: Include those whose body cannot be read. Default: only if ``ids`` or
                ``transform`` is given.
            messages_per_s: The most messages per second; 0: no limit.
            dry_run: Count the matching ones, and send none.
            transform: Called with each dead letter. It returns a new body, an ``OutgoingMessage``,
                the dead letter itself to send it unchanged, or ``None`` to skip it.
            ttl: A new TTL in seconds. Expired messages need it, or a ``transform``.

        Returns:
            The running redrive. Without ``transform`` it continues on the brokers if this client
            closes.

        Raises:
            GroupNotFoundError: No topic and no group has this name.
            InvalidArgumentError: An argument is invalid.
            OverloadedError: Too many redrives run on a broker.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if not isinstance(messages_per_s, int) or not 0 <= messages_per_s < 1 << 32:
            raise InvalidArgumentError(f"messages_per_s={messages_per_s!r}: choose a whole number; 0 means no limit")
        if undecodable is None and not ids and transform is None:
            undecodable = False
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        ttl_s = None if ttl is None else seconds(ttl, "ttl")
        if ttl_s is not None and transform is None:
            transform = _unchanged
        survey, sources, group = await self._survey()
        parts: list[RedrivePart] = []
        for broker, topic in sources:
            selected = _for_group(selection, group)
            if transform is None:
                started = await self._dead_letters.begin(
                    broker, topic, selected, messages_per_s=messages_per_s, dry_run=dry_run, drop=False
                )
                parts.append(BrokerRedrive(self._dead_letters, broker, started.redrive_id))
            else:
                dead_letters = self._read(broker, topic, selected, whole=True)
                parts.append(
                    EditedRedrive(
                        self._dead_letters,
                        broker,
                        topic,
                        dead_letters,
                        transform,
                        self._serializers,
                        ttl=ttl_s,
                        messages_per_s=messages_per_s,
                        dry_run=dry_run,
                    )
                )
        return Redrive(parts, survey.missing)

    async def purge(
        self,
        *,
        ids: str | Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        reasons: Reasons = (),
        group_id: str = "",
        fingerprint: str = "",
        undecodable: bool | None = None,
        dry_run: bool = False,
    ) -> Redrive:
        """Delete the matching dead letters for good.

        Args:
            ids: Only those of these message ids.
            since, until: Only those that died from ``since`` to before ``until``.
            reasons: Only those with one of these reasons, as ``DeadReason`` or its name.
            group_id: Only those of this group.
            fingerprint: Only those whose error has this fingerprint.
            undecodable: Only those whose body could not be read, or only the others.
            dry_run: Count the matching ones, as ``left``, and delete none.

        Returns:
            The running purge.

        Raises:
            GroupNotFoundError: No topic and no group has this name.
            InvalidArgumentError: An argument is invalid.
            OverloadedError: Too many redrives run on a broker.
            NoRouteError, NetworkError: No broker can be reached.
        """
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        survey, sources, group = await self._survey()
        parts = []
        for broker, topic in sources:
            started = await self._dead_letters.begin(
                broker, topic, _for_group(selection, group), messages_per_s=0, dry_run=dry_run, drop=True
            )
            parts.append(BrokerRedrive(self._dead_letters, broker, started.redrive_id))
        return Redrive(parts, survey.missing)

    # ----------------------------------------------------------------------------------------------

    async def _survey(self) -> tuple[Survey, list[tuple[str, str]], str]:
        """Return the survey, the brokers and topics to read, and the group if the name is one."""
        survey = await self._engine.survey()
        return survey, *await self._sources(dict(await survey.ask(self._dead_letters.topics)))

    async def _sources(self, found: Mapping[str, Mapping[str, int]]) -> tuple[list[tuple[str, str]], str]:
        """Return the brokers and topics to read, and the group if the name is no topic.

        ``found`` is the number of dead letters by broker and topic.
        """
        if any(self._name in topics for topics in found.values()) or self._name in await self._topic_names():
            return [(broker, self._name) for broker, topics in found.items() if self._name in topics], ""
        sources = [(broker, topic) for broker, topics in found.items() for topic in topics]
        await self._check_group(sources)
        return sources, self._name

    async def _check_group(self, sources: Sequence[tuple[str, str]]) -> None:
        """Raise if the name is that of no group. A deleted group may have left dead letters."""
        try:
            if await self._engine.describe_group(self._name) is not None:
                return
        except (PartialAnswerError, NoRouteError):
            return  # a broker that does not answer may know the group
        selection = DeadSelection(group=self._name)
        for broker, topic in sources:
            page = await self._dead_letters.page(broker, topic, selection, after=-1, limit=1, whole=False)
            if page.dead_letters or not page.is_end:
                return
        raise GroupNotFoundError(
            f"group {self._name!r} does not exist, and no topic has this name: `litemq group list` and "
            "`litemq topic list` show all"
        )

    async def _topic_names(self) -> Collection[str]:
        try:
            return await self._engine.topics()
        except PartialAnswerError as error:
            names: dict[str, int] = error.answer  # complete: the NameServer knows the others
            return names

    async def _each(
        self,
        survey: Survey,
        selection: DeadSelection,
        sources: Sequence[tuple[str, str]],
        *,
        whole: bool = False,
        most: int = 1 << 62,
    ) -> AsyncIterator[DeadLetter]:
        """Iterate over the dead letters of all sources, up to ``most`` of each."""
        for broker, topic in sources:
            with survey.asking(broker):
                async for letter in self._read(broker, topic, selection, whole=whole, most=most):
                    yield letter

    async def _read(
        self, broker: str, topic: str, selection: DeadSelection, *, whole: bool, most: int = 1 << 62
    ) -> AsyncIterator[DeadLetter]:
        after, is_end, count = -1, False, 0
        while not is_end and count < most:
            limit = min(most - count, _WHOLE_PAGE if whole else _PAGE)
            page = await self._dead_letters.page(broker, topic, selection, after=after, limit=limit, whole=whole)
            after, is_end = page.next_after, page.is_end
            count += len(page.dead_letters)
            if whole:
                for info, letter in zip(page.dead_letters, decode_messages(page.records), strict=True):
                    yield decode_dead_letter(
                        broker, topic, info, letter, self._serializers, self._config.max_body_bytes
                    )
            else:
                for info in page.dead_letters:
                    yield DeadLetter(broker, topic, info)


def _unchanged(letter: DeadLetter) -> DeadLetter:
    return letter


def _selection(
    ids: str | Sequence[str],
    since: datetime | None,
    until: datetime | None,
    reasons: Reasons,
    group_id: str,
    fingerprint: str,
    undecodable: bool | None,
) -> DeadSelection:
    return DeadSelection(
        frozenset((ids,) if isinstance(ids, str) else ids),
        0 if since is None else to_ms(since, "since"),
        0 if until is None else to_ms(until, "until"),
        frozenset(_reason(each) for each in ((reasons,) if isinstance(reasons, (str, DeadReason)) else reasons)),
        group_id,
        fingerprint,
        undecodable,
    )


def _for_group(selection: DeadSelection, group: str) -> DeadSelection:
    """Restrict ``selection`` to ``group``, if the dead letters are those of a group."""
    if not group:
        return selection
    if selection.group not in ("", group):
        raise InvalidArgumentError(
            f"group_id={selection.group!r} does not match the dead letters of group {group!r}: leave it out"
        )
    return selection._replace(group=group)


def _reason(reason: DeadReason | str) -> DeadReason:
    try:
        return reason if isinstance(reason, DeadReason) else DeadReason[reason.upper().replace("-", "_")]
    except (KeyError, AttributeError):
        raise InvalidArgumentError(
            f"reason {reason!r}: choose one of {', '.join(each.name.lower() for each in DeadReason)}"
        ) from None
