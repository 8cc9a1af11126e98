"""Contact with the brokers: which of them answer now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from litemq.client.addresses import broker_advice
from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.replica_views import describe_outage
from litemq.client.config import ClientConfig
from litemq.client.engine.survey import Survey, describe_missing
from litemq.clock import SystemClock
from litemq.errors import GroupUnavailableError, LiteMQError, NetworkError, NoRouteError
from litemq.proto.wire_pb2 import BrokerState

__all__ = ["BrokerContacts"]

# A broker that answered this recently, or was waited for in vain, is not contacted again: calls
# come in rows, and a command makes several.
_FRESH_S: Final = 1.0
_CLOCK: Final = SystemClock()


class BrokerContacts:
    """Finds out which brokers answer, all at once and within ``contact_timeout_ms``.

    A NameServer notices a lost broker only after its lease, and may itself be cut off from a broker
    that answers. So each broker is asked, whatever the NameServer says.
    """

    def __init__(self, nameservers: NameServers, connections: BrokerConnections, config: ClientConfig) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._within = config.contact_timeout_ms / 1000
        # When a broker was contacted, and its error. A refused connection costs no time: not kept.
        self._latest: dict[str, tuple[float, str]] = {}

    async def survey(self, names: Iterable[str] | None = None) -> Survey:
        """Contact the named brokers, or all that the NameServer knows.

        Raises:
            NoRouteError: None of them answers.
            GroupUnavailableError: They are replicated groups, and no replica serves them.
            NetworkError: No NameServer answers.
        """
        states: Sequence[BrokerState] | None = None
        if names is None:
            states = await self.learn_brokers()
            names = [state.facts.name for state in states]
        brokers = sorted(names)
        if not brokers:
            raise await self.no_broker_alive()
        missing = await self.missing(brokers, states)
        if len(missing) == len(brokers):
            await self.check_groups(brokers)
            raise NoRouteError(f"{describe_missing(missing)}: start it again with `litemq broker`")
        return Survey(brokers, missing)

    async def learn_brokers(self) -> list[BrokerState]:
        """Fetch all brokers from the NameServer, alive or not, and learn their addresses."""
        states = await self._nameservers.brokers()
        for facts in (each.facts for each in states):
            self._connections.learn(facts.name, facts.host, facts.port, facts.epoch)
        return states

    async def learn_groups(self) -> None:
        """Learn the epochs of replicated groups, which of them no replica serves, and why.

        If no NameServer answers, the last answer counts.
        """
        try:
            views = await self._nameservers.replica_groups()
        except NetworkError:
            return
        now = _CLOCK.wall_ms()
        outages = {view.name: describe_outage(view, now) for view in views}
        self._connections.outages = {name: outage for name, outage in outages.items() if outage}
        self._connections.group_epochs = {view.name: view.epoch for view in views}

    async def check_groups(self, names: Iterable[str]) -> None:
        """Raise ``GroupUnavailableError`` if no replica serves the groups ``names``."""
        await self.learn_groups()
        found = [self._connections.outages[name] for name in names if name in self._connections.outages]
        if found:
            raise GroupUnavailableError("; ".join(found))

    async def no_broker_alive(self) -> LiteMQError:
        """Return the error of a cluster without brokers."""
        await self.learn_groups()
        if self._connections.outages:
            return GroupUnavailableError("; ".join(self._connections.outages.values()))
        return NoRouteError(
            f"no broker is alive (NameServer {self._nameservers.description}): "
            f"{broker_advice(self._nameservers.addresses)}"
        )

    async def missing(self, brokers: Sequence[str], states: Sequence[BrokerState] | None) -> dict[str, str]:
        """Return which of ``brokers`` do not answer, and why.

        ``states`` is what the NameServer knows; ``None``: it is asked if a broker is missing.
        """
        errors = await asyncio.gather(*map(self._contact, brokers))
        failed = {broker: error for broker, error in zip(brokers, errors, strict=True) if error}
        if not failed:
            return {}
        by_name = {state.facts.name: state for state in states or await self.learn_brokers()}
        return {broker: _reason(error, by_name.get(broker)) for broker, error in failed.items()}

    async def _contact(self, broker: str) -> str:
        """Return the error of a broker that does not answer; empty: it does."""
        connection, loop = self._connections.to(broker), asyncio.get_running_loop()
        at, error = self._latest.get(broker, (-_FRESH_S, ""))
        begin = loop.time()
        if begin - at < _FRESH_S and (error or connection.is_open):
            return error
        try:
            await connection.probe(self._within)
            error = ""
        except LiteMQError as failed:
            error = str(failed)
        now = loop.time()
        if not error or now - begin >= self._within:
            self._latest[broker] = now, error
        return error


def _reason(error: str, state: BrokerState | None) -> str:
    if state is None:
        return f"{error}; the NameServer does not know it"
    return error if state.alive else f"{error}; silent for {_duration(state.heard_ms_ago)}"


def _duration(ms: int) -> str:
    seconds = ms // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
