"""Messages that no consumer can process: after three retries, each is a dead letter once."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.errors import LiteMQError, SendOutcomeUnknownError

__all__ = ["PoisonLoad"]

_TOPIC: Final = "poison"
_GROUP: Final = "poisoned"
_MAX_RETRIES: Final = 3
_RETRY: Final = RetryPolicy(max_retries=_MAX_RETRIES, delays=[0.2])
_PAUSE_S: Final = 0.2
_MOST_LETTERS: Final = 1_000_000


@dataclass
class PoisonLoad:
    """A producer and a consumer. The history has the tries and the dead letters of each message."""

    sent: set[str] = field(default_factory=set)
    acked: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    attempts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # in order of delivery
    dead: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def create(self, mq: AsyncClient) -> None:
        await mq.admin.create_topic(_TOPIC, queues=2)

    async def produce(self, mq: AsyncClient) -> None:
        """Send one message after another until the load ends."""
        number = 0
        while not self.stopping.is_set():
            await self._send(mq, f"p{number}")
            number += 1
            await asyncio.sleep(_PAUSE_S)

    async def _send(self, mq: AsyncClient, name: str) -> None:
        self.sent.add(name)
        try:
            await mq.send(_TOPIC, name.encode(), keys=name, durability="replicas")
        except SendOutcomeUnknownError as error:
            self._failed(error)
        except LiteMQError as error:
            self.refused.add(name)
            self._failed(error)
        else:
            self.acked.add(name)

    async def consume(self, mq: AsyncClient) -> None:
        """Fail at each message, until cancelled."""
        while True:
            try:
                messages = await mq.receive(_TOPIC, group_id=_GROUP, max_messages=64, wait=1, lease=5, retry=_RETRY)
            except LiteMQError as error:
                self._failed(error)
                await asyncio.sleep(0.2)
            else:
                await asyncio.gather(*map(self._fail, messages))

    async def _fail(self, message: Message) -> None:
        self.attempts[message.body.decode()].append(message.attempt)
        try:
            await message.nack(delay=0.2)
        except LiteMQError as error:
            self._failed(error)

    def _failed(self, error: LiteMQError) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")

    async def wait_dead(self, mq: AsyncClient, within: float) -> None:
        """Wait until each stored message is dead; read the dead letters."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        letters = mq.dead_letters(_TOPIC)
        while self.acked - self.dead.keys() and loop.time() < until:
            try:
                if await letters.count() >= len(self.acked):
                    self.dead = Counter(letter.keys[0] for letter in await letters.select(most=_MOST_LETTERS))
            except LiteMQError as error:
                self._failed(error)
            await asyncio.sleep(0.5)
        self.dead = Counter(letter.keys[0] for letter in await letters.select(most=_MOST_LETTERS))

    def problems(self) -> Iterator[str]:
        """I10: each message ends in the dead letters exactly once."""
        for name in sorted(self.acked - self.dead.keys())[:5]:
            yield f"I10: {name} failed in the attempts {self.attempts.get(name)}, and is no dead letter"
        for name, times in sorted(self.dead.items()):
            if times > 1:
                yield f"I10: {name} is in the dead letters {times} times"
            if name not in self.sent or name in self.refused:
                yield f"I10: {name} is in the dead letters, and was not stored"
        for name, seen in self.attempts.items():
            if name in self.dead and max(seen) > _MAX_RETRIES + 1:
                yield f"I10: {name} was delivered for the attempts {seen}"

    @property
    def figure(self) -> str:
        fell = sum(any(after < before for before, after in pairwise(seen)) for seen in self.attempts.values())
        dead = f"dead {len(self.dead):,}, with an attempt below an earlier one {fell}"
        return f"{len(self.sent):,}, acked {len(self.acked):,}, {dead}"
