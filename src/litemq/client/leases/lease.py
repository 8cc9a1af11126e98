"""The messages of one answer, which are leased together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from litemq.client.config import OffsetReset
from litemq.client.engine.engine import LeaseTerms
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Failure, Handling
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Place, Settlements, pack_offsets, place_of
from litemq.client.settling.settler import Settler
from litemq.client.times import lease_ms
from litemq.errors import InvalidArgumentError, LeaseLostError, LiteMQError
from litemq.format.messages import MessageFields
from litemq.types import RecordKind

__all__ = ["Lease", "lease_terms"]

_RETRY: Final = RecordKind.RETRY
_NOT_TRIED: Final = Failure(is_untried=True)


def lease_terms(lease: float | timedelta, handling: Handling, reset: OffsetReset, selection: Selection = EVERYTHING) -> LeaseTerms:
    """What messages are leased, as callers say it."""
    if reset == "error":
        raise InvalidArgumentError("auto_offset_reset='error' is for queues that are assigned: with leases choose earliest or latest")
    return LeaseTerms(lease_ms(lease), handling.retry.max_retries, reset == "latest", *selection)


class Lease:
    """They share a token, and until one of them is extended, a deadline. Knows which of them are settled, in use, or lost."""

    __slots__ = (
        "_kept",
        "_used",
        "ahead",
        "broker",
        "handling",
        "lost",
        "max_body_bytes",
        "open",
        "owner",
        "renew_at",
        "serializers",
        "settler",
        "terms",
        "token",
        "until",
    )

    def __init__(
        self,
        settler: Settler,
        token: int,
        terms: LeaseTerms,
        handling: Handling,
        owner: object,
        serializers: Serializers,
        max_body_bytes: int,
        used: Callable[[float], None],
    ) -> None:
        self.broker = settler.broker
        self.settler = settler
        self.token = token
        self.terms = terms
        self.handling = handling
        self.owner = owner  # whoever asked for them
        self.serializers = serializers
        self.max_body_bytes = max_body_bytes
        self._used = used  # called when something is to be renewed, with the time
        self.open: dict[Message, MessageFields] = {}  # those that are not settled
        self.ahead: dict[Message, None] = {}  # of these, those that wait for somebody to take them
        self._kept: set[Message] = set()  # and those that are processed now
        self.lost: dict[Message, LiteMQError] = {}
        self.until = self.renew_at = 0.0  # by the clock here, from when the answer came: a little late

    def take_in(self, fields: Iterable[MessageFields], counts: Iterable[int], now: float, *, ahead: bool) -> None:
        """The messages of the answer; ``ahead``: they wait for somebody to take them."""
        of = {Message(each, self, count): each for each, count in zip(fields, counts, strict=True)}
        self.open = of
        if ahead:
            self.ahead = dict.fromkeys(of)
        self.extended(now)

    # What a message asks for --------------------------------------------------------------------------------------------------

    def ack(self, message: Message, fields: MessageFields) -> Settlements:
        self.open.pop(message, None)
        if fields.kind is _RETRY:
            return self.settler.ack(0, True, self.token, fields.queue_offset)
        return self.settler.ack(fields.queue_id, False, self.token, fields.queue_offset)

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        self.open.pop(message, None)
        return self.settler.fail(FailedDelivery(place_of(fields), self.token, message.attempt, failure))

    def release(self, message: Message, fields: MessageFields) -> bool:
        self.fail(message, fields, _NOT_TRIED)
        return True

    async def extend(self, message: Message, fields: MessageFields, length_ms: int) -> None:
        place = place_of(fields)
        leased = LeasedOffsets(place.queue_id, place.is_retry, self.token, [place.offset, 1])
        for lost, error in await self.settler.extend(length_ms, [leased]):
            self.lose({lost: error})
        if message in self.lost:
            raise self.lost[message]

    def keep(self, message: Message) -> None:
        self._kept.add(message)
        self._used(self.renew_at)

    def let_go(self, message: Message) -> None:
        self._kept.discard(message)

    def taken(self, message: Message) -> None:
        """Somebody took a message that waited: from now on it is theirs to hurry."""
        self.ahead.pop(message, None)

    # Renewing -----------------------------------------------------------------------------------------------------------------

    def in_use(self) -> Iterator[tuple[Message, MessageFields]]:
        """Those that are to stay here: not settled, and processed or waiting."""
        for message in (*self.ahead, *self._kept):
            fields = self.open.get(message)
            if fields is not None:
                yield message, fields

    @property
    def is_renewed(self) -> bool:
        """Whether something of it is to stay here."""
        return any(True for _ in self.in_use())

    def renewed_offsets(self) -> list[LeasedOffsets]:
        """What is to stay here, as a broker is told."""
        queues: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for _, fields in self.in_use():
            queue_id, is_retry, offset = place_of(fields)
            queues[queue_id, is_retry].append(offset)
        return [LeasedOffsets(*queue, self.token, pack_offsets(offsets)) for queue, offsets in queues.items()]

    def extended(self, now: float) -> None:
        """It lasts for its whole length again."""
        length = self.terms.lease_ms / 1000
        self.until = now + length
        self.renew_at = now + length / 2

    def lose(self, errors: Mapping[Place, LiteMQError]) -> None:
        """The broker gave some to others."""
        for message, fields in list(self.open.items()):
            error = errors.get(place_of(fields))
            if error is not None:
                self._forget(message)
                self.lost[message] = error

    def give_back(self, messages: Collection[Message], *, untaken: bool = False) -> None:
        """Whoever comes next may have them; here they are lost. What somebody took, and did not settle, counts as tried."""
        for message in list(messages):
            fields = self.open.get(message)
            if fields is not None:
                if untaken or message in self.ahead:
                    self.release(message, fields)
                else:
                    self.fail(message, fields, Failure(max_retries=self.handling.retry.max_retries))
                self._forget(message)
                self.lost[message] = LeaseLostError(
                    f"message {message.message_id} was given back when its consumer or client was closed: others may have it by now"
                )

    def _forget(self, message: Message) -> None:
        self.open.pop(message, None)
        self.ahead.pop(message, None)
        self._kept.discard(message)
