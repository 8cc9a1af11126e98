"""What a client runs: the handlers and tasks that are declared on it, the layers around them, and the plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from litemq.client.config import ClientConfig
from litemq.client.consuming.consumer import Consumer
from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.client.extensions.middleware import Middleware
from litemq.client.extensions.plugins import Plugin, Plugins
from litemq.client.handlers.periodic import PeriodicCall, default_job_id
from litemq.client.handlers.signals import on_signals
from litemq.client.handlers.subscription import HandlerOptions, Subscription, new_subscription
from litemq.client.handlers.tasks import AsyncTask, NotACallError, Sender, default_topic, task_handler
from litemq.client.handlers.worker import Worker
from litemq.client.jobs.jobs import Jobs
from litemq.client.messages.message import Message
from litemq.errors import InvalidArgumentError

__all__ = ["AsyncApp"]

P = ParamSpec("P")
R = TypeVar("R")
HandlerT = TypeVar("HandlerT", bound=Callable[[Message], object])
BatchHandlerT = TypeVar("BatchHandlerT", bound=Callable[[list[Message]], object])

_WORKERS = "workers"  # the group of those who make the calls of tasks


class _Host(Protocol):
    """The client that an app is part of."""

    config: ClientConfig
    send: Sender

    @property
    def jobs(self) -> Jobs: ...


class AsyncApp:
    """The part of ``AsyncClient`` that is declared with decorators, and run by ``run`` or by ``litemq worker``."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._layers: list[Middleware] = []
        self._plugins = Plugins()
        self._periodic: list[PeriodicCall] = []

    @property
    def _client(self) -> _Host:
        return cast("_Host", self)

    def _refresh_sending(self) -> None:
        """Apply a layer or a plug-in that was added to the messages sent from now on."""
        raise NotImplementedError

    def _consume(self, subscription: Subscription, concurrency: int) -> Consumer:
        """Open the consumer of a handler."""
        raise NotImplementedError

    # Declaring ----------------------------------------------------------------------------------------------------------------

    @overload
    def subscriber(self, topic: str, *, group_id: str, **options: Unpack[HandlerOptions]) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def subscriber(
        self, topic: str, *, group_id: str, batch: int, batch_wait: float | timedelta = ..., **options: Unpack[HandlerOptions]
    ) -> Callable[[BatchHandlerT], BatchHandlerT]: ...

    def subscriber(
        self,
        topic: str,
        *,
        group_id: str,
        batch: int | None = None,
        batch_wait: float | timedelta = 0.0,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Any], Any]:
        """``@mq.subscriber("orders", group_id="billing")``: the function is called with each message once ``run`` is awaited.

        With ``batch=100`` it is called with a list of up to so many; ``batch_wait`` is how long the first may wait for the others.
        """
        _check_new(self._subscriptions, topic, group_id)
        new_subscription(topic, group_id, _nothing, options, batch=batch, batch_wait=batch_wait)  # says what is wrong where it is said

        def subscribe(handler: Callable[[Any], object]) -> Callable[[Any], object]:
            self._subscriptions.append(new_subscription(topic, group_id, handler, options, batch=batch, batch_wait=batch_wait))
            return handler

        return subscribe

    @overload
    def task(self, function: Callable[P, R], /) -> AsyncTask[P, R]: ...

    @overload
    def task(
        self, function: None = None, /, *, topic: str = ..., group_id: str = ..., **options: Unpack[HandlerOptions]
    ) -> Callable[[Callable[P, R]], AsyncTask[P, R]]: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, *, topic: str = "", group_id: str = _WORKERS, **options: Unpack[HandlerOptions]
    ) -> Any:
        """``@mq.task(max_retries=5)``: ``await f.send(…)`` has a worker call the function, ``f(…)`` calls it here.

        Each task has a topic of its own, ``tasks-module.function`` unless another one is named.
        """

        def declare(function: Callable[..., Any]) -> AsyncTask[..., Any]:
            named = topic or default_topic(function)
            _check_new(self._subscriptions, named, group_id)
            throws = (*options.get("throws", ()), NotACallError)
            chosen: HandlerOptions = {"mode": "lease", **options, "throws": throws}
            self._subscriptions.append(new_subscription(named, group_id, task_handler(function), chosen))
            return AsyncTask(function, named, self._client.send)

        return declare if function is None else declare(function)

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
    ) -> Callable[[Callable[[], R]], AsyncTask[[], R]]:
        """``@mq.periodic(cron="0 */5 * * * *", timezone="Asia/Shanghai")``: a worker calls the function at these times, once each.

        It is a task like those of ``@mq.task``, and a job sends its calls, which ``run`` creates, or changes to what is said here.
        """

        def declare(function: Callable[[], R]) -> AsyncTask[[], R]:
            named = topic or default_topic(function)
            job = job_id or default_job_id(named)
            call = PeriodicCall(function, named, group_id, job, cron, every, timezone, overlap, catch_up, catch_up_window)
            call.check()
            task: AsyncTask[[], R] = self.task(topic=named, group_id=group_id, **options)(function)
            self._periodic.append(call)
            return task

        return declare

    def add_middleware(self, middleware: Middleware) -> None:
        """Put another layer around what is sent and handled, inside of those that are there."""
        self._layers.append(middleware)
        self._refresh_sending()

    def add_plugin(self, plugin: Plugin) -> None:
        """Tell a plug-in what happens. Those of installed packages are found by themselves."""
        self._plugins.add(plugin)
        self._refresh_sending()

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The handlers that were declared, those of tasks among them."""
        return tuple(self._subscriptions)

    # Running ------------------------------------------------------------------------------------------------------------------

    def _worker(self, concurrency: int | None, shutdown_timeout: float | None, recycle_after: int | None) -> Worker:
        if not self._subscriptions:
            raise InvalidArgumentError('nothing to run: write @mq.subscriber("topic", group_id="…") or @mq.task above a function first')
        within = self._client.config.shutdown_timeout_ms / 1000 if shutdown_timeout is None else shutdown_timeout
        return Worker(
            self._consume,
            self._subscriptions,
            self._layers,
            self._plugins,
            concurrency=concurrency,
            shutdown_timeout=within,
            recycle_after=recycle_after,
            prepare=self._put_periodic,
        )

    async def _put_periodic(self) -> None:
        """Whoever runs functions that have a schedule sees to it that their jobs are there."""
        for each in self._periodic:
            await each.put(self._client.jobs)

    async def run(self, *, concurrency: int | None = None, shutdown_timeout: float | None = None, recycle_after: int | None = None) -> None:
        """Call the handlers until SIGINT or SIGTERM comes.

        The first signal lets those that run finish within ``shutdown_timeout``, and gives back what is left; the second ends it at once.
        ``concurrency`` is for handlers that were declared without. After ``recycle_after`` calls that overran their time limit and could
        not be stopped, it ends with ``HandlerStuckError``: the process should be replaced, as ``litemq worker`` does.
        """
        worker = self._worker(concurrency, shutdown_timeout, recycle_after)
        with on_signals(worker.stop):
            await worker.run()


def _check_new(there: Sequence[Subscription], topic: str, group_id: str) -> None:
    for each in there:
        if (each.topic, each.group_id) == (topic, group_id):
            raise InvalidArgumentError(
                f"{each.name} handles this topic for group {group_id!r} already: choose another group, or another topic"
            )


def _nothing(_: object) -> None:
    """Stands for a handler that is not known yet."""
