"""Consumers that keep the order of each key, also when handlers fail or run side by side.

A message is given out when the one before it with the same ordering key is settled. One that is to be tried again is kept here until then, and
comes before all others of its key; other keys go on. Only what failed for good leaves its place, for the dead letters.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.inbox import Inbox
from litemq.client.consuming.key_order import KeyOrder
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import QueueFact
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import Settlements, place_of
from litemq.errors import InvalidArgumentError
from litemq.format.messages import MessageFields

__all__ = ["MAX_HELD", "OrderedConsumer", "OrderedInbox", "OrderedReader", "settled_here"]

MAX_HELD: Final = 1000  # messages of a queue that wait behind others of their key, before the queue waits
_OVERHEAD: Final = 256  # bytes of a message besides its body, about
_AGAIN_SECONDS: Final = 1.0  # where a broker could not bury a message


class OrderedReader(QueueReader):
    """One queue, whose messages are tried again where they stand."""

    __slots__ = ("inbox",)

    inbox: OrderedInbox

    def ack(self, message: Message, fields: MessageFields) -> None:
        super().ack(message, fields)
        self.inbox.settled(self, message)

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        if failure.is_final or message.attempt > failure.max_retries:
            return self.bury(message, fields, failure)
        self.inbox.try_again(self, message, Message(fields, self, message.attempt + 1), failure.delay)
        return settled_here()

    def bury(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """There is no other try."""
        settlements = super().fail(message, fields, failure)
        settlements.outcome(place_of(fields)).add_done_callback(lambda outcome: self._buried(message, fields, outcome))
        return settlements

    def _buried(self, message: Message, fields: MessageFields, outcome: asyncio.Future[None]) -> None:
        """The broker has made a dead letter of it, or could not: then it stays the first."""
        if outcome.cancelled() or outcome.exception() is not None:
            self.inbox.try_again(self, message, Message(fields, self, message.attempt), _AGAIN_SECONDS)
        else:
            self.inbox.settled(self, message)

    def release(self, message: Message, fields: MessageFields) -> bool:
        """It was not tried to the end: it is the next of its key again."""
        self.inbox.try_again(self, message, Message(fields, self, message.attempt), 0.0)
        return True


def settled_here() -> Settlements:
    """What no broker has to be told."""
    settlements = Settlements()
    settlements.answered([])
    return settlements


class OrderedInbox(Inbox):
    """What was fetched and waits for its turn, by queue and ordering key; or each message by itself, where keys do not matter."""

    def __init__(self, max_bytes: int, max_held: int, *, by_key: bool = True) -> None:
        super().__init__(max_bytes)
        self._by_key = by_key
        self._order: KeyOrder[QueueReader, Message] = KeyOrder(max_held)
        self._in_hands: dict[Message, QueueReader] = {}
        self._full: dict[QueueReader, asyncio.Future[None]] = {}
        self._waking: asyncio.TimerHandle | None = None

    def _key(self, message: Message) -> str:
        return message.ordering_key if self._by_key else str(message.queue_offset)

    def put(self, messages: list[Message], size: int, queue: QueueReader) -> None:  # noqa: ARG002  each counts until it is taken
        known = {message.queue_offset for message, its_queue in self._in_hands.items() if its_queue is queue}
        acks = queue.acks
        for message in messages:
            offset = message.queue_offset
            if offset not in known and not (acks is not None and acks.is_done(offset)):
                self._order.add(queue, self._key(message), message)
                self._bytes += message.size + _OVERHEAD
        self._tell(self._wanted)

    def take(self) -> Message | None:
        if self._batches:  # only errors are put there
            return super().take()
        self._wake()
        taken = self._order.take()
        if taken is None:
            return None
        queue, message = taken
        self._in_hands[message] = queue
        self._freed([message])
        return message

    async def wait(self) -> bool:
        while not self._ended:
            self._wake()
            if self._order.has_ready:
                return True
            if self._batches or self._broken is not None or self._finished:
                return await super().wait()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wanted.append(waiter)
            await waiter
        return False

    def _wake(self) -> None:
        """Let those be taken that are due, and see to it that somebody is told when the next one is."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        loop = asyncio.get_running_loop()
        due = self._order.wake(loop.time())
        if due is not None:
            self._waking = loop.call_at(due, self._tell, self._wanted)

    def settled(self, queue: QueueReader, message: Message) -> None:
        """A message is done with: the next one of its key may come."""
        self._in_hands.pop(message, None)
        self._order.settled(queue, self._key(message), message)
        self._more(queue)

    def try_again(self, queue: QueueReader, message: Message, again: Message, delay: float) -> None:
        """A message is to be tried again in so many seconds; its key waits for it."""
        if self._in_hands.pop(message, None) is None:
            return  # its queue is another's by now
        self._bytes += message.size + _OVERHEAD
        self._order.failed(queue, self._key(message), message, again, asyncio.get_running_loop().time() + delay)
        self._tell(self._wanted)

    def drop(self, queue: QueueReader) -> int | None:
        dropped = self._order.drop(queue, self._in_hands.__contains__)
        self._freed(dropped)
        self._more(queue)
        return min((message.queue_offset for message in dropped), default=None)

    def forget(self, queue: QueueReader) -> None:
        """A queue is another's by now: nothing of it is tried here again."""
        self._freed([message for message in self._order.drop(queue) if message not in self._in_hands])
        self._in_hands = {message: its_queue for message, its_queue in self._in_hands.items() if its_queue is not queue}
        self._more(queue)

    def _freed(self, messages: list[Message]) -> None:
        self._bytes -= sum(message.size + _OVERHEAD for message in messages)
        self._tell(self._room)

    def _more(self, queue: QueueReader) -> None:
        if self._order.has_ready:
            self._tell(self._wanted)
        waiter = self._full.get(queue)
        if waiter is not None and not waiter.done() and not self._order.is_full(queue):
            waiter.set_result(None)

    async def wait_for_room(self, queue: QueueReader | None = None) -> None:
        await super().wait_for_room()
        while queue is not None and self._order.is_full(queue):
            self._full[queue] = asyncio.get_running_loop().create_future()
            try:
                await self._full[queue]
            finally:
                del self._full[queue]

    def end(self) -> None:
        super().end()
        if self._waking is not None:
            self._waking.cancel()


class OrderedConsumer(Consumer):
    """``async for message in consumer:`` gives one message of a key at a time, in their order; each comes until it is settled for good."""

    at_once = 1  # the next one of a key comes when this one is settled
    reader_type = OrderedReader

    def __init__(self, *arguments: Any, max_held: int = MAX_HELD, **options: Any) -> None:
        """As a ``Consumer``; ``max_held`` messages of a queue may wait behind others of their key."""
        if not isinstance(max_held, int) or max_held < 1:
            raise InvalidArgumentError(f"max_held={max_held!r}: choose 1 or more")
        super().__init__(*arguments, **options)
        self._inbox = self._ordered = OrderedInbox(self._config.prefetch_bytes, max_held)

    def _new_reader(self, queue: QueueFact, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        if isinstance(reader, OrderedReader):
            reader.inbox = self._ordered
        return reader

    def _drop(self, reader: QueueReader) -> None:
        super()._drop(reader)
        self._ordered.forget(reader)
