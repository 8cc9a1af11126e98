"""The transaction listeners of one client, by producer group."""

from __future__ import annotations

import asyncio

from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import TransactionBackend
from litemq.client.messages.serializers import Serializers
from litemq.client.transactions.listener import Answering, TransactionListener
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["Listeners"]


class Listeners:
    """At most one listener for each group; it answers check-backs until ``close``."""

    def __init__(self, config: ClientConfig, serializers: Serializers) -> None:
        self._config = config
        self._serializers = serializers
        self._answering: dict[str, Answering] = {}

    def add(self, backend: TransactionBackend, group_id: str, listener: TransactionListener) -> None:
        """Have ``listener`` answer for the transactions of ``group_id``."""
        if check_name(group_id, "group") in self._answering:
            raise InvalidArgumentError(f"group {group_id!r} has a listener here already")
        self._answering[group_id] = Answering(backend, group_id, listener, self._config, self._serializers)

    def find(self, group_id: str) -> TransactionListener:
        """Return the listener of ``group_id``; raise if it has none."""
        answering = self._answering.get(group_id)
        if answering is None:
            raise InvalidArgumentError(f"group {group_id!r} has no listener here: mq.transaction_listener({group_id!r}, listener) first")
        return answering.listener

    async def close(self) -> None:
        """Stop answering for all groups."""
        try:
            await asyncio.gather(*(answering.close() for answering in self._answering.values()), return_exceptions=True)
        finally:
            self._answering.clear()
