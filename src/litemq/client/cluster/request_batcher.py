"""Request batching: items for one destination share a request in each tick, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.errors import BrokerError, ClientClosedError, LiteMQError, OverloadedError, SendOutcomeUnknownError

__all__ = ["RequestBatcher"]

Destination = TypeVar("Destination")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class _OpenBatch(Generic[Item, Outcome]):
    """A request that still takes items."""

    __slots__ = ("items", "size", "waiters")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.waiters: list[asyncio.Future[Outcome]] = []
        self.size = 0


class RequestBatcher(Generic[Destination, Item, Outcome]):
    """Batches of items by destination, up to ``max_items`` and ``max_bytes`` each.

    Items must be idempotent: a request whose answer is lost is sent again.
    """

    def __init__(
        self,
        config: ClientConfig,
        ask: Callable[[Destination, list[Item]], Awaitable[list[Outcome | LiteMQError]]],
        max_items: int,
        max_bytes: int,
    ) -> None:
        """``ask`` sends the items of a request to a destination, and returns their outcomes."""
        self._config = config
        self._ask = ask
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._open: dict[Destination, _OpenBatch[Item, Outcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def add(self, destination: Destination, item: Item, size: int = 0) -> asyncio.Future[Outcome]:
        """Add an item of ``size`` bytes to this tick's request; the future is its outcome."""
        waiter: asyncio.Future[Outcome] = self._loop.create_future()
        if self._closed:
            waiter.set_exception(ClientClosedError("the client is closed"))
            return waiter
        batch = self._open.get(destination)
        if batch is not None and (len(batch.items) >= self._max_items or batch.size + size > self._max_bytes):
            self._send(destination)
            batch = None
        if batch is None:
            if not self._open:
                self._loop.call_soon(self._send_all)
            batch = self._open[destination] = _OpenBatch()
        batch.items.append(item)
        batch.waiters.append(waiter)
        batch.size += size
        return waiter

    def _send_all(self) -> None:
        for destination in list(self._open):
            self._send(destination)

    def _send(self, destination: Destination) -> None:
        batch = self._open.pop(destination)
        task = self._loop.create_task(self._deliver(destination, batch.items, batch.waiters))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(
        self, destination: Destination, items: list[Item], waiters: list[asyncio.Future[Outcome]]
    ) -> None:
        try:
            outcomes = await self._ask_until_answered(destination, items)
        except LiteMQError as error:
            outcomes = [error] * len(items)
        except asyncio.CancelledError:
            closed = SendOutcomeUnknownError("the client was closed before the broker had answered")
            outcomes = [closed] * len(items)
        for waiter, outcome in zip(waiters, outcomes, strict=True):
            if waiter.done():
                continue
            if isinstance(outcome, LiteMQError):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)

    async def _ask_until_answered(self, destination: Destination, items: list[Item]) -> list[Outcome | LiteMQError]:
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        in_doubt = False
        while True:
            try:
                return await self._ask(destination, items)
            except LiteMQError as error:
                in_doubt = in_doubt or not isinstance(error, BrokerError)  # a broker error means: nothing was changed
                if not error.retriable:
                    raise
                if self._loop.time() >= until:
                    if in_doubt:
                        raise SendOutcomeUnknownError(
                            f"no answer for {self._config.delivery_timeout_ms} ms (delivery_timeout_ms): {error}"
                        ) from error
                    raise
                await asyncio.sleep(
                    backoff.next_delay(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
                )

    async def close(self, within: float) -> None:
        """Wait up to ``within`` seconds for answers; the outcome of all other items is unknown."""
        self._send_all()
        self._closed = True
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=within)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
