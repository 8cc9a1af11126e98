"""Errors: every exception class that LiteMQ raises on purpose.

The tree, which a test compares with the classes below::

    LiteMQError
    ├── InvalidArgumentError
    │   ├── ConfigurationError
    │   ├── FilterSyntaxError
    │   └── CronSyntaxError
    ├── MissingExtraError
    ├── UnsupportedFeatureError
    ├── RecordFormatError
    ├── BodyCodecError
    │   └── BodyTooLargeError
    ├── StorageError
    │   ├── StoreLockedError
    │   ├── StoreFailedError
    │   ├── DiskFullError
    │   ├── CorruptStoreError
    │   └── OffsetOutOfRangeError
    ├── NetworkError
    │   ├── ProtocolError
    │   ├── UnsupportedVersionError
    │   ├── ConnectionLostError
    │   ├── RequestTimeoutError
    │   ├── RemoteError
    │   └── AddressInUseError
    ├── BrokerError
    │   ├── TopicNotFoundError
    │   ├── OverloadedError
    │   │   └── QuotaExceededError
    │   ├── SequenceGapError
    │   ├── NotGroupMemberError
    │   ├── OffsetExpiredError
    │   ├── LeaseLostError
    │   ├── BacklogFullError
    │   ├── GroupBusyError
    │   ├── TransactionRefusedError
    │   ├── TimerEndedError
    │   ├── TimerNotFoundError
    │   ├── TooManyTimerChangesError
    │   ├── TransactionEndedError
    │   ├── TransactionNotFoundError
    │   ├── JobNotFoundError
    │   └── JobExistsError
    └── ClientError
        ├── SendOutcomeUnknownError
        ├── NoRouteError
        ├── PartialAnswerError
        ├── BufferFullError
        ├── AlreadySettledError
        ├── SerializationError
        ├── ClientClosedError
        ├── ArchiveUnreadableError
        ├── HandlerTimeoutError
        ├── HandlerStuckError
        ├── DataLossError
        ├── CheckpointMismatchError
        └── PipelineFailedError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "AddressInUseError",
    "AlreadySettledError",
    "ArchiveUnreadableError",
    "BacklogFullError",
    "BodyCodecError",
    "BodyTooLargeError",
    "BrokerError",
    "BufferFullError",
    "CheckpointMismatchError",
    "ClientClosedError",
    "ClientError",
    "ConfigurationError",
    "ConnectionLostError",
    "CorruptStoreError",
    "CronSyntaxError",
    "DataLossError",
    "DiskFullError",
    "FilterSyntaxError",
    "GroupBusyError",
    "HandlerStuckError",
    "HandlerTimeoutError",
    "InvalidArgumentError",
    "JobExistsError",
    "JobNotFoundError",
    "LeaseLostError",
    "LiteMQError",
    "MissingExtraError",
    "NetworkError",
    "NoRouteError",
    "NotGroupMemberError",
    "OffsetExpiredError",
    "OffsetOutOfRangeError",
    "OverloadedError",
    "PartialAnswerError",
    "PipelineFailedError",
    "ProtocolError",
    "QuotaExceededError",
    "RecordFormatError",
    "RemoteError",
    "RequestTimeoutError",
    "SendOutcomeUnknownError",
    "SequenceGapError",
    "SerializationError",
    "StorageError",
    "StoreFailedError",
    "StoreLockedError",
    "TimerEndedError",
    "TimerNotFoundError",
    "TooManyTimerChangesError",
    "TopicNotFoundError",
    "TransactionEndedError",
    "TransactionNotFoundError",
    "TransactionRefusedError",
    "UnsupportedFeatureError",
    "UnsupportedVersionError",
]


class LiteMQError(Exception):
    """The root of the tree: catch it to catch every error that LiteMQ raises on purpose."""

    code: ClassVar[int] = 1  # names the class on the wire and in the reference; never reused
    retriable: ClassVar[bool] = False  # the same call, repeated unchanged, may succeed
    _parameters: ClassVar[tuple[str, ...]] = ()  # of a constructor that takes more than a message

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle the arguments of the constructor instead of the message built from them."""
        arguments = tuple(getattr(self, name) for name in self._parameters)
        return (type(self), arguments) if arguments else super().__reduce__()


class InvalidArgumentError(LiteMQError):
    """A value is invalid. The message names the value, the rule and the accepted values."""

    code = 2


class ConfigurationError(InvalidArgumentError):
    """A setting is unknown or invalid. The message names it, its source and the closest match."""

    code = 4


class FilterSyntaxError(InvalidArgumentError):
    """The filter expression is invalid. The message quotes the error; nothing was delivered."""

    code = 6


class CronSyntaxError(InvalidArgumentError):
    """The schedule is invalid or never matches. The message names the field and valid values."""

    code = 75


class MissingExtraError(LiteMQError):
    """An optional dependency is missing. Run the ``pip install`` command in the message."""

    code = 3
    _parameters = ("what", "extra")

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional library: pip install 'litemq[{extra}]'")
        self.what = what
        self.extra = extra


class UnsupportedFeatureError(LiteMQError):
    """This version or engine lacks the feature. The message names an alternative."""

    code = 5


class RecordFormatError(LiteMQError):
    """The bytes at ``position`` are not a valid record; ``problem`` names the broken rule."""

    code = 10
    _parameters = ("problem", "position", "detail")

    def __init__(self, problem: str, position: int, detail: str = "") -> None:
        super().__init__(f"record at byte {position}: {problem}" + (f" ({detail})" if detail else ""))
        self.problem, self.position, self.detail = problem, position, detail


