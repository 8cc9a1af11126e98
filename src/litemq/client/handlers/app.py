"""The decorators of a client for subscribers and tasks, its middleware, plug-ins, and ``run``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from litemq.client.config import ClientConfig
from litemq.client.consuming.consumer import Consumer
from litemq.client.engine.engine import Engine
from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.client.extensions.middleware import Middleware
from litemq.client.extensions.plugins import Plugin, Plugins
from litemq.client.handlers.call_codec import CallCodec
from litemq.client.handlers.declare import declare_topics
from litemq.client.handlers.parameters import call_with_messages
from litemq.client.handlers.periodic import PeriodicCall, default_job_id
from litemq.client.handlers.result_sender import ResultSender
from litemq.client.handlers.signals import on_signals
from litemq.client.handlers.subscription import HandlerOptions, Subscription, new_subscription
from litemq.client.handlers.task_results import RESULTS_TOPIC, InboxHost, ResultInbox, declare_results, result_ttl_ms
from litemq.client.handlers.tasks import (
    AsyncTask,
    DeclareTask,
    NotACallError,
    Sender,
    TaskCalls,
    default_topic,
    task_handler,
)
from litemq.client.handlers.worker import Worker
from litemq.client.jobs.jobs import Jobs
from litemq.errors import InvalidArgumentError

__all__ = ["NO_HANDLER", "AsyncApp"]

P = ParamSpec("P")
R = TypeVar("R")
HandlerT = TypeVar("HandlerT", bound=Callable[..., object])

_WORKERS = "workers"  # the default group of tasks
_RESULT_TTL_S = 86_400.0
NO_HANDLER = "no handler is declared: decorate a function with @mq.subscriber or @mq.task"


class _Host(Protocol):
    """The client that an app is part of."""

    config: ClientConfig
    send: Sender

    @property
    def jobs(self) -> Jobs: ...

    def _opened(self) -> Engine: ...


class AsyncApp:
    """The part of ``AsyncClient`` that declares handlers for ``run`` or ``litemq worker``."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._layers: list[Middleware] = []
        self._plugins = Plugins()
        self._periodic: list[PeriodicCall] = []
        self._results = ResultInbox(cast("InboxHost", self))

    @property
    def _client(self) -> _Host:
        return cast("_Host", self)

    def _refresh_sending(self) -> None:
        """Apply added middleware and plug-ins to the messages sent from now on."""
        raise NotImplementedError

    def _consume(self, subscription: Subscription, concurrency: int) -> Consumer:
        """Open the consumer of a handler."""
        raise NotImplementedError

    async def _send_result(self, body: Any, *, call_id: str, tag: str, ttl_ms: int) -> None:
        """Send the result of a call."""
        await self._client.send(RESULTS_TOPIC, body, keys=call_id, tags=tag, ttl=ttl_ms / 1000)

    async def _find_topic(self, topic: str) -> None:
        """Check that ``topic`` exists; create it if the brokers allow it."""
        await self._client._opened().route(topic, create=True)  # noqa: SLF001

    # Declaring ------------------------------------------------------------------------------------

    @overload
    def subscriber(
        self, topic: str, *, group_id: str, **options: Unpack[HandlerOptions]
    ) -> Callable[[HandlerT], HandlerT]: ...

    @overload
    def subscriber(
        self,
        topic: str,
        *,
        group_id: str,
        batch: int,
        batch_wait: float | timedelta = ...,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[HandlerT], HandlerT]: ...

    def subscriber(
        self,
        topic: str,
        *,
        group_id: str,
        batch: int | None = None,
        batch_wait: float | timedelta = 0.0,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Any], Any]:
        """Declare a handler: ``@mq.subscriber("orders", group_id="billing")``.

        ``run`` calls it with each message. If its parameter has another type than ``Message``, such
        as ``order: Order``, it is called with the body as a value of this type; a second parameter
        ``message: Message`` gets the message.

        Args:
            topic: The topic to read.
            group_id: The consumer group.
            batch: Call the handler with a list of up to this many messages.
            batch_wait: Seconds that the first message of a batch waits for further ones.
            options: The fields of ``HandlerOptions``: mode, concurrency, time limit, filter and
                retries.

        Returns:
            The decorator, which returns the function unchanged.

        Raises:
            InvalidArgumentError: An argument is invalid, the group has a handler for the topic, or
                the body cannot be decoded to the type of the parameter.
            MissingExtraError: The type of the parameter needs the extra ``pydantic``.
        """
        _check_new(self._subscriptions, topic, group_id)
        # Invalid arguments raise here, at the decorator.
        new_subscription(topic, group_id, _placeholder, options, batch=batch, batch_wait=batch_wait)

        def subscribe(handler: Callable[..., object]) -> Callable[..., object]:
            call = call_with_messages(handler, is_batch=batch is not None)
            self._subscriptions.append(
                new_subscription(topic, group_id, call, options, batch=batch, batch_wait=batch_wait)
            )
            return handler

        return subscribe

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> AsyncTask[P, R, R]: ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        topic: str = ...,
        group_id: str = ...,
        result_ttl: float | timedelta | None = ...,
        **options: Unpack[HandlerOptions],
    ) -> DeclareTask: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        topic: str = "",
        group_id: str = _WORKERS,
        result_ttl: float | timedelta | None = _RESULT_TTL_S,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Declare a task: ``@mq.task(max_retries=5)``.

        ``await f.send(…)`` has a worker call it, ``f(…)`` calls it here.

        Args:
            function: The function, if the decorator is used without parentheses.
            topic: The topic of the calls. Default: ``tasks-module.function``.
            group_id: The consumer group of the workers.
            result_ttl: Seconds for which results are kept, up to 30 days; ``None``: there are none.
            options: The fields of ``HandlerOptions``. The default mode is ``lease``.

        Returns:
            The task, or the decorator.

        Raises:
            InvalidArgumentError: An argument is invalid, or the group has a handler for the topic.
        """
        ttl_ms = result_ttl_ms(result_ttl)

        def declare(function: Callable[..., Any]) -> AsyncTask[..., Any, Any]:
            named = topic or default_topic(function)
            _check_new(self._subscriptions, named, group_id)
            throws = (*options.get("throws", ()), NotACallError)
            chosen: HandlerOptions = {"mode": "lease", **options, "throws": throws}
            codec = CallCodec(function)
            results = ResultSender(codec, self._send_result, lambda: self._client._opened().wall_ms())  # noqa: SLF001
            handler = task_handler(function, codec, results.set_value)
            subscription = new_subscription(named, group_id, handler, chosen)
            self._subscriptions.append(replace(subscription, results=results, result_ttl_ms=ttl_ms))
            calls = TaskCalls(self._client.send, codec, self._results if ttl_ms else None, ttl_ms)
            return AsyncTask(function, named, calls)

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
    ) -> Callable[[Callable[[], R]], AsyncTask[[], R, Any]]:
        """Declare a periodic task: ``@mq.periodic(cron="0 0 8 * * *", timezone="Asia/Shanghai")``.

        A job sends the calls; ``run`` creates or updates it. Each call is made once, by one worker.
        Pass ``cron`` or ``every``.

        Args:
            cron: The schedule.
            every: Seconds between two calls.
            timezone: The time zone of ``cron``. Default: UTC.
            job_id: The id of the job. Default: the name of the function.
            overlap: What happens to a tick while the previous call is unfinished: ``allow``,
                ``skip`` or ``queue-one``.
            catch_up: Which ticks missed during an outage are sent: ``skip``, ``one`` or ``all``.
            catch_up_window: Seconds; ticks missed for longer are not sent.
            topic, group_id, options: As in ``task``.

        Returns:
            The decorator, which returns the task.

        Raises:
            InvalidArgumentError: An argument is invalid, or the function has required parameters.
                An invalid ``cron`` raises ``CronSyntaxError`` in ``run``.
        """

        def declare(function: Callable[[], R]) -> AsyncTask[[], R, Any]:
            named = topic or default_topic(function)
            job = job_id or default_job_id(named)
            call = PeriodicCall(
                function, named, group_id, job, cron, every, timezone, overlap, catch_up, catch_up_window
            )
            call.check()
            task: AsyncTask[[], R, Any] = self.task(topic=named, group_id=group_id, result_ttl=None, **options)(
                function
            )
            self._periodic.append(call)
            return task

        return declare

    def add_middleware(self, middleware: Middleware) -> None:
        """Add a layer around sends and handler calls, inside the layers added before.

        Args:
            middleware: The layer.

        Raises nothing.
        """
        self._layers.append(middleware)
        self._refresh_sending()

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plug-in, which observes sends and handler calls.

        Installed plug-ins are added automatically.

        Args:
            plugin: The plug-in.

        Raises nothing.
        """
        self._plugins.add(plugin)
        self._refresh_sending()

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The declared handlers, including those of tasks."""
        return tuple(self._subscriptions)

    # Running --------------------------------------------------------------------------------------

    def _worker(
        self,
        concurrency: int | None,
        shutdown_timeout: float | None,
        recycle_after: int | None,
        handlers: Sequence[Subscription] | None,
        on_ready: Callable[[], None] | None,
    ) -> Worker:
        chosen = self._subscriptions if handlers is None else handlers
        if not chosen:
            raise InvalidArgumentError(NO_HANDLER)
        within = self._client.config.shutdown_timeout_ms / 1000 if shutdown_timeout is None else shutdown_timeout
        return Worker(
            self._consume,
            chosen,
            self._layers,
            self._plugins,
            concurrency=concurrency,
            shutdown_timeout=within,
            recycle_after=recycle_after,
            prepare=functools.partial(self._prepare, chosen),
            on_ready=on_ready,
        )

    async def _declare_typed_topics(self, names: set[str]) -> None:
        """Store the schemas of typed topics among ``names``."""
        raise NotImplementedError

    async def _prepare(self, handlers: Sequence[Subscription]) -> None:
        """Create the topics of ``handlers``, and put the jobs of their periodic tasks."""
        await declare_topics([each.topic for each in handlers], self._find_topic, self._client.config)
        await self._declare_typed_topics({each.topic for each in handlers})
        ttl_ms = max(each.result_ttl_ms for each in handlers)
        if ttl_ms:
            await declare_results(self._client._opened(), ttl_ms)  # noqa: SLF001
        declared = {(each.topic, each.group_id) for each in handlers}
        for each in self._periodic:
            if (each.topic, each.group_id) in declared:
                await each.put(self._client.jobs)

    async def run(
        self,
        *,
        concurrency: int | None = None,
        shutdown_timeout: float | None = None,
        recycle_after: int | None = None,
        handlers: Sequence[Subscription] | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """Run the declared handlers until SIGINT or SIGTERM.

        Creates their topics first, if the brokers create topics. The first signal lets running
        calls finish, and returns the remaining messages. The second one cancels them.

        Args:
            concurrency: Concurrent calls of each handler that was declared without ``concurrency``.
            shutdown_timeout: Seconds for running calls to finish. Default: ``shutdown_timeout_ms``.
            recycle_after: Stop after this many calls that exceeded their time limit and cannot be
                cancelled. Default: 16.
            handlers: Run only these of ``subscriptions``. Default: all.
            on_ready: Called on the client's event loop when the handlers take messages.

        Raises:
            InvalidArgumentError: No handler is declared.
            HandlerStuckError: ``recycle_after`` was reached. Replace the process; ``litemq worker``
                does so.
            TopicNotFoundError: A topic does not exist, and the brokers do not create topics.
            LiteMQError: A consumer failed for good.
            ClientClosedError: The client is not open.
        """
        worker = self._worker(concurrency, shutdown_timeout, recycle_after, handlers, on_ready)
        with on_signals(worker.stop):
            await worker.run()


def _check_new(existing: Sequence[Subscription], topic: str, group_id: str) -> None:
    for each in existing:
        if (each.topic, each.group_id) == (topic, group_id):
            raise InvalidArgumentError(
                f"{each.name} already handles this topic for group {group_id!r}: choose another group or topic"
            )


def _placeholder(_: object) -> None:
    """A handler that is not known yet."""
