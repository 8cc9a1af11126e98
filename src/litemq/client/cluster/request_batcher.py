"""Requests that travel together: what one turn of the event loop brings for one place is one request, sent again until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.errors import ClientClosedError, LiteMQError, OverloadedError, SendOutcomeUnknownError

__all__ = ["Gathering"]

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class _Growing(Generic[I, R]):
    """A request that others may still join."""

    __slots__ = ("items", "size", "waiters")

    def __init__(self) -> None:
        self.items: list[I] = []
        self.waiters: list[asyncio.Future[R]] = []
        self.size = 0


class Gathering(Generic[P, I, R]):
    """Items by their places, at most so many in a request. Only for what may be said twice: a request whose answer is lost is repeated."""

    def __init__(
        self,
        config: ClientConfig,
        ask: Callable[[P, list[I]], Awaitable[list[R | LiteMQError]]],
        most_items: int,
        most_bytes: int,
    ) -> None:
        """``ask`` makes one request of items for a place, and says what became of each."""
        self._config = config
        self._ask = ask
        self._most_items = most_items
        self._most_bytes = most_bytes
        self._loop = asyncio.get_running_loop()
        self._growing: dict[P, _Growing[I, R]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def add(self, place: P, item: I, size: int = 0) -> asyncio.Future[R]:
        """Have an item of so many bytes travel with the others of this turn; the future is what became of it."""
        waiter: asyncio.Future[R] = self._loop.create_future()
        if self._closed:
            waiter.set_exception(ClientClosedError("the client is closed"))
            return waiter
        growing = self._growing.get(place)
        if growing is not None and (len(growing.items) >= self._most_items or growing.size + size > self._most_bytes):
            self._send(place)
            growing = None
        if growing is None:
            if not self._growing:
                self._loop.call_soon(self._send_all)
            growing = self._growing[place] = _Growing()
        growing.items.append(item)
        growing.waiters.append(waiter)
        growing.size += size
        return waiter

    def _send_all(self) -> None:
        for place in list(self._growing):
            self._send(place)

    def _send(self, place: P) -> None:
        growing = self._growing.pop(place)
        task = self._loop.create_task(self._deliver(place, growing.items, growing.waiters))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, place: P, items: list[I], waiters: list[asyncio.Future[R]]) -> None:
        try:
            outcomes = await self._repeat(place, items)
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

    async def _repeat(self, place: P, items: list[I]) -> list[R | LiteMQError]:
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        in_doubt = False
        while True:
            try:
                return await self._ask(place, items)
            except LiteMQError as error:
                in_doubt = in_doubt or not isinstance(error, OverloadedError)
                if not error.retriable:
                    raise
                if self._loop.time() >= until:
                    if in_doubt:
                        raise SendOutcomeUnknownError(
                            f"no answer for {self._config.delivery_timeout_ms} ms (delivery_timeout_ms): {error}"
                        ) from error
                    raise
                await asyncio.sleep(backoff.next(error.retry_after_ms if isinstance(error, OverloadedError) else 0))

    async def close(self, within: float) -> None:
        """Wait for what is on its way, and tell the rest that nobody knows."""
        self._send_all()
        self._closed = True
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=within)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
