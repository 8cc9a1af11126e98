"""Transactions: halves that nobody sees, the decision whether they count, and the messages that they become.

Producers and jobs have them. A producer sends its halves, does what it does elsewhere, and says commit or rollback; where it says nothing, it is
asked. The halves of both stand in one topic, and become messages in the same way.
"""

from __future__ import annotations

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.quotas import Quotas
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.transactions.admin_requests import TransactionRequests
from litemq.broker.transactions.capacity import HalfRoom
from litemq.broker.transactions.check_back import CheckBack
from litemq.broker.transactions.decisions import Endings
from litemq.broker.transactions.half_batcher import HalfSending
from litemq.broker.transactions.publishing import Copying
from litemq.broker.transactions.sink_transactions import SinkTransactions

__all__ = ["Transactions"]


class Transactions:
    """For everybody on the event loop that is running when it is made."""

    def __init__(self, context: BrokerContext, quotas: Quotas, backlog: Backlog) -> None:
        self._copying = Copying(context)
        room = HalfRoom(context, backlog)
        self._sinks = SinkTransactions(context, quotas, room, self._copying)
        self._check_back = CheckBack(context)
        self._copying.begin()
        self.handlers = (
            *self._sinks.handlers,
            *HalfSending(context, quotas, room, self._check_back).handlers,
            *Endings(context, self._copying, self._check_back).handlers,
            *self._check_back.handlers,
            *TransactionRequests(context, self._check_back).handlers,
        )

    async def copy_decided(self) -> int:
        """Copy all that is decided, instead of behind everybody's back; returns how many messages that were."""
        return await self._copying.copy_all()

    def caller_gone(self, caller: Caller) -> None:
        """A caller's connection has ended: it cannot be asked."""
        self._check_back.caller_gone(caller)

    def close(self) -> None:
        """What is decided is copied by whoever opens the store next."""
        self._check_back.close()
        self._copying.close()
