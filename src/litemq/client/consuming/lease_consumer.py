"""Reading a topic for a group under leases: any number of consumers, and no queue belongs to one of them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.inbox import Inbox
from litemq.client.engine.engine import Backend, LeaseTerms
from litemq.client.leases.lease import Lease
from litemq.client.leases.leases import Leases
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Handling
from litemq.errors import ConnectionLostError, OverloadedError, RequestTimeoutError

__all__ = ["LeaseConsumer"]

_LOG = logging.getLogger(__name__)
_MOST_BYTES: Final = 1 << 20
_LEAST_BYTES: Final = 64 << 10


class LeaseConsumer(Consumer):
    """``async for message in consumer:`` gives messages that are this consumer's for a while. Settle each one before its lease ends.

    Messages that wait here have their leases renewed; from when one is given out, ``process`` does so while it runs.
    """

    at_once = 1  # a lease is renewed while its message waits here, not behind that

    def __init__(
        self,
        backend: Backend,
        topic: str,
        group: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        leases: Leases,
        terms: LeaseTerms,
        handling: Handling,
        ahead: int,
    ) -> None:
        super().__init__(backend, topic, group, config, serializers, reset="earliest", commits=False, leases=leases, handling=handling)
        self._terms = terms
        self._most = ahead  # of each broker, so many wait here at most
        self._inbox = self._waiting = LeasedInbox(config.prefetch_bytes)

    async def _read_broker(self, broker: str) -> None:
        config, inbox = self._config, self._waiting
        max_bytes = max(_LEAST_BYTES, min(_MOST_BYTES, config.prefetch_bytes // 4))
        backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        while True:
            await inbox.wait_for_room()
            room = await inbox.wait_for_fewer(broker, self._most)
            try:
                lease = await self._leases.ask(
                    broker,
                    self.topic,
                    self.group_id,
                    self._terms,
                    self._handling,
                    self,
                    max_messages=room,
                    max_bytes=max_bytes,
                    wait_ms=config.fetch_wait_ms,
                    ahead=True,
                )
                backoff.reset()
            except (ConnectionLostError, RequestTimeoutError, OverloadedError) as error:
                _LOG.info("leases of %s at %s are asked for again: %s", self.topic, broker, error)
                await asyncio.sleep(backoff.next(error.retry_after_ms if isinstance(error, OverloadedError) else 0))
            else:
                if lease is not None:
                    inbox.put_leased(lease)

    async def commit(self) -> None:
        """Wait until everything that was settled is stored by the brokers."""
        await self._leases.flush()

    def stop(self) -> None:
        super().stop()
        self._leases.release(self, only_ahead=True)

    async def _finish(self) -> None:
        self._leases.release(self)
        await self._leases.flush()


class LeasedInbox(Inbox):
    """Messages under leases, which are renewed until they are taken; those that were lost meanwhile are left out."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._counts: dict[str, int] = defaultdict(int)  # how many wait, of each broker
        self._leases: dict[Message, Lease] = {}
        self._fewer = asyncio.Event()

    def put_leased(self, lease: Lease) -> None:
        """Add what was leased."""
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
                lease.taken(message)
                return message
        return None

    async def wait_for_fewer(self, broker: str, most: int) -> int:
        """Wait until half of the places are free, so that one request brings many; returns how many are."""
        while self._counts[broker] > most // 2:
            self._fewer.clear()
            await self._fewer.wait()
        return most - self._counts[broker]
