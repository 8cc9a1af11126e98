"""The dead letters of a topic or a group: list them, look at one, see which errors they share, send them on, drop them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.dead_letters.dead_letter import DeadLetter, whole_letter
from litemq.client.dead_letters.edited_redrive import ChangedRedrive, Transform
from litemq.client.dead_letters.error_groups import ErrorGroup, ErrorGroups
from litemq.client.dead_letters.redrive import BrokerRedrive, Redrive, RedrivePart
from litemq.client.engine.engine import Backend
from litemq.client.messages.serializers import Serializers
from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import DeadSelection
from litemq.format.messages import decode_messages
from litemq.types import DeadReason, check_name

__all__ = ["DeadLetters"]

_PAGE: Final = 500
_WHOLE_PAGE: Final = 50

Reasons = DeadReason | str | Iterable[DeadReason | str]


class DeadLetters:
    """``mq.dead_letters("orders")``: those of a topic, or of a group in all topics. What was sent on or dropped is not among them."""

    def __init__(self, backend: Backend, name: str, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
        self._letters = backend.dead_letters
        self._name = check_name(name, "topic or group")
        self._config = config
        self._serializers = serializers

    async def count(self) -> int:
        """How many there are; of a group they are counted one by one."""
        places, group = await self._places()
        if group:
            return len(await self.select(most=1 << 62))
        found = await self._letters.topics()
        return sum(found[broker].get(topic, 0) for broker, topic in places)

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
        """Up to so many that fit all that is said, in the order in which they died: without what died, and without stack traces."""
        if not isinstance(most, int) or most < 1:
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        found: list[DeadLetter] = []
        places, group = await self._places()
        for broker, topic in places:
            of_place = [letter async for letter in self._read(broker, topic, _of_group(selection, group), whole=False, most=most)]
            found += of_place
        return sorted(found, key=lambda letter: letter.died_at)[:most]

    async def get(self, message_id: str, *, group_id: str = "") -> DeadLetter | None:
        """The latest dead letter of a message, whole; ``None`` where there is none."""
        selection = DeadSelection(message_ids=frozenset({message_id}), group=group_id)
        places, group = await self._places()
        latest: DeadLetter | None = None
        for broker, topic in places:
            async for letter in self._read(broker, topic, _of_group(selection, group), whole=True):
                if latest is None or letter.died_at >= latest.died_at:
                    latest = letter
        return latest

    async def groups(
        self, *, since: datetime | None = None, until: datetime | None = None, reasons: Reasons = (), group_id: str = ""
    ) -> list[ErrorGroup]:
        """Which errors they share, the most frequent first."""
        selection = _selection((), since, until, reasons, group_id, "", None)
        groups = ErrorGroups()
        places, group = await self._places()
        for broker, topic in places:
            after, is_end = -1, False
            while not is_end:
                page = await self._letters.page(broker, topic, _of_group(selection, group), after=after, most=_PAGE, whole=False)
                for fact in page.facts:
                    groups.add(fact)
                after, is_end = page.next_after, page.is_end
        return groups.groups()

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
        """Send those that fit on to their topic, where every group gets them again. It goes on by itself; ``wait()`` waits for its end.

        Undecodable ones stay, unless they are named. What lived too long needs a new ``ttl``, or a transform, else it would die at once.
        ``transform`` is called with each letter and gives the new body, an ``OutgoingMessage``, the letter itself if nothing is to be changed,
        or ``None`` for those that stay.
        """
        if not isinstance(messages_per_s, int) or not 0 <= messages_per_s < 1 << 32:
            raise InvalidArgumentError(f"messages_per_s={messages_per_s!r}: choose a whole number, 0 for as fast as it goes")
        if undecodable is None and not ids and transform is None:
            undecodable = False
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        lives = None if ttl is None else seconds(ttl, "ttl")
        if lives is not None and transform is None:
            transform = _itself
        places, group = await self._places()
        parts: list[RedrivePart] = []
        for broker, topic in places:
            selected = _of_group(selection, group)
            if transform is None:
                started = await self._letters.begin(broker, topic, selected, messages_per_s=messages_per_s, dry_run=dry_run, drop=False)
                parts.append(BrokerRedrive(self._letters, broker, started.redrive_id))
            else:
                letters = self._read(broker, topic, selected, whole=True)
                parts.append(
                    ChangedRedrive(
                        self._letters,
                        broker,
                        topic,
                        letters,
                        transform,
                        self._serializers,
                        ttl=lives,
                        messages_per_s=messages_per_s,
                        dry_run=dry_run,
                    )
                )
        return Redrive(parts)

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
        """Drop those that fit, for good; with ``dry_run`` only count them, as ``left``."""
        selection = _selection(ids, since, until, reasons, group_id, fingerprint, undecodable)
        places, group = await self._places()
        parts = []
        for broker, topic in places:
            started = await self._letters.begin(broker, topic, _of_group(selection, group), messages_per_s=0, dry_run=dry_run, drop=True)
            parts.append(BrokerRedrive(self._letters, broker, started.redrive_id))
        return Redrive(parts)

    # ------------------------------------------------------------------------------------------------------------------------------

    async def _places(self) -> tuple[list[tuple[str, str]], str]:
        """The brokers and topics to look at, and the group to look for, if the name is not a topic's."""
        found = await self._letters.topics()
        if any(self._name in topics for topics in found.values()) or self._name in await self._backend.topics():
            return [(broker, self._name) for broker, topics in found.items() if self._name in topics], ""
        return [(broker, topic) for broker, topics in found.items() for topic in topics], self._name

    async def _read(
        self, broker: str, topic: str, selection: DeadSelection, *, whole: bool, most: int = 1 << 62
    ) -> AsyncIterator[DeadLetter]:
        after, is_end, given = -1, False, 0
        while not is_end and given < most:
            at_once = min(most - given, _WHOLE_PAGE if whole else _PAGE)
            page = await self._letters.page(broker, topic, selection, after=after, most=at_once, whole=whole)
            after, is_end = page.next_after, page.is_end
            given += len(page.facts)
            if whole:
                for fact, letter in zip(page.facts, decode_messages(page.records), strict=True):
                    yield whole_letter(broker, topic, fact, letter, self._serializers, self._config.max_body_bytes)
            else:
                for fact in page.facts:
                    yield DeadLetter(broker, topic, fact)


def _itself(letter: DeadLetter) -> DeadLetter:
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


def _of_group(selection: DeadSelection, group: str) -> DeadSelection:
    """A selection among the letters of one group, where the name was a group's."""
    if not group:
        return selection
    if selection.group not in ("", group):
        raise InvalidArgumentError(f"group_id={selection.group!r} among the dead letters of group {group!r}: leave it out")
    return selection._replace(group=group)


def _reason(reason: DeadReason | str) -> DeadReason:
    try:
        return reason if isinstance(reason, DeadReason) else DeadReason[reason.upper().replace("-", "_")]
    except (KeyError, AttributeError):
        raise InvalidArgumentError(f"reason {reason!r}: choose of {', '.join(each.name.lower() for each in DeadReason)}") from None
