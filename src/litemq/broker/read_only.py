"""Reads from a follower: without a group, and nothing that is not confirmed."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.broker.limits import BrokerLimits
from litemq.broker.reading.long_polls import LongPolls
from litemq.broker.reading.look_ups import LookUpRequests
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, HandlerTable, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.topics.requests import TopicRequests
from litemq.clock import Clock
from litemq.errors import NotMasterError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode, PullRequest
from litemq.storage.replica_store import ReplicaStore
from litemq.storage.state import QueueKey

__all__ = ["ReadOnlyBroker"]

_TOPIC_READS: Final = (Opcode.DESCRIBE_TOPIC, Opcode.LIST_TOPICS)


class ReadOnlyBroker:
    """Serves reads over the store of a follower, on the event loop on which it is created.

    Readers get the messages below the confirm offset that the master has sent. Close it before the
    store is cut, closed, or written by a master.
    """

    def __init__(self, store: ReplicaStore, clock: Clock, limits: BrokerLimits) -> None:
        self._store = store
        self._context = context = BrokerContext.create(store, clock, limits)
        self._long_polls = LongPolls(context)
        self._loop = asyncio.get_running_loop()
        self._is_waking = False  # the waiting pulls, in the next tick
        topics = HandlerTable(TopicRequests(context, None).handlers)
        self.handlers = HandlerTable(
            (
                Handler(Opcode.PULL, Permission.TOPIC_READ, self._pull),
                *LookUpRequests(context).handlers,
                *(topics[opcode] for opcode in _TOPIC_READS),
            )
        )
        store.confirmation.resume()  # if this replica was the master before
        store.on_appended(self._on_appended)

    def _pull(self, caller: Caller, frame: Frame) -> None:
        request = parse(PullRequest, frame[3])
        if request.group or request.is_retry:
            raise NotMasterError("this broker is not the master of its group: only readers without a group read here")
        topic = self._context.topics.find_with_queue(request.topic, request.queue_id)
        self._long_polls.offer(caller, frame, request, QueueKey(topic.topic_id, request.queue_id))

    def _on_appended(self) -> None:
        """The follower has appended records; called on the event loop."""
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Let the waiting pulls read once the records are confirmed."""
        self._is_waking = False
        self._long_polls.on_append(self._long_polls.waited_for, self._store.log_end)

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting pulls of ``caller``, whose connection has ended."""
        self._long_polls.caller_gone(caller)

    def close(self) -> None:
        """Answer all waiting pulls."""
        self._store.on_appended(None)
        self._long_polls.close()
        self._context.close()
