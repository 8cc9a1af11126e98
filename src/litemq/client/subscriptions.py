"""Handlers that are called with each message, until a signal or an error ends it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from litemq.client.consumer import Consumer
from litemq.client.messages import Message

__all__ = ["Handler", "Subscription", "run_subscriptions"]

Handler = Callable[[Message], object]


class Subscription(NamedTuple):
    """A function, and the messages that it is called with."""

    topic: str
    group_id: str
    handler: Handler


class _NewConsumer(Protocol):
    def __call__(self, topic: str, *, group_id: str) -> Consumer: ...


async def run_subscriptions(new_consumer: _NewConsumer, subscriptions: Sequence[Subscription], shutdown_timeout: float) -> None:
    """Call all handlers side by side. The first signal lets those that run finish, within the time; the second ends them."""
    consumers = [new_consumer(each.topic, group_id=each.group_id) for each in subscriptions]
    tasks = [
        asyncio.get_running_loop().create_task(_handle(consumer, each.handler), name=f"litemq handles {each.topic}")
        for consumer, each in zip(consumers, subscriptions, strict=True)
    ]
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            for task in tasks:
                task.cancel()
        stopping.set()
        for consumer in consumers:
            consumer.stop()

    try:
        with _signals(stop):
            stopped = asyncio.get_running_loop().create_task(stopping.wait())
            done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if stopped in done and (running := [task for task in tasks if not task.done()]):
                await asyncio.wait(running, timeout=shutdown_timeout)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(consumer.close() for consumer in consumers), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _handle(consumer: Consumer, handler: Handler) -> None:
    async for message in consumer:
        async with message.process():
            if inspect.iscoroutinefunction(handler):
                await handler(message)
            else:
                await asyncio.to_thread(handler, message)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` for SIGINT and SIGTERM, where this thread may do so."""
    loop = asyncio.get_running_loop()
    taken = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
