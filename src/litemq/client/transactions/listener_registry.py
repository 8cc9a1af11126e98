"""The transaction listeners of one client, by producer group."""

from __future__ import annotations

import asyncio

from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import TransactionEngine
from litemq.client.messages.serializers import Serializers
from litemq.client.transactions.listener import CheckBackResponder, TransactionListener
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["ListenerRegistry"]


class ListenerRegistry:
    """At most one listener per group. It answers check-backs until ``close``."""

    def __init__(self, config: ClientConfig, serializers: Serializers) -> None:
        self._config = config
        self._serializers = serializers
        self._responders: dict[str, CheckBackResponder] = {}

    def add(self, engine: TransactionEngine, group_id: str, listener: TransactionListener) -> None:
        """Register ``listener`` for the transactions of ``group_id``.

        Raises:
            InvalidArgumentError: The group has a listener, or its name is invalid.
        """
        if check_name(group_id, "group") in self._responders:
            raise InvalidArgumentError(f"group {group_id!r} already has a listener in this client")
        self._responders[group_id] = CheckBackResponder(engine, group_id, listener, self._config, self._serializers)

    def find(self, group_id: str) -> TransactionListener:
        """Return the listener of ``group_id``.

        Raises:
            InvalidArgumentError: The group has none.
        """
        responder = self._responders.get(group_id)
        if responder is None:
            raise InvalidArgumentError(
                f"group {group_id!r} has no listener in this client: "
                f"call mq.transaction_listener({group_id!r}, listener) first"
            )
        return responder.listener

    async def close(self) -> None:
        """Stop answering for all groups."""
        try:
            await asyncio.gather(
                *(responder.close() for responder in self._responders.values()), return_exceptions=True
            )
        finally:
            self._responders.clear()
