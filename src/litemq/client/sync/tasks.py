"""A task that is called from synchronous code."""

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
    """A function of ``@mq.task``. ``f.send(…)`` takes what the function takes, and type checkers see to it."""

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
        """Have a worker call the function, once at least."""
        return self._thread.run(self._wrapped.send(*args, **kwargs))

    def options(self, **options: Unpack[SendOptions]) -> Task[P, R]:
        """The same task, sent in another way: ``f.options(delay=60).send(…)``."""
        return Task(self._wrapped.options(**options), self._thread)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function.__name__} of {self.topic}>"
