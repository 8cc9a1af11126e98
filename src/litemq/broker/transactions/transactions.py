"""Transactions: invisible halves, the decision about them, and the messages that they become.

Producers and Spark jobs use them. A producer sends halves, does its other work, and commits or
rolls back. If it does neither, the broker asks it. The halves of both are in one topic, and are
published in the same way.
"""

from __future__ import annotations

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.quotas import Quotas
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.transactions.admin_requests import TransactionRequests
from litemq.broker.transactions.capacity import HalfCapacity
from litemq.broker.transactions.check_back import CheckBack
from litemq.broker.transactions.decisions import Decisions
from litemq.broker.transactions.half_batcher import HalfBatcher
from litemq.broker.transactions.publishing import HalfPublisher
from litemq.broker.transactions.sink_transactions import SinkTransactions

__all__ = ["Transactions"]


class Transactions:
    """Wires the package, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext, quotas: Quotas, backlog: Backlog) -> None:
        self._publisher = HalfPublisher(context)
        capacity = HalfCapacity(context, backlog)
        self._sinks = SinkTransactions(context, quotas, capacity, self._publisher)
        self._check_back = CheckBack(context)
        self._publisher.begin()
        self.handlers = (
            *self._sinks.handlers,
            *HalfBatcher(context, quotas, capacity, self._check_back).handlers,
            *Decisions(context, self._publisher, self._check_back).handlers,
            *self._check_back.handlers,
            *TransactionRequests(context, self._check_back).handlers,
        )

    async def publish_decided(self) -> int:
        """Publish all decided halves now; return the number of messages."""
        return await self._publisher.publish_all()

    def caller_gone(self, caller: Caller) -> None:
        """Drop the polls of ``caller``, whose connection has ended."""
        self._check_back.caller_gone(caller)

    def close(self) -> None:
        """Publish no more. The next broker of the store publishes decided halves."""
        self._check_back.close()
        self._publisher.close()
