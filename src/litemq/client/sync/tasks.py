"""Tasks of the synchronous client."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Generic, ParamSpec, TypeVar, Unpack

from litemq.client.handlers.task_handle import AsyncTaskHandle
from litemq.client.handlers.tasks import AsyncTask
from litemq.client.messages.send_options import SendOptions
from litemq.client.sync.loop_thread import LoopThread

__all__ = ["Task", "TaskHandle"]

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function decorated with ``@mq.task``. ``send`` takes the parameters of the function."""

    def __init__(self, wrapped: AsyncTask[P, R, R], thread: LoopThread) -> None:
        functools.update_wrapper(self, wrapped.function)
        self.function = wrapped.function
        self.topic = wrapped.topic
        self._wrapped = wrapped
        self._thread = thread

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here; nothing is sent."""
        return self.function(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Have a worker call the function, at least once.

        Args:
            args, kwargs: The arguments of the function: values of the declared types, or JSON
                values.

        Returns:
            The handle of the call: ``handle.result(timeout=30)`` waits for its result.

        Raises:
            TypeError: The arguments do not fit the function.
            LiteMQError: The call could not be sent. See ``mq.send`` for the classes.
        """
        return TaskHandle(self._thread.run(self._wrapped.send(*args, **kwargs)), self._thread)

    def handle(self, call_id: str) -> TaskHandle[R]:
        """Return the handle of a call that any program has sent.

        Args:
            call_id: The ``id`` of its handle.

        Raises nothing.
        """
        return TaskHandle(self._wrapped.handle(call_id), self._thread)

    def options(self, **options: Unpack[SendOptions]) -> Task[P, R]:
        """Return the same task with other send options: ``f.options(delay=60).send(…)``.

        Args:
            options: The keyword options of ``mq.send``.

        Raises nothing.
        """
        return Task(self._wrapped.options(**options), self._thread)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function.__name__} of {self.topic}>"


class TaskHandle(Generic[R]):
    """A call that was sent to the workers."""

    def __init__(self, wrapped: AsyncTaskHandle[R], thread: LoopThread) -> None:
        self.id = wrapped.id
        self.receipt = wrapped.receipt
        self._wrapped = wrapped
        self._thread = thread

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until a worker has made the call, and return its result.

        A failed attempt that will be retried is not a result.

        Args:
            timeout: Seconds to wait; 0 looks once. Default: without a limit.

        Raises:
            TaskFailedError: The call failed for good.
            ResultTimeoutError: There is no result yet, or it is not kept any more.
            InvalidArgumentError: The task was declared with ``result_ttl=None``.
            LiteMQError: The client is closed, or no broker can be reached.
        """
        return self._thread.run(self._wrapped.result(timeout))

    def done(self) -> bool:
        """Return whether the call has a result.

        Raises:
            InvalidArgumentError: The task was declared with ``result_ttl=None``.
            LiteMQError: The client is closed, or no broker can be reached.
        """
        return self._thread.run(self._wrapped.done())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
