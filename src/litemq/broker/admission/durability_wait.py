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

__all__ = ["DurabilityWait"]

_DISK: Final = int(Durability.DISK)


class DurabilityWait:
    """Waits until a level holds: below ``DISK`` not at all, ``DISK`` until ``store`` has flushed,
    and ``REPLICAS`` until its group has confirmed. If the topic's ``replica_ack`` is ``MEMORY``,
    ``REPLICAS`` only needs that the group has received.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_replicated = store.is_replicated

    def when_held(self, topic_id: int, level: int, end: int, answer: OnFlushed) -> None:
        """Call ``answer`` once ``level`` holds for the topic's records below log offset ``end``."""
        if self._is_replicated:
            answer = partial(self._answer_if_leased, answer)
        if level < _DISK:
            answer(None)
        elif level == _DISK:
            self._store.when_flushed(end, answer)
        else:
            topic = self._store.state.topics.get(topic_id)
            if topic is not None and topic.min_in_sync:
                answer = partial(self._answer_if_enough, topic, answer)
            if topic is not None and topic.replica_ack == ReplicaAck.MEMORY:
                self._store.when_received(end, answer)
            else:
                self._store.when_replicated(end, answer)

    def _answer_if_enough(self, topic: Topic, answer: OnFlushed, failure: LiteMQError | None) -> None:
        """Answer, unless the in-sync set has become too small for ``topic``."""
        answer(failure or too_few_confirmed(self._store, topic))

    def _answer_if_leased(self, answer: OnFlushed, failure: LiteMQError | None) -> None:
        """Answer, unless the lease of this master ended meanwhile."""
        answer(failure or self._store.lease_refusal)