class BodyCodecError(LiteMQError):
    """A body cannot be compressed or decompressed: its bytes or its codec are wrong."""

    code = 11


class BodyTooLargeError(BodyCodecError):
    """A decompressed body exceeds the limit. Raise the limit if you trust the sender."""

    code = 12


class StorageError(LiteMQError):
    """The store cannot serve the request. The message gives the reason."""

    code = 20


class StoreLockedError(StorageError):
    """Another process has this data directory open. Stop it, or choose another directory."""

    code = 21


class StoreFailedError(StorageError):
    """A write or fsync failed, so the store refuses all writes. Restart the broker to recover."""

    code = 22


class DiskFullError(StorageError):
    """The disk is full; the store wrote nothing. Free some space, then send again."""

    code = 23
    retriable = True


class CorruptStoreError(StorageError):
    """Bytes at ``offset`` of ``path`` are damaged. Restore a copy of the file, or move it away."""

    code = 24
    _parameters = ("path", "offset", "reason")

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {reason}")
        self.path, self.offset, self.reason = path, offset, reason


class OffsetOutOfRangeError(StorageError):
    """The offset was deleted by retention or is not confirmed yet. The message names the range."""

    code = 25


class NetworkError(LiteMQError):
    """A connection or a request failed. The message names the peer and the reason."""

    code = 30


class ProtocolError(NetworkError):
    """The peer violated the protocol. It may not be LiteMQ: check the address and the port."""

    code = 31


class UnsupportedVersionError(NetworkError):
    """Client and server share no protocol version. Upgrade the older one."""

    code = 32


class ConnectionLostError(NetworkError):
    """The connection failed or ended. The outcome of a request in flight is unknown."""

    code = 33
    retriable = True


class RequestTimeoutError(NetworkError):
    """No answer arrived in time. The outcome of the request is unknown."""

    code = 34
    retriable = True


class RemoteError(NetworkError):
    """The peer reported an error that this version does not know; ``remote_code`` is its code."""

    code = 35
    _parameters = ("remote_code", "message")

    def __init__(self, remote_code: int, message: str) -> None:
        super().__init__(message)
        self.remote_code = remote_code
        self.message = message


class AddressInUseError(NetworkError):
    """Another program already listens on this address. Stop it, or choose another port."""

    code = 36


class BrokerError(LiteMQError):
    """The broker refused a request and changed nothing. The message gives the reason."""

    code = 40


class TopicNotFoundError(BrokerError):
    """The topic does not exist. Run ``litemq topic create``, or set ``auto_create_topics``."""

    code = 41


class OverloadedError(BrokerError):
    """The broker is overloaded. Retry after ``retry_after_ms``; clients do so automatically."""

    code = 42
    retriable = True
    _parameters = ("message", "retry_after_ms")

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms


class QuotaExceededError(OverloadedError):
    """The client exceeds its quota. Retry after ``retry_after_ms``, or raise the quota."""

    code = 43


class SequenceGapError(BrokerError):
    """An earlier send is missing: the queue expects ``expected``. Clients handle this error."""

    code = 44
    _parameters = ("message", "expected")

    def __init__(self, message: str, expected: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected


class NotGroupMemberError(BrokerError):
    """The client does not own the queue it reads or commits. Consumers rejoin automatically."""

    code = 45
    retriable = True


class OffsetExpiredError(BrokerError):
    """Retention deleted messages before the group read them. Raised once; reading continues."""

    code = 46
    retriable = True


class LeaseLostError(BrokerError):
    """The lease expired; others may have the message. Lease longer, or use ``process()``."""

    code = 47


class BacklogFullError(BrokerError):
    """The backlog is full. Let the slowest group catch up, delete it, or raise ``max_backlog``."""

    code = 48
    retriable = True


class GroupBusyError(BrokerError):
    """The group has active consumers, so its offsets are fixed. Stop them, or pass ``force``."""

    code = 49


class TransactionRefusedError(BrokerError):
    """The transaction cannot continue: it has ended, or records are missing. Write it again."""

    code = 58


class TimerEndedError(BrokerError):
    """The delayed message was already delivered or cancelled. Send a new one."""

    code = 70


class TimerNotFoundError(BrokerError):
    """The topic has no delayed message with this id, or it ended long ago. Check topic and id."""

    code = 71


class TooManyTimerChangesError(BrokerError):
    """Too many timers were moved or batches cancelled. Cancel by id; resend instead of moving."""

    code = 72


class TransactionEndedError(BrokerError):
    """The transaction has already ended with another outcome, which the message names."""

    code = 77


class TransactionNotFoundError(BrokerError):
    """No broker knows this transaction: it never began, or it ended too long ago."""

    code = 78


class JobNotFoundError(BrokerError):
    """No job has this id. ``litemq job list`` shows all jobs."""

    code = 73


class JobExistsError(BrokerError):
    """A job with this id exists. Choose another id, or change the job with ``update``."""

    code = 74


class ClientError(LiteMQError):
    """The client cannot complete the call. The message says what to do."""

    code = 50


class SendOutcomeUnknownError(ClientError):
    """The broker may have stored the message. Look up its id, or resend and accept a duplicate."""

    code = 51


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
