"""Handlers and tasks of the synchronous client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from litemq.client.async_client import AsyncClient
from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.client.extensions.middleware import Middleware
from litemq.client.extensions.plugins import Plugin
from litemq.client.handlers.signals import on_signals
from litemq.client.handlers.subscription import HandlerOptions, Subscription
from litemq.client.messages.message import Message
from litemq.client.sync.loop_thread import LoopThread
from litemq.client.sync.messages import SyncMessage
from litemq.client.sync.tasks import Task
from litemq.errors import InvalidArgumentError

__all__ = ["SyncApp"]

P = ParamSpec("P")
R = TypeVar("R")
SyncHandlerT = TypeVar("SyncHandlerT", bound=Callable[[SyncMessage], object])
SyncBatchHandlerT = TypeVar("SyncBatchHandlerT", bound=Callable[[list[SyncMessage]], object])

_WORKERS = "workers"


class SyncApp:
    """The same part of ``Client``. Handlers run on threads, and may call the client."""

    _wrapped: AsyncClient
    _thread: LoopThread

    def _wrap(self, message: Message) -> SyncMessage:
        raise NotImplementedError

    @overload
    def subscriber(self, topic: str, *, group_id: str, **options: Unpack[HandlerOptions]) -> Callable[[SyncHandlerT], SyncHandlerT]: ...

    @overload
    def subscriber(
        self, topic: str, *, group_id: str, batch: int, batch_wait: float | timedelta = ..., **options: Unpack[HandlerOptions]
    ) -> Callable[[SyncBatchHandlerT], SyncBatchHandlerT]: ...

    def subscriber(
        self,
        topic: str,
        *,
        group_id: str,
        batch: int | None = None,
        batch_wait: float | timedelta = 0.0,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Any], Any]:
        """``@mq.subscriber("orders", group_id="billing")``: the function is called with each message once ``run`` is called.

        With ``batch=100`` it is called with a list of up to so many; ``batch_wait`` is how long the first may wait for the others.
        """
        more: Any = {} if batch is None else {"batch": batch, "batch_wait": batch_wait}
        subscribe = self._wrapped.subscriber(topic, group_id=group_id, **more, **options)

        def wrap(handler: Callable[[Any], object]) -> Callable[[Any], object]:
            _refuse_coroutine(handler)

            @functools.wraps(handler)
            def call(given: Any) -> object:
                return handler([self._wrap(each) for each in given] if isinstance(given, list) else self._wrap(given))

            subscribe(call)
            return handler

        return wrap

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, function: None = None, /, *, topic: str = ..., group_id: str = ..., **options: Unpack[HandlerOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, *, topic: str = "", group_id: str = _WORKERS, **options: Unpack[HandlerOptions]
    ) -> Any:
        """``@mq.task(max_retries=5)``: ``f.send(…)`` has a worker call the function, ``f(…)`` calls it here.

        Each task has a topic of its own, ``tasks-module.function`` unless another one is named.
        """
        declare = self._wrapped.task(topic=topic, group_id=group_id, **options)

        def wrap(function: Callable[..., Any]) -> Task[..., Any]:
            _refuse_coroutine(function)
            return Task(declare(function), self._thread)

        return wrap if function is None else wrap(function)

    def periodic(
        self,
        *,
        cron: str = "",
        every: float | timedelta | None = None,
        timezone: str = "",
        job_id: str = "",
        overlap: OverlapRule = "allow",
        catch_up: CatchUpRule = "one",
        catch_up_window: float | timedelta = 86_400,
        topic: str = "",
        group_id: str = _WORKERS,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Callable[[], R]], Task[[], R]]:
        """``@mq.periodic(cron="0 */5 * * * *", timezone="Asia/Shanghai")``: a worker calls the function at these times, once each.

        It is a task like those of ``@mq.task``, and a job sends its calls, which ``run`` creates, or changes to what is said here.
        """
        when: Any = {"cron": cron, "every": every, "timezone": timezone, "job_id": job_id}
        rules: Any = {"overlap": overlap, "catch_up": catch_up, "catch_up_window": catch_up_window}
        declare = self._wrapped.periodic(**when, **rules, topic=topic, group_id=group_id, **options)

        def wrap(function: Callable[[], R]) -> Task[[], R]:
            _refuse_coroutine(function)
            return Task(declare(function), self._thread)

        return wrap

    def add_middleware(self, middleware: Middleware) -> None:
        """Put another layer around what is sent and handled, inside of those that are there."""
        self._wrapped.add_middleware(middleware)

    def add_plugin(self, plugin: Plugin) -> None:
        """Tell a plug-in what happens. Those of installed packages are found by themselves."""
        self._wrapped.add_plugin(plugin)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The handlers that were declared, those of tasks among them."""
        return self._wrapped.subscriptions

    def run(self, *, concurrency: int | None = None, shutdown_timeout: float | None = None, recycle_after: int | None = None) -> None:
        """Call the handlers until SIGINT or SIGTERM comes.

        The first signal lets those that run finish within ``shutdown_timeout``, and gives back what is left; the second ends it at once.
        ``concurrency`` is for handlers that were declared without. After ``recycle_after`` calls that overran their time limit and could
        not be stopped, it ends with ``HandlerStuckError``: the process should be replaced, as ``litemq worker`` does.
        """
        worker = self._wrapped._worker(concurrency, shutdown_timeout, recycle_after)  # noqa: SLF001 (the other half of this client)
        with on_signals(lambda: self._thread.soon(worker.stop)):
            self._thread.run(worker.run())


def _refuse_coroutine(function: Callable[..., Any]) -> None:
    """It would run on the client's own loop, where the synchronous client cannot be called."""
    if inspect.iscoroutinefunction(function):
        raise InvalidArgumentError(f"{function.__name__}() is a coroutine: declare it on a litemq.AsyncClient, or write it without async")
