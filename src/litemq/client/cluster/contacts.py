"""Contact with the brokers: which of them answer now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.nameservers import NameServers
from litemq.client.config import ClientConfig
from litemq.client.engine.survey import Survey, describe_missing
from litemq.errors import LiteMQError, NoRouteError
from litemq.proto.wire_pb2 import BrokerState

__all__ = ["BrokerContacts"]


class BrokerContacts:
    """Finds out which brokers answer, all at once and within ``contact_timeout_ms``.

    A NameServer notices a lost broker only after its lease, and may itself be cut off from a broker
    that answers. So each broker is asked, whatever the NameServer says.
    """

    def __init__(self, nameservers: NameServers, connections: BrokerConnections, config: ClientConfig) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._within = config.contact_timeout_ms / 1000

    async def survey(self, names: Iterable[str] | None = None) -> Survey:
        """Contact the named brokers, or all that the NameServer knows.

        Raises:
            NoRouteError: None of them answers.
            NetworkError: No NameServer answers.
        """
        states = await self._nameservers.brokers()
        brokers = sorted((state.facts.name for state in states) if names is None else names)
        if not brokers:
            raise NoRouteError(
                f"no broker is alive (NameServer {self._nameservers.description}): "
                "start one with `litemq broker`, or all with `litemq up`"
            )
        missing = await self.missing(brokers, states)
        if len(missing) == len(brokers):
            raise NoRouteError(f"{describe_missing(missing)}: start it again with `litemq broker`")
        return Survey(brokers, missing)

    async def missing(self, brokers: Sequence[str], states: Iterable[BrokerState]) -> dict[str, str]:
        """Return which of ``brokers`` do not answer, and why."""
        by_name = {state.facts.name: state for state in states}
        self._connections.addresses.update(
            {name: (state.facts.host, state.facts.port) for name, state in by_name.items()}
        )
        reasons = await asyncio.gather(*(self._contact(broker, by_name.get(broker)) for broker in brokers))
        return {broker: reason for broker, reason in zip(brokers, reasons, strict=True) if reason}

    async def _contact(self, broker: str, state: BrokerState | None) -> str:
        """Return why ``broker`` does not answer; empty: it does."""
        try:
            await self._connections.to(broker).probe(self._within)
        except LiteMQError as error:
            if state is None:
                return f"{error}; the NameServer does not know it"
            return str(error) if state.alive else f"{error}; silent for {_duration(state.heard_ms_ago)}"
        return ""


def _duration(ms: int) -> str:
    seconds = ms // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
