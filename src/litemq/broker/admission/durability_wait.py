"""When records are as durable as their level says, so that a request may be answered."""

from __future__ import annotations

from functools import partial
from typing import Final

from litemq.broker.admission.replicas import too_few_confirmed
from litemq.errors import LiteMQError
from litemq.storage.log.flush import OnFlushed
from litemq.storage.state import Topic
from litemq.storage.store import Store
from litemq.types import Durability, ReplicaAck

__all__ = ["when_held"]

_DISK: Final = int(Durability.DISK)


def when_held(
    store: Store, topic_id: int, level: int, end: int, on_held: OnFlushed, *, uses_replica_ack: bool = True
) -> None:
    """Call ``on_held`` once ``level`` holds for records of a topic below log offset ``end``.

    That is at once below ``DISK``, at ``DISK`` when ``store`` has flushed them, and at ``REPLICAS``
    when its group has confirmed them. If the topic's ``replica_ack`` is ``MEMORY`` and
    ``uses_replica_ack``, ``REPLICAS`` only needs that the group has received them.
    """
    if store.is_replicated:
        on_held = partial(_if_leased, store, on_held)
    if level < _DISK:
        on_held(None)
    elif level == _DISK:
        store.when_flushed(end, on_held)
    else:
        topic = store.state.topics.get(topic_id)
        if topic is not None and topic.min_in_sync:
            on_held = partial(_if_enough, store, topic, on_held)
        if uses_replica_ack and topic is not None and topic.replica_ack == ReplicaAck.MEMORY:
            store.when_received(end, on_held)
        else:
            store.when_replicated(end, on_held)


def _if_enough(store: Store, topic: Topic, on_held: OnFlushed, failure: LiteMQError | None) -> None:
    """Go on, unless the in-sync set has become too small for ``topic``."""
    on_held(failure or too_few_confirmed(store, topic))


def _if_leased(store: Store, on_held: OnFlushed, failure: LiteMQError | None) -> None:
    """Go on, unless the lease of this master ended meanwhile."""
    on_held(failure or store.lease_refusal)
