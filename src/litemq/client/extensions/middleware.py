"""Layers around everything that a client sends and handles: an onion, of which the layer that was added first is the outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt

__all__ = ["Consume", "ConsumeBatch", "Middleware", "Publish", "around_batches", "around_messages", "around_sending"]

Publish = Callable[[str, OutgoingMessage], Awaitable[SendReceipt]]
Consume = Callable[[Message], Awaitable[None]]
ConsumeBatch = Callable[[Sequence[Message]], Awaitable[None]]


class Middleware:
    """One layer: override what it is for. What is not overridden costs nothing.

    A layer goes on by awaiting ``call_next``, with what it was given or with something else; it may look at what comes back, catch what is
    raised, or not go on at all. Around a handler, returning means that the message is done, raising that its try failed.
    """

    async def publish(self, topic: str, message: OutgoingMessage, call_next: Publish) -> SendReceipt:
        """Around one message that is sent."""
        return await call_next(topic, message)

    async def consume(self, message: Message, call_next: Consume) -> None:
        """Around a handler's call with one message."""
        await call_next(message)

    async def consume_batch(self, messages: Sequence[Message], call_next: ConsumeBatch) -> None:
        """Around a batch handler's call."""
        await call_next(messages)


def around_sending(layers: Sequence[Middleware], innermost: Publish) -> Publish:
    """What a message that is sent goes through."""
    call = innermost
    for layer in _those_with(layers, "publish"):
        call = partial(layer.publish, call_next=call)
    return call


def around_messages(layers: Sequence[Middleware], innermost: Consume) -> Consume:
    """What a message that is handled goes through."""
    call = innermost
    for layer in _those_with(layers, "consume"):
        call = partial(layer.consume, call_next=call)
    return call


def around_batches(layers: Sequence[Middleware], innermost: ConsumeBatch) -> ConsumeBatch:
    """What a batch that is handled goes through."""
    call = innermost
    for layer in _those_with(layers, "consume_batch"):
        call = partial(layer.consume_batch, call_next=call)
    return call


def _those_with(layers: Sequence[Middleware], method: str) -> Iterable[Middleware]:
    """The layers that do something there, the innermost first."""
    return [layer for layer in reversed(layers) if getattr(type(layer), method) is not getattr(Middleware, method)]
