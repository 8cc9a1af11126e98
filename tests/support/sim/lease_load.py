"""A consumer in lease mode: what it has settled is not delivered again."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.errors import LeaseLostError, LiteMQError
from support.history import Name
from support.sim.extra_load import ExtraLoad
from support.sim.load import TOPIC, Load

__all__ = ["Leases"]

_GROUP: Final = "leasing"
_NEVER_DEAD: Final = RetryPolicy(max_retries=1000)
_LEASE_S: Final = 3.0
_SHARE_RETURNED: Final = 0.03
_SHARE_FORGOTTEN: Final = 0.02  # their leases expire


class Leases(ExtraLoad):
    """Leases the messages of the main load, and acknowledges most of them."""

    topic = TOPIC

    def __init__(self, load: Load, chosen: random.Random) -> None:
        super().__init__(load, chosen)
        self._settled: set[Name] = set()
        # If an acknowledgement has no answer, the message is done, or is delivered again.
        self._unknown: set[Name] = set()

    async def step(self, mq: AsyncClient) -> None:
        messages = await mq.receive(
            self.topic, group_id=_GROUP, max_messages=32, wait=1.0, lease=_LEASE_S, retry=_NEVER_DEAD
        )
        for message in messages:
            name = Name.from_bytes(message.body)
            if name in self._settled:
                self.cluster.fault(f"I1: {name} is delivered again, and its acknowledgement was confirmed")
        await asyncio.gather(*map(self._settle, messages))

    async def rest(self, _mq: AsyncClient) -> None:
        await self.step(_mq)

    async def _settle(self, message: Message) -> None:
        name, kind = Name.from_bytes(message.body), self.random.random()
        try:
            if kind < _SHARE_RETURNED:
                await message.nack(delay=self.random.choice([0.0, 0.5]))
            elif kind > _SHARE_RETURNED + _SHARE_FORGOTTEN:
                self._unknown.add(name)
                await message.ack()
                self._settled.add(name)
                self.cluster.counts["settled leases"] += 1
        except LeaseLostError:
            pass
        except LiteMQError as error:
            self.cluster.trace("settlement", name, type(error).__name__)

    @property
    def is_complete(self) -> bool:
        return not self.load.stored - self._unknown
