"""The refresh of broker addresses: find brokers that moved, and the next masters of groups."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.nameservers import NameServers
from litemq.client.config import ClientConfig
from litemq.errors import LiteMQError

__all__ = ["AddressRefresh"]

_STALE_S: Final = 5.0  # longer than most elections
# The pauses between refreshes while a broker may have moved: its group may elect a new master.
_FIRST_MS: Final = 100
_MAX_MS: Final = 500
_LOG = logging.getLogger(__name__)


class AddressRefresh:
    """Asks the NameServers for addresses while a broker may have moved.

    A broker that cannot be reached may have moved. A former master may still answer: it refuses
    requests, or does not confirm them, or a group has no messages for its consumers any more. So
    the epochs of replicated groups are compared after such answers, and every
    ``route_refresh_ms``.
    """

    def __init__(
        self, nameservers: NameServers, connections: BrokerConnections, contacts: BrokerContacts, config: ClientConfig
    ) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._contacts = contacts
        self._interval = config.route_refresh_ms / 1000
        self._doubt_s = config.max_retry_backoff_ms / 1000 + 1  # longer than the pause between two tries
        self._is_due = asyncio.Event()
        connections.on_doubt = self._is_due.set

    async def run(self) -> None:
        """Refresh until cancelled.

        If that does not help for a while, another NameServer may know more: the one that answers
        may be cut off from the brokers.
        """
        now = asyncio.get_running_loop().time
        pauses = Backoff(_FIRST_MS, _MAX_MS)
        same_since: float | None = None  # the addresses, while a broker may have moved
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._is_due.wait()
            self._is_due.clear()
            before = dict(self._connections.addresses)
            if same_since is None:
                same_since = now()
            try:
                await self._refresh()
                if self._connections.addresses != before:
                    same_since = now()
                elif now() - same_since >= _STALE_S:
                    same_since = now()
                    self._nameservers.use_another()
            except LiteMQError as error:
                _LOG.info("cannot refresh the addresses of brokers, will retry: %s", error)
            await asyncio.sleep(pauses.next_delay())
            connections = self._connections
            if (
                connections.is_any_connecting
                or connections.is_any_outdated
                or connections.is_any_doubted(now() - self._doubt_s)
            ):
                self._is_due.set()
            else:
                pauses.reset()
                same_since = None

    async def _refresh(self) -> None:
        """Learn all addresses if one may be wrong. The epochs of groups cost less than those."""
        connections, contacts = self._connections, self._contacts
        if connections.is_any_connecting:
            await contacts.learn_brokers()
            await contacts.learn_groups()
        elif connections.are_groups_used:
            await contacts.learn_groups()
            if connections.is_any_outdated:
                await contacts.learn_brokers()
