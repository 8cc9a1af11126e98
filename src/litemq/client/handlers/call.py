"""One call of a handler: through the layers, on a thread where it is no coroutine, and within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from litemq.client.extensions.middleware import Middleware, around_batches, around_messages
from litemq.client.handlers.subscription import Subscription
from litemq.client.handlers.threads import HandlerThreads
from litemq.client.messages.message import Message
from litemq.client.settling.run_limits import time_limit_of
from litemq.errors import HandlerTimeoutError

__all__ = ["HandlerCalls"]

# For a handler that is cancelled to tidy up.
_GRACE_S: Final = 5.0


class HandlerCalls:
    """Calls one handler, again and again. ``stuck`` counts its calls that overran their limit and cannot be stopped."""

    def __init__(self, subscription: Subscription, layers: Sequence[Middleware], threads: HandlerThreads) -> None:
        self._limit = subscription.time_limit
        self._name = subscription.name
        self._left: set[asyncio.Task[None]] = set()
        handler = subscription.handler
        call: Callable[[Any], Awaitable[Any]]
        if subscription.is_async:
            call = handler  # type: ignore[assignment]
        else:

            async def call(given: Any) -> None:
                await threads.run(partial(handler, given))

        self._one = around_messages(layers, call) if subscription.batch is None else None
        self._many = around_batches(layers, call)

    @property
    def stuck(self) -> int:
        """Of those that are coroutines; the threads count their own."""
        return len(self._left)

    async def __call__(self, messages: list[Message]) -> None:
        """Wait until the handler has returned. Raises what it raises, or that it took too long."""
        work = self._many(messages) if self._one is None else self._one(messages[0])
        loop = asyncio.get_running_loop()
        limit = time_limit_of([message.properties for message in messages], self._limit)
        task: asyncio.Task[None] = loop.create_task(_awaited(work), name=f"litemq: {self._name}")
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if done:
                if task.cancelled():
                    raise RuntimeError(f"{self._name} cancelled itself: raise another error, or return")
                return task.result()
            await self._end(task)
        except asyncio.CancelledError:
            if not task.done():
                await self._end(task)
            raise
        error = HandlerTimeoutError(f"{self._name} ran longer than its time limit of {limit:g} s: make it quicker, or raise time_limit")
        raise error from (None if not task.done() or task.cancelled() else task.exception())

    async def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel it; one that does not listen is left behind."""
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_GRACE_S)
        if not done:
            self._left.add(task)
            task.add_done_callback(self._came_back)

    def _came_back(self, task: asyncio.Task[None]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks


async def _awaited(work: Awaitable[Any]) -> None:
    await work
