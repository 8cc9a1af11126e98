"""Opening a consumer: select the type of consumer for a call of ``mq.consumer``."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple, TypedDict

from litemq.client.config import ClientConfig, ConsumeMode, OffsetReset
from litemq.client.consuming.broadcast_consumer import BroadcastConsumer
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.lease_consumer import LeaseConsumer
from litemq.client.consuming.ordered_consumer import OrderedConsumer
from litemq.client.engine.engine import Backend
from litemq.client.engine.selection import Selection
from litemq.client.leases.lease import lease_terms
from litemq.client.leases.leases import Leases
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import Handling
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["ConsumerSettings", "open_consumer"]


class ConsumerSettings(NamedTuple):
    """The arguments of ``mq.consumer``, with the client's settings as defaults."""

    mode: ConsumeMode
    reset: OffsetReset
    commits: bool
    lease: float | timedelta
    ahead: int  # messages of each broker that wait in the client, in mode "lease"
    handling: Handling
    selection: Selection
    ordered: bool
    max_held: int
    has_client_id: bool  # the caller named the client


class _QueueOptions(TypedDict):
    reset: OffsetReset
    commits: bool
    leases: Leases
    handling: Handling
    selection: Selection


def open_consumer(
    engine: Backend, topic: str, group_id: str, config: ClientConfig, serializers: Serializers, leases: Leases, settings: ConsumerSettings
) -> Consumer:
    """Open the consumer of ``topic`` for ``group_id`` that fits ``settings``; raise if they contradict each other."""
    place = (engine, check_name(topic), check_name(group_id, "group"), config, serializers)
    mode, reset, handling, selection = settings.mode, settings.reset, settings.handling, settings.selection
    if reset not in ("earliest", "latest", "error"):
        raise InvalidArgumentError(f"auto_offset_reset={reset!r}: choose earliest, latest or error")
    if mode == "lease":
        if settings.ordered:
            raise InvalidArgumentError("ordered=True with leases, which come in no order: choose mode='queue'")
        terms = lease_terms(settings.lease, handling, reset, selection)
        return LeaseConsumer(*place, leases=leases, terms=terms, handling=handling, ahead=settings.ahead)
    if mode not in ("queue", "broadcast"):
        raise InvalidArgumentError(f"mode={mode!r}: choose queue, lease or broadcast")
    options = _QueueOptions(reset=reset, commits=settings.commits, leases=leases, handling=handling, selection=selection)
    if mode == "broadcast":
        if not settings.has_client_id:
            raise InvalidArgumentError("a broadcast's progress is kept by client: give the client a client_id= that stays the same")
        return BroadcastConsumer(*place, ordered=settings.ordered, max_held=settings.max_held, **options)
    if settings.ordered:
        return OrderedConsumer(*place, max_held=settings.max_held, **options)
    return Consumer(*place, **options)
