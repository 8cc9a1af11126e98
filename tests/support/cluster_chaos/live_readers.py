"""Readers without a group that follow a topic: at the master, and at replicas."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.config import ReadFrom
from litemq.errors import LiteMQError
from support.chaos_load import TOPIC, seen
from support.history import Name, Position

__all__ = ["LiveReaders"]

_AGAIN_S: Final = 0.2


@dataclass
class LiveReaders:
    """What the readers have seen so far, in order."""

    url: str
    seen: dict[str, list[tuple[Name, Position]]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)

    async def read(self, read_from: ReadFrom) -> None:
        """Follow the topic until cancelled. After an error, go on at the end of each queue."""
        while True:
            try:
                async with AsyncClient(self.url, read_from=read_from) as mq:
                    async for message in mq.reader(TOPIC, start="latest"):
                        self.seen[read_from].append(seen(message))
            except LiteMQError as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(_AGAIN_S)
