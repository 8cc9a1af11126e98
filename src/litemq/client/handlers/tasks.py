"""Tasks: ``f.send(…)`` has a worker call the function, and ``f(…)`` calls it here."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack, overload

from litemq.client.handlers.call_codec import CallCodec
from litemq.client.handlers.task_handle import AsyncTaskHandle
from litemq.client.handlers.task_results import REPLY_PROPERTY, TTL_PROPERTY, ResultInbox
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.messages.send_options import SendOptions
from litemq.errors import InvalidArgumentError, SerializationError

__all__ = ["AsyncTask", "DeclareTask", "NotACallError", "Sender", "TaskCalls", "default_topic", "task_handler"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
_PREFIX: Final = "tasks-"


class Sender(Protocol):
    """The signature of ``AsyncClient.send``."""

    def __call__(self, topic: str, body: Any, **options: Unpack[SendOptions]) -> Awaitable[SendReceipt]: ...


class AsyncTask(Generic[P, C, R]):
    """A function decorated with ``@mq.task``. ``send`` takes the parameters of the function.

    A call returns ``C``, and its result is ``R``: for a coroutine function, what it returns.
    """

    def __init__(
        self, function: Callable[P, C], topic: str, calls: TaskCalls, options: SendOptions | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.topic = topic
        self._calls = calls
        self._options: SendOptions = options or {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function here; nothing is sent."""
        return self.function(*args, **kwargs)

    async def send(self, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskHandle[R]:
        """Have a worker call the function, at least once.

        Args:
            args, kwargs: The arguments of the function: values of the declared types, or JSON
                values.

        Returns:
            The handle of the call: ``await handle.result(timeout=30)`` waits for its result.

        Raises:
            TypeError: The arguments do not fit the function.
            LiteMQError: The call could not be sent. See ``mq.send`` for the classes.
        """
        calls = self._calls
        receipt = await calls.send(self.topic, calls.codec.encode_call(args, kwargs), **calls.asking(self._options))
        return AsyncTaskHandle(receipt.message_id, receipt, calls.codec, calls.inbox)

    def handle(self, call_id: str) -> AsyncTaskHandle[R]:
        """Return the handle of a call that any program has sent.

        Args:
            call_id: The ``id`` of its handle.

        Raises nothing.
        """
        return AsyncTaskHandle(call_id, None, self._calls.codec, self._calls.inbox)

    def options(self, **options: Unpack[SendOptions]) -> AsyncTask[P, C, R]:
        """Return the same task with other send options: ``await f.options(delay=60).send(…)``.

        Args:
            options: The keyword options of ``mq.send``.

        Raises nothing.
        """
        return AsyncTask(self.function, self.topic, self._calls, {**self._options, **options})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function.__name__} of {self.topic}>"


class TaskCalls(NamedTuple):
    """How the calls of a task are sent."""

    send: Sender
    codec: CallCodec
    inbox: ResultInbox | None  # ``None``: the task keeps no results
    ttl_ms: int = 0  # of results

    def asking(self, options: SendOptions) -> SendOptions:
        """Return ``options`` with the properties that ask for a result."""
        if self.inbox is None:
            return options
        asked = {REPLY_PROPERTY: self.inbox.tag, TTL_PROPERTY: str(self.ttl_ms)}
        return {**options, "properties": {**(options.get("properties") or {}), **asked}}


class NotACallError(SerializationError):
    """A message in a task's topic is not a call of its function. It is not retried."""


class DeclareTask(Protocol):
    """The decorator that ``@mq.task(…)`` returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncTask[P, R, R]: ...


def default_topic(function: Callable[..., Any]) -> str:
    """Return ``tasks-module.function``, which is the same in the sending program and in the worker.

    Raises:
        InvalidArgumentError: The function is in no importable module.
    """
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is None and file is None:
            raise InvalidArgumentError(
                f"{function.__name__}() is in no module, so a worker cannot import it: "
                "name its topic with @mq.task(topic=…)"
            )
        module = spec.name if spec is not None else Path(str(file)).stem
    return f"{_PREFIX}{module}.{function.__name__}"


def call_value(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as a message value. Raises ``TypeError`` if the arguments do not fit."""
    return CallCodec(function).encode_call(args, kwargs)


def task_handler(
    function: Callable[..., Any], codec: CallCodec, set_value: Callable[[Message, Any], None]
) -> Callable[[Message], Any]:
    """Return the handler that calls ``function`` with the arguments in a message.

    It passes the value of each call to ``set_value``.
    """

    def arguments(message: Message) -> tuple[list[Any], dict[str, Any]]:
        value = message.value
        try:
            return codec.decode_call(value)
        except (TypeError, KeyError, ValueError) as error:
            signature = inspect.signature(function)
            raise NotACallError(
                f"message {message.message_id} is not a call of {function.__name__}{signature}: {error}. "
                f"Was it sent with {function.__name__}.send(), and by the same version of the program?"
            ) from error

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call(message: Message) -> None:
            args, kwargs = arguments(message)
            set_value(message, await function(*args, **kwargs))

        return call

    @functools.wraps(function)
    def call_on_a_thread(message: Message) -> None:
        args, kwargs = arguments(message)
        set_value(message, function(*args, **kwargs))

    return call_on_a_thread
