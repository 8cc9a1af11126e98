"""The part of ``AsyncClient`` that receives: consumers, ``receive`` and readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Literal

from litemq.client.config import ClientConfig, ConsumeMode, OffsetReset
from litemq.client.consuming.ack_batch import ack_batch
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.open_feeds import OpenFeeds
from litemq.client.consuming.opening import ConsumerSettings
from litemq.client.consuming.ordered_consumer import MAX_HELD
from litemq.client.consuming.reader import Reader, Start
from litemq.client.engine.selection import make_selection
from litemq.client.leases.lease import lease_options
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import AckPolicy, SettlePolicy
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError

__all__ = ["ConsumingApi"]

_RETRY: Final = RetryPolicy()


class ConsumingApi:
    """The methods of ``AsyncClient`` that receive and acknowledge messages."""

    config: ClientConfig
    _has_client_id: bool

    def _opened_feeds(self) -> OpenFeeds:
        """Return the feeds of the open client."""
        raise NotImplementedError

    def consumer(
        self,
        topic: str,
        *,
        group_id: str,
        mode: ConsumeMode = "queue",
        auto_offset_reset: OffsetReset | None = None,
        enable_auto_commit: bool | None = None,
        lease: float | timedelta = 60.0,
        max_poll_records: int | None = None,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        retry: RetryPolicy | None = None,
        tags: str | Sequence[str] = (),
        where: str = "",
        ordered: bool = False,
        max_held: int = MAX_HELD,
    ) -> Consumer:
        """Open a consumer: ``async for message in mq.consumer("orders", group_id="billing"):``.

        Settle each message, with ``process``, ``ack``, ``nack`` or ``reject``.

        Args:
            topic: The topic to read.
            group_id: The consumer group.
            mode: ``queue``: each queue has one consumer of the group, which reads it in order.
                ``lease``: the consumers share all queues. ``broadcast``: each client gets all
                messages and keeps its progress in a file.
            auto_offset_reset, enable_auto_commit: As in ``AsyncClient``, for this consumer.
            lease: Seconds that a message is leased for, in mode ``lease``.
            max_poll_records: Messages prefetched from each broker, in mode ``lease``.
            ack_policy: How ``process`` settles a message.
            retry: When, and how often, ``process`` retries a failed message.
            tags: Deliver only messages with one of these tags: a list, or ``"A || B"``.
            where: Deliver only messages that match, such as ``"price > 10"``. A group has one
                filter.
            ordered: Deliver a message only after the previous one of its ordering key is settled;
                not in mode ``lease``.
            max_held: Messages of a queue that may wait for others of their key.

        Returns:
            The consumer. It reads from the first iteration on. Iterating raises
            ``TopicNotFoundError``, ``FilterSyntaxError``, ``OffsetExpiredError`` or another
            ``LiteMQError``.

        Raises:
            InvalidArgumentError: An argument is invalid, or arguments contradict each other.
            StoreLockedError, StorageError: The progress file is in use or damaged, in mode
                ``broadcast``.
            ClientClosedError: The client is not open.
        """
        selection = make_selection(tags, where)
        feeds = self._opened_feeds()
        settings = ConsumerSettings(
            mode=mode,
            reset=auto_offset_reset or self.config.auto_offset_reset,
            commits=self.config.enable_auto_commit if enable_auto_commit is None else enable_auto_commit,
            lease=lease,
            ahead=self.config.max_poll_records if max_poll_records is None else max_poll_records,
            settle_policy=SettlePolicy(ack_policy, retry or _RETRY),
            selection=selection,
            ordered=ordered,
            max_held=max_held,
            has_client_id=self._has_client_id,
        )
        return feeds.consumer(topic, group_id, settings)

    async def receive(
        self,
        topic: str,
        *,
        group_id: str,
        max_messages: int = 32,
        wait: float | timedelta = 20.0,
        lease: float | timedelta = 60.0,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        retry: RetryPolicy | None = None,
        tags: str | Sequence[str] = (),
        where: str = "",
    ) -> list[Message]:
        """Lease up to ``max_messages`` messages for a group.

        Settle each one before its lease expires; otherwise it is delivered again. ``process()`` and
        ``extend()`` renew the lease.

        Args:
            topic: The topic to read.
            group_id: The consumer group.
            max_messages: The most messages to return.
            wait: Seconds to wait for the first message.
            lease: Seconds that each message is leased for.
            ack_policy, retry, tags, where: As in ``consumer``.

        Returns:
            Available messages, or the first ones that arrive; an empty list if none arrives within
            ``wait`` seconds.

        Raises:
            InvalidArgumentError: An argument is invalid.
            FilterSyntaxError: ``tags`` or ``where`` is invalid.
            TopicNotFoundError: The topic does not exist, and the broker does not create topics on
                demand.
            OffsetExpiredError: Retention deleted messages that the group had not read. The next
                call continues.
            NoRouteError: No broker of the topic is reachable.
            ClientClosedError: The client is not open.
        """
        if not isinstance(max_messages, int) or max_messages < 1:
            raise InvalidArgumentError(f"max_messages={max_messages!r}: choose 1 or more")
        settle_policy = SettlePolicy(ack_policy, retry or _RETRY)
        options = lease_options(lease, settle_policy, self.config.auto_offset_reset, make_selection(tags, where))
        wait_s = seconds(wait, "wait")
        return (
            await self._opened_feeds().receiver(topic, group_id, options, settle_policy).receive(max_messages, wait_s)
        )

    async def ack_batch(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages and wait until all are settled or have failed.

        Args:
            messages: Received messages, also of different topics and groups.

        Raises:
            AlreadySettledError, LeaseLostError, LiteMQError: Some messages failed. The first error
                is raised, with a note that lists the failed messages.
        """
        await ack_batch(messages)

    def reader(
        self,
        topic: str,
        *,
        start: Start | Literal["earliest", "latest"] = "earliest",
        follow: bool = True,
        tags: str | Sequence[str] = (),
        where: str = "",
    ) -> Reader:
        """Open a reader: it reads a topic without a group and stores no progress.

        Args:
            topic: The topic to read.
            start: ``earliest``, ``latest``, a time with time zone, or ``{(broker, queue_id):
                offset}``.
            follow: Wait for new messages; with ``False``, stop at the end that each queue has now.
            tags, where: As in ``consumer``.

        Returns:
            The reader. It reads from the first iteration on. Iterating raises
            ``TopicNotFoundError``, ``FilterSyntaxError``, ``OffsetExpiredError`` or another
            ``LiteMQError``. If brokers do not answer, it waits for them; without ``follow``, for
            ``delivery_timeout_ms``, and then raises ``ConnectionLostError`` or
            ``GroupUnavailableError``.

        Raises:
            InvalidArgumentError: An argument is invalid.
            ClientClosedError: The client is not open.
        """
        selection = make_selection(tags, where)
        return self._opened_feeds().reader(topic, start, selection, follow=follow)
