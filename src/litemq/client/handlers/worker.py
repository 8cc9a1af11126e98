"""The worker: runs all handlers of a client until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from litemq.client.consuming.consumer import Consumer
from litemq.client.extensions.middleware import Middleware
from litemq.client.extensions.plugins import Plugins
from litemq.client.handlers.call import HandlerCalls
from litemq.client.handlers.runner import Runner
from litemq.client.handlers.subscription import Subscription
from litemq.client.handlers.threads import HandlerThreads
from litemq.errors import HandlerStuckError

__all__ = ["Worker"]

_LOG = logging.getLogger(__name__)
# Each stuck call holds a thread and its memory.
_MAX_STUCK: Final = 16


class Worker:
    """Runs once. The first ``stop`` lets running calls finish, the second one cancels them."""

    def __init__(
        self,
        consume: Callable[[Subscription, int], Consumer],
        subscriptions: Sequence[Subscription],
        layers: Sequence[Middleware],
        plugins: Plugins,
        *,
        concurrency: int | None,
        shutdown_timeout: float,
        recycle_after: int | None,
        prepare: Callable[[], Coroutine[Any, Any, None]],
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """``prepare`` is awaited before the first message is taken; then ``on_ready`` is called."""
        self._consume = consume
        self._subscriptions = tuple(subscriptions)
        self._layers = tuple(layers)
        self._plugins = plugins
        self._concurrency = concurrency
        self._shutdown_timeout = shutdown_timeout
        self._recycle_after = _MAX_STUCK if recycle_after is None else recycle_after
        self._prepare = prepare
        self._on_ready = on_ready
        self._threads = HandlerThreads()
        self._runners: list[Runner] = []
        self._stopping = asyncio.Event()
        self._draining: asyncio.Timeout | None = None
        self._is_worn = False

    def stop(self) -> None:
        """Take no more messages and let running calls finish; the second time, cancel them."""
        if self._stopping.is_set():
            _LOG.warning("stopping now: unfinished messages are returned")
            self._shutdown_timeout = 0.0
            if self._draining is not None:
                self._draining.reschedule(0)
        else:
            _LOG.info("stopping: running calls have %g s to finish", self._shutdown_timeout)
        self._stop_taking()

    def _stop_taking(self) -> None:
        self._stopping.set()
        for runner in self._runners:
            runner.stop()

    async def run(self) -> None:
        """Run the handlers until ``stop``.

        Raises:
            HandlerStuckError: Too many calls exceeded their time limit and cannot be cancelled.
            LiteMQError: A consumer failed.
        """
        consumers: list[Consumer] = []
        tasks: list[asyncio.Task[None]] = []
        if not await self._is_prepared():
            return
        try:
            for each in self._subscriptions:
                concurrency = each.concurrency or self._concurrency or each.default_concurrency
                consumers.append(self._consume(each, concurrency))
                calls = HandlerCalls(each, self._layers, self._threads)
                self._runners.append(
                    Runner(
                        each,
                        consumers[-1],
                        calls,
                        self._plugins,
                        concurrency=concurrency,
                        on_call_end=self._check_stuck,
                    )
                )
            tasks += [asyncio.create_task(runner.run()) for runner in self._runners]
            if self._on_ready is not None:
                self._on_ready()
            await self._until_stopped(tasks)
            await self._drain(tasks)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            self._threads.close()
            await asyncio.gather(*(consumer.close() for consumer in consumers), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        if self._is_worn:
            raise HandlerStuckError(
                "calls exceeded their time limit and cannot be stopped: replace this process, as `litemq worker` does"
            )

    async def _is_prepared(self) -> bool:
        """Prepare; return ``False`` if ``stop`` came first, as it may while no broker answers."""
        preparing = asyncio.create_task(self._prepare())
        try:
            await self._until_stopped([preparing])
            if preparing.done():
                preparing.result()
            return not self._stopping.is_set()
        finally:
            preparing.cancel()
            await asyncio.wait([preparing])

    async def _until_stopped(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for ``stop``, or for the end of one runner."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        for runner in self._runners:
            runner.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._shutdown_timeout) as self._draining:
                await asyncio.wait(tasks)
                return
        _LOG.warning("handlers did not end in time: their messages are returned")

    def _check_stuck(self) -> None:
        stuck = self._threads.stuck + sum(runner.stuck for runner in self._runners)
        if stuck >= self._recycle_after and not self._is_worn:
            if self._stopping.is_set():
                _LOG.warning("calls that cannot be stopped end with the process: %d", stuck)
            else:
                _LOG.error("calls exceeded their time limit and cannot be stopped: %d; replace this process", stuck)
            self._is_worn = True
            self._stop_taking()
