"""Tasks: ``f.send(…)`` has a worker call the function, and ``f(…)`` calls it here."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack

from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.messages.send_options import SendOptions
from litemq.errors import InvalidArgumentError, SerializationError

__all__ = ["AsyncTask", "NotACallError", "Sender", "default_topic", "task_handler"]

P = ParamSpec("P")
R = TypeVar("R")
_PREFIX: Final = "tasks-"


class Sender(Protocol):
    """The signature of ``AsyncClient.send``."""

    def __call__(self, topic: str, body: Any, **options: Unpack[SendOptions]) -> Awaitable[SendReceipt]: ...


class AsyncTask(Generic[P, R]):
    """A function decorated with ``@mq.task``. ``send`` takes the parameters of the function."""

    def __init__(self, function: Callable[P, R], topic: str, send: Sender, options: SendOptions | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.topic = topic
        self._send = send
        self._options: SendOptions = options or {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here; nothing is sent."""
        return self.function(*args, **kwargs)

    async def send(self, *args: P.args, **kwargs: P.kwargs) -> SendReceipt:
        """Have a worker call the function, at least once.

        Args:
            args, kwargs: The arguments of the function. JSON must be able to express them.

        Raises:
            TypeError: The arguments do not fit the function.
            LiteMQError: The call could not be sent. See ``mq.send`` for the classes.
        """
        return await self._send(self.topic, call_value(self.function, args, kwargs), **self._options)

    def options(self, **options: Unpack[SendOptions]) -> AsyncTask[P, R]:
        """Return the same task with other send options: ``await f.options(delay=60).send(…)``.

        Args:
            options: The keyword options of ``mq.send``.

        Raises nothing.
        """
        return AsyncTask(self.function, self.topic, self._send, {**self._options, **options})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function.__name__} of {self.topic}>"


class NotACallError(SerializationError):
    """A message in a task's topic is not a call of its function. It is not retried."""


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
    inspect.signature(function).bind(*args, **kwargs)
    return {"args": list(args), "kwargs": dict(kwargs)}


def task_handler(function: Callable[..., Any]) -> Callable[[Message], Any]:
    """Return the handler that calls ``function`` with the arguments in a message."""
    signature = inspect.signature(function)

    def arguments(message: Message) -> tuple[list[Any], dict[str, Any]]:
        value = message.value
        try:
            args, kwargs = value["args"], value["kwargs"]
            signature.bind(*args, **kwargs)
        except (TypeError, KeyError) as error:
            raise NotACallError(
                f"message {message.message_id} is not a call of {function.__name__}{signature}: {error}. "
                f"Was it sent with {function.__name__}.send(), and by the same version of the program?"
            ) from error
        return args, kwargs

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call(message: Message) -> None:
            args, kwargs = arguments(message)
            await function(*args, **kwargs)

        return call

    @functools.wraps(function)
    def call_on_a_thread(message: Message) -> None:
        args, kwargs = arguments(message)
        function(*args, **kwargs)

    return call_on_a_thread
