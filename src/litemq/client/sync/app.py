"""Handlers and tasks of the synchronous client."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from litemq.client.async_client import AsyncClient
from litemq.client.engine.job_options import CatchUpRule, OverlapRule
from litemq.client.extensions.middleware import Middleware
from litemq.client.extensions.plugins import Plugin
from litemq.client.handlers.parameters import call_with_messages
from litemq.client.handlers.signals import on_signals
from litemq.client.handlers.subscription import HandlerOptions, Subscription
from litemq.client.messages.message import Message
from litemq.client.sync.loop_thread import LoopThread
from litemq.client.sync.messages import SyncMessage
from litemq.client.sync.tasks import Task
from litemq.client.sync.typed_topics import Topic
from litemq.errors import InvalidArgumentError

__all__ = ["SyncApp"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
HandlerT = TypeVar("HandlerT", bound=Callable[..., object])

_WORKERS = "workers"
_RESULT_TTL_S = 86_400.0


class SyncApp:
    """The part of ``Client`` that declares handlers. They run on threads and may call it."""

    _wrapped: AsyncClient
    _thread: LoopThread

    def _wrap(self, message: Message) -> SyncMessage:
        raise NotImplementedError

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
        more: Any = {} if batch is None else {"batch": batch, "batch_wait": batch_wait}
        subscribe = self._wrapped.subscriber(topic, group_id=group_id, **more, **options)

        def wrap(handler: Callable[..., object]) -> Callable[..., object]:
            _refuse_coroutine(handler)
            decoded = call_with_messages(handler, is_batch=batch is not None)

            def call(given: Any) -> object:
                return decoded([self._wrap(each) for each in given] if isinstance(given, list) else self._wrap(given))

            call.__name__ = getattr(handler, "__name__", "a handler")
            subscribe(call)
            return handler

        return wrap

    def topic(self, name: str, declared: type[T]) -> Topic[T]:
        """Return a topic whose bodies are values of one type: ``mq.topic("orders", Order)``.

        Its JSON schema is stored at the topic when the handle is first used. A later type must be
        able to read all stored messages. ``message.value`` of the topic's messages has the type,
        too.

        Args:
            name: The name of the topic.
            declared: A pydantic model, a dataclass, or a standard type such as ``datetime``.

        Raises:
            InvalidArgumentError: The type cannot be written as JSON, or this client uses the topic
                with another type.
            MissingExtraError: The extra ``pydantic`` is not installed.
        """
        return Topic(self._wrapped.topic(name, declared), self._thread, self.subscriber)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

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
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

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

        ``f.send(…)`` has a worker call it, ``f(…)`` calls it here.

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
        declare = self._wrapped.task(topic=topic, group_id=group_id, result_ttl=result_ttl, **options)

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
        when: Any = {"cron": cron, "every": every, "timezone": timezone, "job_id": job_id}
        rules: Any = {"overlap": overlap, "catch_up": catch_up, "catch_up_window": catch_up_window}
        declare = self._wrapped.periodic(**when, **rules, topic=topic, group_id=group_id, **options)

        def wrap(function: Callable[[], R]) -> Task[[], R]:
            _refuse_coroutine(function)
            return Task(declare(function), self._thread)

        return wrap

    def add_middleware(self, middleware: Middleware) -> None:
        """Add a layer around sends and handler calls, inside the layers added before.

        Args:
            middleware: The layer.

        Raises nothing.
        """
        self._wrapped.add_middleware(middleware)

    def add_plugin(self, plugin: Plugin) -> None:
        """Add a plug-in, which observes sends and handler calls.

        Installed plug-ins are added automatically.

        Args:
            plugin: The plug-in.

        Raises nothing.
        """
        self._wrapped.add_plugin(plugin)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The declared handlers, including those of tasks."""
        return self._wrapped.subscriptions

    def run(
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
        worker = self._wrapped._worker(  # noqa: SLF001
            concurrency, shutdown_timeout, recycle_after, handlers, on_ready
        )
        with on_signals(lambda: self._thread.call_soon(worker.stop)):
            self._thread.run(worker.run())


def _refuse_coroutine(function: Callable[..., Any]) -> None:
    """Raise if ``function`` is a coroutine function: it would block the client's own event loop."""
    if inspect.iscoroutinefunction(function):
        raise InvalidArgumentError(
            f"{function.__name__}() is a coroutine: declare it on a litemq.AsyncClient, or write it without async"
        )
