"""Opening a consumer: select the consumer class for the arguments of ``mq.consumer``."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple, TypedDict

from litemq.client.config import ClientConfig, ConsumeMode, OffsetReset
from litemq.client.consuming.broadcast_consumer import BroadcastConsumer
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.lease_consumer import LeaseConsumer
from litemq.client.consuming.ordered_consumer import OrderedConsumer
from litemq.client.engine.engine import Engine
from litemq.client.engine.selection import Selection
from litemq.client.leases.lease import lease_options
from litemq.client.leases.leases import Leases
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["ConsumerSettings", "open_consumer"]


class ConsumerSettings(NamedTuple):
    """The arguments of ``mq.consumer``, with the client's settings as defaults."""

    mode: ConsumeMode
    reset: OffsetReset
    commits: bool
    lease: float | timedelta
    ahead: int  # prefetched messages per broker, in mode "lease"
    settle_policy: SettlePolicy
    selection: Selection
    ordered: bool
    max_held: int
    has_client_id: bool  # the caller chose ``client_id``


class _QueueOptions(TypedDict):
    reset: OffsetReset
    commits: bool
    leases: Leases
    settle_policy: SettlePolicy
    selection: Selection


def open_consumer(
    engine: Engine,
    topic: str,
    group_id: str,
    config: ClientConfig,
    serializers: Serializers,
    leases: Leases,
    settings: ConsumerSettings,
) -> Consumer:
    """Open the consumer of ``topic`` for ``group_id`` that fits ``settings``.

    Raises:
        InvalidArgumentError: A setting is invalid, or settings contradict each other.
    """
    common = (engine, check_name(topic), check_name(group_id, "group"), config, serializers)
    mode, reset, settle_policy, selection = settings.mode, settings.reset, settings.settle_policy, settings.selection
    if reset not in ("earliest", "latest", "error"):
        raise InvalidArgumentError(f"auto_offset_reset={reset!r}: choose earliest, latest or error")
    if mode == "lease":
        if settings.ordered:
            raise InvalidArgumentError("ordered=True needs mode='queue' or 'broadcast': leased messages have no order")
        leasing = lease_options(settings.lease, settle_policy, reset, selection)
        return LeaseConsumer(*common, leases=leases, options=leasing, settle_policy=settle_policy, ahead=settings.ahead)
    if mode not in ("queue", "broadcast"):
        raise InvalidArgumentError(f"mode={mode!r}: choose queue, lease or broadcast")
    options = _QueueOptions(
        reset=reset, commits=settings.commits, leases=leases, settle_policy=settle_policy, selection=selection
    )
    if mode == "broadcast":
        if not settings.has_client_id:
            raise InvalidArgumentError(
                "mode='broadcast' stores its progress under the client_id: create the client with a fixed client_id="
            )
        return BroadcastConsumer(*common, ordered=settings.ordered, max_held=settings.max_held, **options)
    if settings.ordered:
        return OrderedConsumer(*common, max_held=settings.max_held, **options)
    return Consumer(*common, **options)
