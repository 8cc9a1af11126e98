"""Middleware: layers around sends and handlers. The layer added first is the outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt

__all__ = ["Consume", "ConsumeBatch", "Middleware", "Publish", "wrap_consume", "wrap_consume_batch", "wrap_publish"]

Publish = Callable[[str, OutgoingMessage], Awaitable[SendReceipt]]
Consume = Callable[[Message], Awaitable[None]]
ConsumeBatch = Callable[[Sequence[Message]], Awaitable[None]]


class Middleware:
    """One layer. Override the methods you need; the others cost nothing.

    A method awaits ``call_next`` with its own or other arguments. It may inspect the result, catch
    exceptions, or not call it at all. Around a handler, a return means success, and an exception
    means a failed attempt.
    """

    async def publish(self, topic: str, message: OutgoingMessage, call_next: Publish) -> SendReceipt:
        """Wrap the sending of one message."""
        return await call_next(topic, message)

    async def consume(self, message: Message, call_next: Consume) -> None:
        """Wrap the call of a handler with one message."""
        await call_next(message)

    async def consume_batch(self, messages: Sequence[Message], call_next: ConsumeBatch) -> None:
        """Wrap the call of a batch handler."""
        await call_next(messages)


def wrap_publish(layers: Sequence[Middleware], innermost: Publish) -> Publish:
    """Wrap ``innermost`` in the ``publish`` methods of ``layers``."""
    call = innermost
    for layer in _overriding(layers, "publish"):
        call = partial(layer.publish, call_next=call)
    return call


def wrap_consume(layers: Sequence[Middleware], innermost: Consume) -> Consume:
    """Wrap ``innermost`` in the ``consume`` methods of ``layers``."""
    call = innermost
    for layer in _overriding(layers, "consume"):
        call = partial(layer.consume, call_next=call)
    return call


def wrap_consume_batch(layers: Sequence[Middleware], innermost: ConsumeBatch) -> ConsumeBatch:
    """Wrap ``innermost`` in the ``consume_batch`` methods of ``layers``."""
    call = innermost
    for layer in _overriding(layers, "consume_batch"):
        call = partial(layer.consume_batch, call_next=call)
    return call


def _overriding(layers: Sequence[Middleware], method: str) -> Iterable[Middleware]:
    """Return the layers that override ``method``, the innermost first."""
    return [layer for layer in reversed(layers) if getattr(type(layer), method) is not getattr(Middleware, method)]
