"""Output of brokers: one row each, with what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from litemq.cli.rendering.messages import format_time

if TYPE_CHECKING:
    from litemq.client.engine.engine import BrokerInfo

__all__ = ["BROKER_COLUMNS", "broker_row", "no_brokers"]

BROKER_COLUMNS: Final = ("broker", "address", "state", "topics", "started_at", "software")


def broker_row(broker: BrokerInfo) -> dict[str, object]:
    """Return a row of a table of brokers."""
    return {
        "broker": broker.name,
        "address": broker.address,
        "state": _state(broker),
        "topics": broker.topics,
        "started_at": format_time(broker.started_at) if broker.started_at else "",
        "software": broker.software,
        "heard_ms_ago": broker.heard_ms_ago,
        "problem": broker.problem,
    }


def no_brokers(url: str) -> str:
    """Return the output for a cluster at ``url`` that has no brokers."""
    if not url.startswith("litemq://"):
        return "There are no brokers."
    from litemq.client.addresses import broker_advice, parse_addresses

    return f"There are no brokers: {broker_advice(parse_addresses(url))}."


def _state(broker: BrokerInfo) -> str:
    if broker.problem:
        return "not answering"
    return "up" if broker.alive else "not registered"
