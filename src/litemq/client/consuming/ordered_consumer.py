"""Ordered consumers: they keep the order of each key, also if handlers fail or run concurrently.

A message is delivered after the previous one of its key is settled. A failed message stays in
memory and is retried before all others of its key; other keys continue. A message that failed for
good becomes a dead letter.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.inbox import Inbox
from litemq.client.consuming.key_order import KeyOrder
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import QueueInfo
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import Settlements, delivery_position
from litemq.errors import InvalidArgumentError
from litemq.format.messages import MessageFields

__all__ = ["MAX_HELD", "OrderedConsumer", "OrderedInbox", "OrderedReader", "settled_locally"]

MAX_HELD: Final = 1000  # messages of a queue that wait for others of their key before fetching stops
_OVERHEAD: Final = 256  # approximate bytes of a message besides its body
_RETRY_SECONDS: Final = 1.0  # if the broker could not store a dead letter


class OrderedReader(QueueReader):
    """One queue, whose failed messages are retried in their position."""

    __slots__ = ("inbox",)

    inbox: OrderedInbox

    def ack(self, message: Message) -> None:
        super().ack(message)
        self.inbox.settled(self, message)

    def ack_run(self, offset: int, count: int) -> bool:  # noqa: ARG002
        """Return ``False``: each one lets the next of its key go."""
        return False

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        if failure.is_final or message.attempt > failure.max_retries:
            return self.dead_letter(message, fields, failure)
        self.inbox.try_again(self, message, Message(fields, self, message.attempt + 1), failure.delay)
        return settled_locally()

    def dead_letter(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """Have the broker dead-letter ``message``, which has no retry left."""
        settlements = super().fail(message, fields, failure)
        settlements.outcome(delivery_position(fields)).add_done_callback(
            lambda outcome: self._on_dead_lettered(message, fields, outcome)
        )
        return settlements

    def _on_dead_lettered(self, message: Message, fields: MessageFields, outcome: asyncio.Future[None]) -> None:
        """Settle ``message``, or retry it if the broker could not store the dead letter."""
        if outcome.cancelled() or outcome.exception() is not None:
            self.inbox.try_again(self, message, Message(fields, self, message.attempt), _RETRY_SECONDS)
        else:
            self.inbox.settled(self, message)

    def release(self, message: Message, fields: MessageFields) -> bool:
        """It was not tried to the end: it is the next of its key again."""
        self.inbox.try_again(self, message, Message(fields, self, message.attempt), 0.0)
        return True


def settled_locally() -> Settlements:
    """Return settlements that need no broker."""
    settlements = Settlements()
    settlements.answered([])
    return settlements


class OrderedInbox(Inbox):
    """Fetched messages by queue and ordering key; without ``by_key``, each message by itself."""

    def __init__(self, max_bytes: int, max_held: int, *, by_key: bool = True) -> None:
        super().__init__(max_bytes)
        self._by_key = by_key
        self._order: KeyOrder[QueueReader, Message] = KeyOrder(max_held)
        self._delivered: dict[Message, QueueReader] = {}
        self._full: dict[QueueReader, asyncio.Future[None]] = {}
        self._waking: asyncio.TimerHandle | None = None

    def _key(self, message: Message) -> str:
        return message.ordering_key if self._by_key else str(message.queue_offset)

    def put(self, messages: list[Message], size: int, queue: QueueReader) -> None:  # noqa: ARG002
        known = {message.queue_offset for message, its_queue in self._delivered.items() if its_queue is queue}
        acks = queue.acks
        for message in messages:
            offset = message.queue_offset
            if offset not in known and not (acks is not None and acks.is_done(offset)):
                self._order.add(queue, self._key(message), message)
                self._bytes += message.size + _OVERHEAD
        self._wake_one(self._message_waiters)

    def take(self) -> Message | None:
        if self._batches:  # holds errors only
            return super().take()
        self._wake()
        taken = self._order.take()
        if taken is None:
            return None
        queue, message = taken
        self._delivered[message] = queue
        self._release_bytes([message])
        return message

    async def wait(self) -> bool:
        while not self._ended:
            self._wake()
            if self._order.has_ready:
                return True
            if self._batches or self._broken is not None or self._finished:
                return await super().wait()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._message_waiters.append(waiter)
            await waiter
        return False

    def _wake(self) -> None:
        """Free the messages that are due, and schedule a wake-up for the next one."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        loop = asyncio.get_running_loop()
        due = self._order.wake(loop.time())
        if due is not None:
            self._waking = loop.call_at(due, self._wake_one, self._message_waiters)

    def settled(self, queue: QueueReader, message: Message) -> None:
        """Remove a settled message, and free the next one of its key."""
        self._delivered.pop(message, None)
        self._order.settled(queue, self._key(message), message)
        self._wake_waiters(queue)

    def try_again(self, queue: QueueReader, message: Message, again: Message, delay: float) -> None:
        """Deliver ``message`` again, as ``again``, after ``delay`` seconds. Its key waits."""
        if self._delivered.pop(message, None) is None:
            return  # its queue has another owner
        self._bytes += message.size + _OVERHEAD
        self._order.failed(queue, self._key(message), message, again, asyncio.get_running_loop().time() + delay)
        self._wake_one(self._message_waiters)

    def drop(self, queue: QueueReader) -> int | None:
        dropped = self._order.drop(queue, self._delivered.__contains__)
        self._release_bytes(dropped)
        self._wake_waiters(queue)
        return min((message.queue_offset for message in dropped), default=None)

    def forget(self, queue: QueueReader) -> None:
        """Remove all messages of ``queue``, which has another owner now."""
        self._release_bytes([message for message in self._order.drop(queue) if message not in self._delivered])
        self._delivered = {
            message: its_queue for message, its_queue in self._delivered.items() if its_queue is not queue
        }
        self._wake_waiters(queue)

    def _release_bytes(self, messages: list[Message]) -> None:
        self._bytes -= sum(message.size + _OVERHEAD for message in messages)
        self._wake_one(self._space_waiters)

    def _wake_waiters(self, queue: QueueReader) -> None:
        if self._order.has_ready:
            self._wake_one(self._message_waiters)
        waiter = self._full.get(queue)
        if waiter is not None and not waiter.done() and not self._order.is_full(queue):
            waiter.set_result(None)

    async def wait_for_space(self, queue: QueueReader | None = None) -> None:
        await super().wait_for_space()
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
    """Iterates over messages, one of each ordering key at a time, in order.

    A failed message is delivered again until it is settled for good.
    """

    at_once = 1  # the next message of a key follows when this one is settled
    reader_type = OrderedReader

    def __init__(self, *arguments: Any, max_held: int = MAX_HELD, **options: Any) -> None:
        """As ``Consumer``; at most ``max_held`` messages of a queue wait for their key."""
        if not isinstance(max_held, int) or max_held < 1:
            raise InvalidArgumentError(f"max_held={max_held!r}: choose 1 or more")
        super().__init__(*arguments, **options)
        self._inbox = self._ordered = OrderedInbox(self._config.prefetch_bytes, max_held)

    def _new_reader(self, queue: QueueInfo, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        if isinstance(reader, OrderedReader):
            reader.inbox = self._ordered
        return reader

    def _drop(self, reader: QueueReader) -> None:
        super()._drop(reader)
        self._ordered.forget(reader)
