"""The broker: builds its capabilities and routes each request to its handler.

It knows no socket. Requests are frames of a ``Caller``, which takes the answers, in another process
or in this one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.quotas import Quotas
from litemq.broker.dead_letters.reading import DeadLetterReader
from litemq.broker.dead_letters.redrive import Redrives
from litemq.broker.dead_letters.requests import DeadLetterRequests
from litemq.broker.delivery.lessor import Lessor
from litemq.broker.delivery.requests import LeaseRequests
from litemq.broker.delivery.retry_scheduler import RetryScheduler
from litemq.broker.explain.requests import WhyRequests
from litemq.broker.groups.admin_requests import GroupAdmin
from litemq.broker.groups.coordinator import GroupCoordinator
from litemq.broker.groups.member_requests import MemberRequests
from litemq.broker.groups.recent_consumers import RecentConsumers
from litemq.broker.jobs.requests import JobRequests
from litemq.broker.jobs.scheduler import JobScheduler
from litemq.broker.limits import BrokerLimits
from litemq.broker.reading.long_polls import LongPolls
from litemq.broker.reading.look_ups import LookUpRequests
from litemq.broker.reading.requests import ReadRequests
from litemq.broker.replication.shipping import Shipping
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, HandlerTable, Permission
from litemq.broker.sending.destinations import SendDestinations
from litemq.broker.sending.send_tick import Request
from litemq.broker.sending.tick_batcher import TickBatcher
from litemq.broker.timers.firing import TimerFiring
from litemq.broker.timers.requests import TimerRequests
from litemq.broker.topics.archive_requests import ArchiveRequests
from litemq.broker.topics.expiry import MessageExpiry
from litemq.broker.topics.requests import TopicAnnouncer, TopicRequests
from litemq.broker.tracing.recorder import TraceRecorder
from litemq.broker.tracing.traced_caller import TracedCallers
from litemq.broker.transactions.transactions import Transactions
from litemq.clock import Clock
from litemq.errors import LiteMQError, ProtocolError, StorageError
from litemq.net.frame import Flag, Frame
from litemq.proto.wire_pb2 import Opcode
from litemq.storage.state import Topic
from litemq.storage.store import Store

__all__ = ["Broker", "BrokerIdentity", "check_for_broker"]

_SEND: Final = int(Opcode.SEND)
_NAMESERVER_OPCODES: Final = {
    *range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1),
    *range(Opcode.REPORT_REPLICA, Opcode.LIST_REPLICA_GROUPS + 1),
    *range(Opcode.HAND_OVER, Opcode.ELECT_UNCLEAN + 1),
}
_LOG = logging.getLogger(__name__)


class BrokerIdentity(NamedTuple):
    """The name and the zone of a broker, which the assignment of queues uses."""

    name: str = ""
    zone: str = ""


NO_IDENTITY: Final = BrokerIdentity()


class Broker:
    """Serves all connected callers over one store, on the event loop on which it is created."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        limits: BrokerLimits | None = None,
        *,
        announcer: TopicAnnouncer | None = None,
        identity: BrokerIdentity = NO_IDENTITY,
        session_clock: Clock | None = None,
    ) -> None:
        """``announcer`` publishes the broker's topics after a change.

        ``session_clock`` measures the silence of group members; default: ``clock``. Tests set it.
        """
        self.context = context = BrokerContext.create(store, clock, limits or BrokerLimits())
        quotas = Quotas(clock, context.limits.quota_messages_per_s, context.limits.quota_bytes_per_s)
        backlog = Backlog(store, clock, context.limits.max_backlog)
        recent_consumers = RecentConsumers(clock)
        dead_letters = DeadLetterReader(store)
        self.groups = GroupCoordinator(context, clock=session_clock, broker=identity.name, zone=identity.zone)
        self._long_polls = LongPolls(context)
        self._timer_firing = TimerFiring(context)
        self._tick_batcher = TickBatcher(context, quotas, backlog)
        self._destinations = SendDestinations(context)
        self._retry_scheduler = RetryScheduler(context)
        self._lessor = Lessor(context, self._retry_scheduler)
        self._transactions = Transactions(context, quotas, backlog)
        self._redrives = Redrives(context, dead_letters)
        self._job_scheduler = JobScheduler(context)
        self._message_expiry = MessageExpiry(context)
        self._shipping: Shipping | None = None
        self._trace_recorder = TraceRecorder(context)
        self._traced = TracedCallers(self._trace_recorder, store) if self._trace_recorder.is_on else None
        for listener in (
            self.groups,
            self._long_polls,
            self._lessor,
            self._trace_recorder,
            self._timer_firing,
            self._destinations,
            self._message_expiry,
        ):
            context.events.add(listener)
        self.handlers = HandlerTable(
            (
                Handler(Opcode.SEND, Permission.TOPIC_PUB, self._send),
                *ReadRequests(context, self._long_polls, self.groups, recent_consumers).handlers,
                *LookUpRequests(context).handlers,
                *LeaseRequests(context, self._lessor, self.groups, recent_consumers).handlers,
                *MemberRequests(context, self.groups).handlers,
                *GroupAdmin(context, self.groups).handlers,
                *TopicRequests(context, announcer).handlers,
                *ArchiveRequests(context).handlers,
                *self._transactions.handlers,
                *TimerRequests(context).handlers,
                *JobRequests(context, self._job_scheduler).handlers,
                *DeadLetterRequests(context, dead_letters, self._redrives).handlers,
                *WhyRequests(context, recent_consumers).handlers,
            )
        )

        self._calls = {opcode: handler.call for opcode, handler in self.handlers.items()}

    def ship(self, shipping: Shipping, *others: Handler) -> None:
        """Serve the followers of this broker, which is the master of a replicated group.

        ``others`` are requests that each replica serves.
        """
        self._shipping = shipping
        self.handlers = HandlerTable((*self.handlers.values(), *shipping.handlers, *others))
        self._calls = {opcode: handler.call for opcode, handler in self.handlers.items()}

    @property
    def topics(self) -> list[Topic]:
        """The topics of users, sorted by name."""
        return self.context.topics.user_topics

    def handle(self, caller: Caller, frames: Iterable[Frame]) -> None:
        """Handle the requests of one caller that arrived together."""
        if self._traced is not None:
            caller = self._traced.wrap(caller)
        destinations = self._destinations.known
        sends: list[Request] = []
        topic_id = -1
        for frame in frames:
            if frame[1] == _SEND and not frame[2]:
                destination = destinations.get(frame[3])
                if destination is not None:
                    if destination[0] != topic_id:
                        topic_id = destination[0]
                        sends = self._tick_batcher.topic_requests(topic_id)
                    sends.append((caller, frame, destination[1]))
                    continue
            try:
                self._handle(caller, frame)
            except LiteMQError as error:
                caller.refuse(frame, error)
            except Exception:  # noqa: BLE001  the caller waits for an answer, and other requests follow
                _LOG.exception("a request with opcode %d from %s failed", frame[1], caller.peer)
                caller.refuse(frame, StorageError("the broker failed to handle the request: see the broker's log"))

    def _handle(self, caller: Caller, frame: Frame) -> None:
        if frame[2] & (Flag.ANSWER | Flag.ERROR):
            raise ProtocolError(f"a request must not have the flags {frame[2]}: only answers have them")
        call = self._calls.get(frame[1])
        if call is None:
            check_for_broker(frame[1])
            raise ProtocolError(f"a broker does not support opcode {frame[1]}")
        call(caller, frame)

    def _send(self, caller: Caller, frame: Frame) -> None:
        topic_id, queue_id = self._destinations.find(frame[3])
        self._tick_batcher.topic_requests(topic_id).append((caller, frame, queue_id))

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting requests and memberships of ``caller``, whose connection has ended."""
        if self._shipping is not None:
            self._shipping.caller_gone(caller)
        if self._traced is not None:
            caller = self._traced.caller_gone(caller)
        self._tick_batcher.caller_gone(caller)
        self._long_polls.caller_gone(caller)
        self._lessor.caller_gone(caller)
        self._transactions.caller_gone(caller)
        self.groups.caller_gone(caller)

    async def fire_due(self) -> int:
        """Do all work that is due now; return the number of items. For tests that move a clock."""
        return (
            self.context.ring_due()
            + await self._transactions.publish_decided()
            + await self._timer_firing.fire_due()
            + await self._job_scheduler.fire_due()
            + await self._message_expiry.expire_due()
        )

    def close(self) -> None:
        """Answer all waiting requests. The caller closes the store."""
        if self._shipping is not None:
            self._shipping.close()
        self._trace_recorder.close()
        self._timer_firing.close()
        self._job_scheduler.close()
        self._message_expiry.close()
        self._transactions.close()
        self._tick_batcher.close()
        self._long_polls.close()
        self._redrives.close()
        self._lessor.close()
        self._retry_scheduler.close()
        self.groups.close()
        self.context.close()


def check_for_broker(opcode: int) -> None:
    """Raise ``ProtocolError`` if requests with ``opcode`` are for NameServers."""
    if opcode in _NAMESERVER_OPCODES:
        raise ProtocolError(
            "this is a broker, not a NameServer: --url and --nameserver take the addresses of NameServers, by default "
            "with port 9876. They know the brokers"
        )
