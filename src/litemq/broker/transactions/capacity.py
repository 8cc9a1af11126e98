"""The capacity for halves, which take memory and disk until they are decided."""

from __future__ import annotations

from typing import Final

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.due_time import check_due
from litemq.broker.admission.replicas import check_unreplicated
from litemq.broker.runtime.context import BrokerContext
from litemq.errors import DiskFullError, OverloadedError
from litemq.storage.state import Topic

__all__ = ["HalfCapacity"]

_RETRY_AFTER_MS: Final = 20


class HalfCapacity:
    """The limits of one broker, for the halves of jobs and producers."""

    def __init__(self, context: BrokerContext, backlog: Backlog) -> None:
        self._store = context.store
        self._clock = context.clock
        self._limits = context.limits
        self._backlog = backlog

    def check(self, topic: Topic, queue_id: int, size: int, due: int, new: int) -> None:
        """Raise unless ``size`` bytes in ``new`` further transactions fit the limits; ``due`` is
        the latest due time (ms).
        """
        self._backlog.check(topic, queue_id)
        halves, store = self._store.state.parts.halves, self._store
        if new and len(halves) + new > self._limits.max_transactions:
            raise OverloadedError(
                f"{len(halves)} transactions are open, the maximum: retry after some have been decided", 1000
            )
        if halves.runs >= self._limits.max_half_runs:
            raise OverloadedError(
                f"{halves.runs} runs of undecided records are open, the maximum: send more records per request", 1000
            )
        if halves.bytes + size > self._limits.max_half_bytes:
            raise DiskFullError(
                f"{halves.bytes} bytes are undecided (transactions.max_half_size): retry after some have been decided"
            )
        if due:
            check_due(store, self._clock, due, size)
        check_unreplicated(store, self._limits.max_unreplicated_bytes)
        unflushed = store.log_end - store.flushed_offset
        if unflushed and unflushed + size > self._limits.max_unconfirmed_bytes // 2:
            raise OverloadedError(
                f"{unflushed >> 20} MiB are waiting for the disk: retry in {_RETRY_AFTER_MS} ms", _RETRY_AFTER_MS
            )
