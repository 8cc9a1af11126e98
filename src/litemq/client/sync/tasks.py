"""Tasks of the synchronous client."""

from __future__ import annotations

import functools
from typing import Generic, ParamSpec, TypeVar, Unpack

from litemq.client.handlers.tasks import AsyncTask
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.messages.send_options import SendOptions
from litemq.client.sync.loop_thread import LoopThread

__all__ = ["Task"]

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function decorated with ``@mq.task``. ``send`` takes the parameters of the function."""

    def __init__(self, wrapped: AsyncTask[P, R], thread: LoopThread) -> None:
        functools.update_wrapper(self, wrapped.function)
        self.function = wrapped.function
        self.topic = wrapped.topic
        self._wrapped = wrapped
        self._thread = thread

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here; nothing is sent."""
        return self.function(*args, **kwargs)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> SendReceipt:
        """Have a worker call the function, at least once.

        Args:
            args, kwargs: The arguments of the function. JSON must be able to express them.

        Raises:
            TypeError: The arguments do not fit the function.
            LiteMQError: The call could not be sent. See ``mq.send`` for the classes.
        """
        return self._thread.run(self._wrapped.send(*args, **kwargs))

    def options(self, **options: Unpack[SendOptions]) -> Task[P, R]:
        """Return the same task with other send options: ``f.options(delay=60).send(…)``.

        Args:
            options: The keyword options of ``mq.send``.

        Raises nothing.
        """
        return Task(self._wrapped.options(**options), self._thread)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function.__name__} of {self.topic}>"
