"""Transactions: halves that nobody sees, the decision whether they count, and the messages that they become.

Producers and jobs have them. A producer sends its halves, does what it does elsewhere, and says commit or rollback; where it says nothing, it is
asked. The halves of both stand in one topic, and become messages in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.quotas import Quotas
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.alarms import Alarms
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.deferred_answers import Answering
from litemq.broker.transactions.admin_requests import TransactionRequests
from litemq.broker.transactions.capacity import HalfRoom
from litemq.broker.transactions.check_back import CheckBack
from litemq.broker.transactions.decisions import Endings
from litemq.broker.transactions.half_batcher import HalfSending
from litemq.broker.transactions.publishing import Copying
from litemq.broker.transactions.sink_transactions import SinkTransactions
from litemq.clock import Clock
from litemq.net.frame import Frame
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.store import Store

__all__ = ["Transactions"]


class Transactions:
    """For everybody on the event loop that is running when it is made."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        limits: BrokerLimits,
        quotas: Quotas,
        backlog: Backlog,
        alarms: Alarms,
        topic: Callable[[str], TopicFacts],
        grown: Callable[[list[QueueKey], int], None],
        held: Callable[[], None],
        answering: Answering,
    ) -> None:
        """``grown`` is told which queues have new messages, and up to which log offset; ``held``, that some may wait for their time."""
        self._copying = Copying(store, clock, alarms, grown, held)
        room = HalfRoom(store, clock, limits, backlog)
        self._sinks = SinkTransactions(store, clock, limits, quotas, room, alarms, topic, self._copying)
        self._check_back = CheckBack(store, clock, limits, alarms, answering)
        sending = HalfSending(store, limits, quotas, room, topic, self._check_back.watch)
        endings = Endings(store, clock, self._copying, grown, held, self._check_back.said)
        requests = TransactionRequests(store, self._check_back, answering)
        self._copying.begin()
        self.handlers: dict[int, Callable[[Caller, Frame], None]] = {
            **self._sinks.handlers,
            **sending.handlers,
            **endings.handlers,
            **self._check_back.handlers,
            **requests.handlers,
        }

    async def copy_decided(self) -> int:
        """Copy all that is decided, instead of behind everybody's back; returns how many messages that were."""
        return await self._copying.copy_all()

    def gone(self, caller: Caller) -> None:
        """A caller's connection has ended: it cannot be asked."""
        self._check_back.gone(caller)

    def close(self) -> None:
        """What is decided is copied by whoever opens the store next."""
        self._check_back.close()
        self._copying.close()
