"""The event loop of a synchronous client, on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from litemq.errors import ClientClosedError, ClientError
from litemq.net.event_loop import new_event_loop

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, and background work in between."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Start the thread; do nothing if it runs."""
        if self._loop is None:
            self._process = os.getpid()
            self._loop = new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="litemq client", daemon=True)
            self._thread.start()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        if os.getpid() != self._process:
            raise ClientClosedError(
                "this process was forked after the client was opened: open another client after the fork"
            )
        if self._loop is None:
            raise ClientClosedError('the client is not open: use it inside `with litemq.Client("…") as mq:`')
        if self._thread is threading.current_thread():
            raise ClientError(
                "a synchronous client cannot be called from its own event loop: use litemq.AsyncClient there"
            )
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end and return its result. Ctrl-C cancels it.

        Raises:
            ClientClosedError: The client is not open, or was opened before a fork.
            ClientError: The caller is on the event loop's own thread.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._running())
        except ClientError:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                concurrent.futures.wait([future], timeout=5)
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the event loop's thread and return its result."""

        async def work() -> T:
            return function()

        return self.run(work())

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call ``function`` on the event loop's thread without waiting. Safe in signal handlers."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def submit(self, function: Callable[[], asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Call ``function`` and return its future. Errors of the call itself are raised here."""
        waiter = self.call(function)

        async def work() -> T:
            return await waiter

        return asyncio.run_coroutine_threadsafe(work(), self._running())

    def stop(self) -> None:
        """End the thread. In a forked process there is none."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None and os.getpid() == self._process:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout=10)
