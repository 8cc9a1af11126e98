"""One call of a handler: through the middleware, on a thread or the loop, within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from litemq.client.extensions.middleware import Middleware, wrap_consume, wrap_consume_batch
from litemq.client.handlers.subscription import Subscription
from litemq.client.handlers.threads import HandlerThreads
from litemq.client.messages.message import Message
from litemq.client.settling.run_limits import time_limit_for
from litemq.errors import HandlerTimeoutError

__all__ = ["HandlerCalls"]

# Time for a cancelled handler to clean up.
_GRACE_S: Final = 5.0


class HandlerCalls:
    """Calls one handler.

    ``stuck`` counts coroutines that exceeded their limit and ignore cancellation.
    """

    def __init__(self, subscription: Subscription, layers: Sequence[Middleware], threads: HandlerThreads) -> None:
        self._limit = subscription.time_limit
        self._name = subscription.name
        self._abandoned: set[asyncio.Task[None]] = set()
        handler = subscription.handler
        call: Callable[[Any], Awaitable[Any]]
        if subscription.is_async:
            call = handler  # type: ignore[assignment]
        else:

            async def call(given: Any) -> None:
                await threads.run(partial(handler, given))

        self._one = wrap_consume(layers, call) if subscription.batch is None else None
        self._many = wrap_consume_batch(layers, call)

    @property
    def stuck(self) -> int:
        """Coroutine calls that cannot be cancelled. ``HandlerThreads`` counts those on threads."""
        return len(self._abandoned)

    async def __call__(self, messages: list[Message]) -> None:
        """Call the handler with ``messages`` and wait for it.

        Raises:
            HandlerTimeoutError: The call exceeded its time limit.
            Exception: Any error of the handler.
        """
        work = self._many(messages) if self._one is None else self._one(messages[0])
        loop = asyncio.get_running_loop()
        limit = time_limit_for([message.properties for message in messages], self._limit)
        task: asyncio.Task[None] = loop.create_task(_awaited(work), name=f"litemq: {self._name}")
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if done:
                if task.cancelled():
                    raise RuntimeError(f"{self._name} raised CancelledError: raise another error, or return")
                return task.result()
            await self._end(task)
        except asyncio.CancelledError:
            if not task.done():
                await self._end(task)
            raise
        error = HandlerTimeoutError(
            f"{self._name} exceeded its time limit of {limit:g} s: speed it up, or raise time_limit"
        )
        raise error from (None if not task.done() or task.cancelled() else task.exception())

    async def _end(self, task: asyncio.Task[None]) -> None:
        """Cancel ``task``; abandon it if it does not end in time."""
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_GRACE_S)
        if not done:
            self._abandoned.add(task)
            task.add_done_callback(self._on_abandoned_end)

    def _on_abandoned_end(self, task: asyncio.Task[None]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved


async def _awaited(work: Awaitable[Any]) -> None:
    await work
