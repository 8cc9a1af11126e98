"""Consumers in lease mode that acknowledge most messages, return some with a delay, and forget a
few: each message is acknowledged in the end.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.errors import LeaseLostError, LiteMQError
from support.history import Name

GROUP: Final = "leasing"
_DELAYS_S: Final = (0.0, 0.1, 1.0, 5.0)
_NEVER_DEAD: Final = RetryPolicy(max_retries=1000)


@dataclass
class LeaseLoad:
    """The consumers, and what they acknowledged."""

    topic: str
    acked: Counter[Name] = field(default_factory=Counter)
    # Acknowledgements whose answer was lost are sent again. Then the lease is over, or the client
    # gives up: the message is done, or comes again.
    unknown: set[Name] = field(default_factory=set)
    returned: int = 0
    errors: list[str] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(13))

    async def consume(self, mq: AsyncClient) -> None:
        """Consume until cancelled."""
        while True:
            try:
                messages = await mq.receive(
                    self.topic, group_id=GROUP, max_messages=64, wait=1, lease=5, retry=_NEVER_DEAD
                )
            except LiteMQError as error:
                self._failed(error)
                await asyncio.sleep(0.2)
            else:
                await asyncio.gather(*map(self._settle, messages))

    async def _settle(self, message: Message) -> None:
        kind = self.chance.random()
        try:
            if kind < 0.02:
                await message.nack(delay=self.chance.choice(_DELAYS_S))
                self.returned += 1
            elif kind > 0.005 + 0.02:  # the others are forgotten: their leases expire
                await self._ack(message)
        except LeaseLostError:
            pass
        except LiteMQError as error:
            self._failed(error)

    async def _ack(self, message: Message) -> None:
        name = Name.from_bytes(message.body)
        try:
            await message.ack()
            self.acked[name] += 1
        except LiteMQError:
            self.unknown.add(name)
            raise

    def _failed(self, error: LiteMQError) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")

    def missing(self, stored: set[Name]) -> set[Name]:
        """Return the messages that are not acknowledged."""
        return stored - self.acked.keys() - self.unknown

    async def wait_finished(self, mq: AsyncClient, stored: set[Name], patience: float) -> int:
        """Wait until everything is finished; return the lag.

        Give up after ``patience`` seconds without progress.
        """
        finished, until = -1, 0.0
        while True:
            lag = await self.lag(mq)
            if not lag and not self.missing(stored):
                return lag
            before, finished = finished, len(self.acked) + len(self.unknown)
            if finished > before:
                until = time.monotonic() + patience
            elif time.monotonic() >= until:
                return lag
            await asyncio.sleep(0.5)

    async def lag(self, mq: AsyncClient) -> int:
        """Return the number of messages that the group has not finished, as the brokers see it."""
        group = await mq.admin.describe_group(GROUP)
        return group.lag + group.waiting_tries
