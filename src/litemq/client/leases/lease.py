"""One lease: the messages of one answer, which share a token and a deadline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from litemq.client.config import OffsetReset
from litemq.client.engine.engine import LeaseOptions
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Failure, SettlePolicy
from litemq.client.settling.settlements import (
    DeliveryPosition,
    FailedDelivery,
    LeasedOffsets,
    Settlements,
    delivery_position,
    pack_offsets,
)
from litemq.client.settling.settler import Settler
from litemq.client.times import lease_ms
from litemq.errors import InvalidArgumentError, LeaseLostError, LiteMQError
from litemq.format.messages import MessageFields
from litemq.types import RecordKind

__all__ = ["Lease", "lease_options"]

_RETRY: Final = RecordKind.RETRY
_NOT_TRIED: Final = Failure(is_untried=True)


def lease_options(
    lease: float | timedelta, settle_policy: SettlePolicy, reset: OffsetReset, selection: Selection = EVERYTHING
) -> LeaseOptions:
    """Return the lease options for the arguments of ``receive`` or ``consumer``.

    Raises:
        InvalidArgumentError: ``lease`` is out of range, or ``reset`` is ``error``.
    """
    if reset == "error":
        raise InvalidArgumentError(
            "auto_offset_reset='error' needs mode='queue': for leases, choose 'earliest' or 'latest'"
        )
    return LeaseOptions(lease_ms(lease), settle_policy.retry.max_retries, reset == "latest", *selection)


class Lease:
    """The messages of one lease answer: a message ``Source``.

    It knows which of them are settled, in use or lost. They share a token and, until one is
    extended, a deadline.
    """

    __slots__ = (
        "_kept",
        "_on_use",
        "ahead",
        "broker",
        "lost",
        "max_body_bytes",
        "open",
        "options",
        "owner",
        "renew_at",
        "serializers",
        "settle_policy",
        "settler",
        "token",
        "until",
    )

    def __init__(
        self,
        settler: Settler,
        token: int,
        options: LeaseOptions,
        settle_policy: SettlePolicy,
        owner: object,
        serializers: Serializers,
        max_body_bytes: int,
        on_use: Callable[[float], None],
    ) -> None:
        self.broker = settler.broker
        self.settler = settler
        self.token = token
        self.options = options
        self.settle_policy = settle_policy
        self.owner = owner  # the consumer or receiver that requested them
        self.serializers = serializers
        self.max_body_bytes = max_body_bytes
        self._on_use = on_use  # called with the time of the next renewal
        self.open: dict[Message, MessageFields] = {}  # not settled
        self.ahead: dict[Message, None] = {}  # of these, prefetched and not taken
        self._kept: set[Message] = set()  # of these, being processed
        self.lost: dict[Message, LiteMQError] = {}
        self.until = self.renew_at = 0.0  # local time since the answer arrived: slightly late

    def add_messages(self, fields: Iterable[MessageFields], counts: Iterable[int], now: float, *, ahead: bool) -> None:
        """Add the messages of the answer with their delivery ``counts``; ``ahead``: prefetched."""
        messages = {Message(each, self, count): each for each, count in zip(fields, counts, strict=True)}
        self.open = messages
        if ahead:
            self.ahead = dict.fromkeys(messages)
        self.extended(now)

    # Requests of a message ------------------------------------------------------------------------

    def ack(self, message: Message) -> Settlements:
        self.open.pop(message, None)
        fields = message._fields
        if fields.kind is _RETRY:
            return self.settler.ack(0, True, self.token, fields.queue_offset)
        return self.settler.ack(fields.queue_id, False, self.token, fields.queue_offset)

    def ack_run(self, offset: int, count: int) -> bool:  # noqa: ARG002
        """Return ``False``: acknowledge each."""
        return False

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        self.open.pop(message, None)
        return self.settler.fail(FailedDelivery(delivery_position(fields), self.token, message.attempt, failure))

    def release(self, message: Message, fields: MessageFields) -> bool:
        self.fail(message, fields, _NOT_TRIED)
        return True

    async def extend(self, message: Message, fields: MessageFields, length_ms: int) -> None:
        position = delivery_position(fields)
        leased = LeasedOffsets(position.queue_id, position.is_retry, self.token, [position.offset, 1])
        for lost, error in await self.settler.extend(length_ms, [leased]):
            self.lose({lost: error})
        if message in self.lost:
            raise self.lost[message]

    def keep(self, message: Message) -> None:
        self._kept.add(message)
        self._on_use(self.renew_at)

    def let_go(self, message: Message) -> None:
        self._kept.discard(message)

    def mark_taken(self, message: Message) -> None:
        """The caller has taken a prefetched message: it is renewed only while it is processed."""
        self.ahead.pop(message, None)

    # Renewing -------------------------------------------------------------------------------------

    def in_use(self) -> Iterator[tuple[Message, MessageFields]]:
        """Yield the messages to renew: unsettled, and prefetched or being processed."""
        for message in (*self.ahead, *self._kept):
            fields = self.open.get(message)
            if fields is not None:
                yield message, fields

    @property
    def is_renewed(self) -> bool:
        """Whether the lease has messages to renew."""
        return any(True for _ in self.in_use())

    def renewed_offsets(self) -> list[LeasedOffsets]:
        """Return the offsets to renew, as the broker expects them."""
        queues: dict[tuple[int, bool], list[int]] = defaultdict(list)
        for _, fields in self.in_use():
            queue_id, is_retry, offset = delivery_position(fields)
            queues[queue_id, is_retry].append(offset)
        return [LeasedOffsets(*queue, self.token, pack_offsets(offsets)) for queue, offsets in queues.items()]

    def extended(self, now: float) -> None:
        """Restart the deadline at ``now``, for the full length."""
        length = self.options.lease_ms / 1000
        self.until = now + length
        self.renew_at = now + length / 2

    def lose(self, errors: Mapping[DeliveryPosition, LiteMQError]) -> None:
        """Mark the messages in ``errors`` as lost: the broker has given them to other consumers."""
        for message, fields in list(self.open.items()):
            error = errors.get(delivery_position(fields))
            if error is not None:
                self._forget(message)
                self.lost[message] = error

    def give_back(self, messages: Collection[Message], *, untaken: bool = False) -> None:
        """Return ``messages`` to the broker; here they are lost.

        A message that the caller took, and did not settle, counts as a failed attempt, unless
        ``untaken``.
        """
        for message in list(messages):
            fields = self.open.get(message)
            if fields is not None:
                if untaken or message in self.ahead:
                    self.release(message, fields)
                else:
                    self.fail(message, fields, Failure(max_retries=self.settle_policy.retry.max_retries))
                self._forget(message)
                self.lost[message] = LeaseLostError(
                    f"message {message.message_id} was returned when its consumer or client closed: "
                    "another consumer may have it"
                )

    def _forget(self, message: Message) -> None:
        self.open.pop(message, None)
        self.ahead.pop(message, None)
        self._kept.discard(message)
