"""Errors of the client, its handlers and its pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litemq.errors.base import LiteMQError

__all__ = [
    "AlreadySettledError",
    "ArchiveUnreadableError",
    "BufferFullError",
    "CheckpointMismatchError",
    "ClientClosedError",
    "ClientError",
    "DataLossError",
    "HandlerStuckError",
    "HandlerTimeoutError",
    "NoRouteError",
    "PartialAnswerError",
    "PipelineFailedError",
    "ResultTimeoutError",
    "SendOutcomeUnknownError",
    "SerializationError",
    "TaskFailedError",
]


class ClientError(LiteMQError):
    """The client cannot complete the call. The message says what to do."""

    code = 50


class SendOutcomeUnknownError(ClientError):
    """The broker may have stored the message. Look up its id, or resend and accept a duplicate."""

    code = 51


class TaskFailedError(ClientError):
    """The call of a task failed for good. ``error_type`` names the error; see its dead letter."""

    code = 83
    _parameters = ("message", "error_type")

    def __init__(self, message: str, error_type: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.error_type = error_type


class ResultTimeoutError(ClientError):
    """A call of a task has no result yet, or it is not kept any more. Check that a worker runs."""

    code = 84


class NoRouteError(ClientError):
    """No broker with the topic is reachable. Check that brokers run and use this NameServer."""

    code = 52
    retriable = True


class PartialAnswerError(ClientError):
    """Brokers did not answer in time: ``missing`` gives the reasons by broker.

    ``answer`` is what the call would have returned if the others were the whole cluster.
    """

    code = 79
    retriable = True
    _parameters = ("message", "answer", "missing")

    def __init__(self, message: str, answer: Any = None, missing: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.answer = answer
        self.missing = dict(missing or {})


class BufferFullError(ClientError):
    """The send buffer is full. Await ``send`` or ``flush``, or raise ``buffer_bytes``."""

    code = 54
    retriable = True


class AlreadySettledError(ClientError):
    """A message was settled twice. Settle it once, by hand or with ``process()``."""

    code = 55


class SerializationError(ClientError):
    """The topic's serializer cannot write or read a body. The message names both."""

    code = 56


class ClientClosedError(ClientError):
    """The client is closed or was never opened. Use it inside ``with`` or ``async with``."""

    code = 57


class ArchiveUnreadableError(ClientError):
    """The archive cannot be read now. No message is skipped: retry when its table is available."""

    code = 69
    retriable = True


class HandlerTimeoutError(ClientError):
    """A handler exceeded its ``time_limit``: the attempt failed. Speed it up or raise the limit."""

    code = 62


class HandlerStuckError(ClientError):
    """Handlers keep running past their limit. Replace the process, as ``litemq worker`` does."""

    code = 63


class DataLossError(ClientError):
    """Messages that the query needs are gone. Set ``failOnDataLoss`` to false, or start later."""

    code = 64


class CheckpointMismatchError(ClientError):
    """The query's checkpoint belongs to other queues. Use a new checkpoint, or the old cluster."""

    code = 65


class PipelineFailedError(ClientError):
    """The pipeline's Spark job failed; the message quotes Spark. Start it again to resume."""

    code = 68
    retriable = True
