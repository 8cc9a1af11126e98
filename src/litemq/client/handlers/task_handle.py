"""The handle of a task's call: wait for its result."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Generic, TypeVar, cast

from litemq.client.handlers.call_codec import CallCodec
from litemq.client.handlers.task_results import ResultInbox, TaskResult
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.times import seconds
from litemq.errors import InvalidArgumentError, ResultTimeoutError, SerializationError, TaskFailedError

__all__ = ["AsyncTaskHandle"]

R = TypeVar("R")


class AsyncTaskHandle(Generic[R]):
    """A call that was sent to the workers."""

    def __init__(self, call_id: str, receipt: SendReceipt | None, codec: CallCodec, inbox: ResultInbox | None) -> None:
        self.id = call_id
        self.receipt = receipt
        self._codec = codec
        self._inbox = inbox

    async def result(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109  as users expect
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
        inbox = self._opened_inbox()
        limit = None if timeout is None else seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(None if limit == 0 else limit):
                found = await (inbox.look_up(self.id) if limit == 0 else inbox.wait(self.id))
        except TimeoutError:
            found = None
        if found is None:
            raise ResultTimeoutError(
                f"call {self.id} has no result after {limit:g} s: is a worker running (`litemq worker`)? If it failed, "
                "it may be retried; results are kept for result_ttl"
            )
        return self._value(found)

    async def done(self) -> bool:
        """Return whether the call has a result.

        Raises:
            InvalidArgumentError: The task was declared with ``result_ttl=None``.
            LiteMQError: The client is closed, or no broker can be reached.
        """
        return await self._opened_inbox().look_up(self.id) is not None

    def _opened_inbox(self) -> ResultInbox:
        if self._inbox is None:
            raise InvalidArgumentError("the task keeps no results: declare it with @mq.task(result_ttl=…)")
        return self._inbox

    def _value(self, found: TaskResult) -> R:
        if found.error_type:
            raise TaskFailedError(
                f"call {self.id} failed for good: {found.error_type}: {found.error}", found.error_type
            )
        try:
            return cast("R", self._codec.decode_result(found.value))
        except ValueError as error:
            raise SerializationError(f"the result of call {self.id} has another type: {error}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
