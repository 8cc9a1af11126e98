"""Sends the results of a worker's calls: values, and the errors of calls that failed for good."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from litemq.client.handlers.call_codec import CallCodec
from litemq.client.handlers.outcome import judge_failure
from litemq.client.handlers.task_results import MAX_TTL_MS, REPLY_PROPERTY, TTL_PROPERTY, TaskResult
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import SettlePolicy, one_line
from litemq.client.settling.run_limits import number_property
from litemq.errors import LiteMQError

__all__ = ["ResultSender"]

_LOG = logging.getLogger(__name__)


class SendResult(Protocol):
    """Sends ``body`` as the result of the call ``call_id``."""

    def __call__(self, body: Any, *, call_id: str, tag: str, ttl_ms: int) -> Awaitable[object]: ...


class ResultSender:
    """The results of one task. It never fails a call: a result that cannot be sent is logged."""

    def __init__(self, codec: CallCodec, send: SendResult, wall_ms: Callable[[], int]) -> None:
        self._codec = codec
        self._send = send
        self._wall_ms = wall_ms
        self._values: dict[str, Any] = {}  # of calls that have returned, by message id; set by any thread

    def set_value(self, message: Message, value: Any) -> None:
        """Keep the value that the call of ``message`` has returned."""
        if REPLY_PROPERTY in message.properties:
            self._values[message.message_id] = value

    async def on_success(self, message: Message) -> None:
        """Send the value of ``message``, if its caller wants it. Raises nothing."""
        if REPLY_PROPERTY not in message.properties:
            return
        value = self._values.pop(message.message_id, None)
        try:
            result = TaskResult(self._codec.encode_result(value))
            await self._reply(message, result)
        except LiteMQError as error:
            _LOG.error("%r succeeded, but its result cannot be sent: %s", message, error)
            if not error.retriable:  # it has no JSON, or is too large
                await self._reply_error(message, error)

    async def on_failure(self, message: Message, error: Exception, policy: SettlePolicy) -> None:
        """Send ``error`` if the call of ``message`` failed for good. Raises nothing."""
        self._values.pop(message.message_id, None)
        if REPLY_PROPERTY not in message.properties:
            return
        if judge_failure(policy, message, error).is_last:
            await self._reply_error(message, error)

    async def _reply_error(self, message: Message, error: Exception) -> None:
        try:
            await self._reply(message, TaskResult(None, type(error).__name__, one_line(str(error))))
        except LiteMQError as reason:
            _LOG.warning("the error of %r could not be sent: %s", message, reason)

    async def _reply(self, message: Message, result: TaskResult) -> None:
        ttl_ms = min(number_property(message.properties, TTL_PROPERTY) or 0, MAX_TTL_MS)
        if ttl_ms:
            body = result._replace(expires_at=self._wall_ms() + ttl_ms)._asdict()
            await self._send(body, call_id=message.message_id, tag=message.properties[REPLY_PROPERTY], ttl_ms=ttl_ms)
