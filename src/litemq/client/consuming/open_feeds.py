"""The open consumers, readers and receivers of one client, and the leases they share."""

from __future__ import annotations

import asyncio
from typing import Literal

from litemq.client.config import ClientConfig
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.opening import ConsumerSettings, open_consumer
from litemq.client.consuming.reader import Reader, Start
from litemq.client.engine.engine import Engine, LeaseOptions
from litemq.client.engine.selection import Selection
from litemq.client.leases.leases import Leases
from litemq.client.leases.receiver import Receiver
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.types import check_name, check_readable

__all__ = ["OpenFeeds"]


class OpenFeeds:
    """Opens feeds and receivers, and closes the open ones together with the client."""

    def __init__(self, engine: Engine, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._config = config
        self._serializers = serializers
        self._leases: Leases | None = None
        self._feeds: list[Feed] = []
        self._receivers: dict[tuple[str, str, LeaseOptions, SettlePolicy], Receiver] = {}

    def _shared_leases(self) -> Leases:
        if self._leases is None:
            self._leases = Leases(self._engine, self._config, self._serializers)
        return self._leases

    def consumer(self, topic: str, group_id: str, settings: ConsumerSettings) -> Consumer:
        """Open a consumer of ``topic`` for ``group_id``."""
        consumer = open_consumer(
            self._engine, topic, group_id, self._config, self._serializers, self._shared_leases(), settings
        )
        self._add(consumer)
        return consumer

    def reader(
        self, topic: str, start: Start | Literal["earliest", "latest"], selection: Selection, *, follow: bool
    ) -> Reader:
        """Open a reader of ``topic``, without a group."""
        reader = Reader(
            self._engine,
            check_readable(topic),
            self._config,
            self._serializers,
            start=start,
            follow=follow,
            selection=selection,
        )
        self._add(reader)
        return reader

    def _add(self, feed: Feed) -> None:
        self._feeds = [each for each in self._feeds if not each.is_closed]
        self._feeds.append(feed)

    def receiver(self, topic: str, group_id: str, options: LeaseOptions, settle_policy: SettlePolicy) -> Receiver:
        """Return the receiver for these arguments; equal calls of ``receive`` share it."""
        key = (topic, group_id, options, settle_policy)
        receiver = self._receivers.get(key)
        if receiver is None:
            check_name(topic)
            check_name(group_id, "group")
            receiver = self._receivers[key] = Receiver(self._engine, self._shared_leases(), *key, self._config)
        return receiver

    async def close(self) -> None:
        """Close all feeds and receivers, then return the remaining leases."""
        closing = [
            *(feed.close() for feed in self._feeds),
            *(receiver.close() for receiver in self._receivers.values()),
        ]
        await asyncio.gather(*closing, return_exceptions=True)
        if self._leases is not None:
            await self._leases.close()
