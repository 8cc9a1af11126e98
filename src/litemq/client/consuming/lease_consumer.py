"""The consumer of a group in lease mode: any number of consumers share all queues."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.inbox import Inbox
from litemq.client.consuming.outage import Outage
from litemq.client.engine.engine import Engine, LeaseOptions
from litemq.client.leases.lease import Lease
from litemq.client.leases.leases import Leases
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.errors import ConnectionLostError, NotConfirmedError, NotMasterError, OverloadedError, RequestTimeoutError

__all__ = ["LeaseConsumer"]

_TRANSIENT: Final = (ConnectionLostError, RequestTimeoutError, NotConfirmedError, NotMasterError, OverloadedError)
_MAX_BYTES: Final = 1 << 20
_MIN_BYTES: Final = 64 << 10


class LeaseConsumer(Consumer):
    """Iterates over messages that are leased to this consumer.

    Settle each one before its lease expires.

    The leases of prefetched messages are renewed. After delivery, ``process`` renews the lease
    while it runs.
    """

    at_once = 1  # leases are renewed only while their messages are in the inbox

    def __init__(
        self,
        engine: Engine,
        topic: str,
        group: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        leases: Leases,
        options: LeaseOptions,
        settle_policy: SettlePolicy,
        ahead: int,
    ) -> None:
        super().__init__(
            engine,
            topic,
            group,
            config,
            serializers,
            reset="earliest",
            commits=False,
            leases=leases,
            settle_policy=settle_policy,
        )
        self._options = options
        self._max_prefetched = ahead  # messages per broker
        self._inbox = self._waiting = LeasedInbox(config.prefetch_bytes)

    async def _read_broker(self, broker: str) -> None:
        config, inbox = self._config, self._waiting
        max_bytes = max(_MIN_BYTES, min(_MAX_BYTES, config.prefetch_bytes // 4))
        outage = Outage(config)
        while True:
            await inbox.wait_for_space()
            capacity = await inbox.wait_for_capacity(broker, self._max_prefetched)
            try:
                lease = await self._leases.ask(
                    broker,
                    self.topic,
                    self.group_id,
                    self._options,
                    self._settle_policy,
                    self,
                    max_messages=capacity,
                    max_bytes=max_bytes,
                    wait_ms=config.fetch_wait_ms,
                    ahead=True,
                )
                outage.end()
            except _TRANSIENT as error:
                min_ms = error.retry_after_ms if isinstance(error, OverloadedError) else 0
                await self._pause(outage, broker, error, min_ms)
            else:
                if lease is not None:
                    inbox.put_leased(lease)

    async def commit(self) -> None:
        """Wait until the brokers have stored all settlements.

        Raises nothing; a settlement that failed raises at ``ack``, ``nack`` or ``reject``.
        """
        await self._leases.flush()

    def stop(self) -> None:
        super().stop()
        self._leases.release(self, only_ahead=True)

    async def _finish(self) -> None:
        self._leases.release(self)
        await self._leases.flush()


class LeasedInbox(Inbox):
    """Leased messages, whose leases are renewed until they are taken. Lost ones are skipped."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._counts: dict[str, int] = defaultdict(int)  # buffered messages per broker
        self._leases: dict[Message, Lease] = {}
        self._fewer = asyncio.Event()

    def put_leased(self, lease: Lease) -> None:
        """Add the messages of ``lease``."""
        messages = list(lease.open)
        self._leases.update(dict.fromkeys(messages, lease))
        self._counts[lease.broker] += len(messages)
        self._add(messages, sum(message.size for message in messages), None)

    def take(self) -> Message | None:
        while (message := super().take()) is not None:
            lease = self._leases.pop(message)
            self._counts[lease.broker] -= 1
            self._fewer.set()
            if message not in lease.lost:
                lease.mark_taken(message)
                return message
        return None

    def take_some(self, limit: int) -> list[Message]:  # noqa: ARG002
        """Return one message: each one ends its renewal."""
        message = self.take()
        return [] if message is None else [message]

    async def wait_for_capacity(self, broker: str, limit: int) -> int:
        """Wait until at most half of ``limit`` messages of ``broker`` are buffered.

        Return how many more fit.
        """
        while self._counts[broker] > limit // 2:
            self._fewer.clear()
            await self._fewer.wait()
        return limit - self._counts[broker]
