"""Every error that LiteMQ raises on purpose.

The tree (a test holds it equal to the classes below)::

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

Each class has a ``code``, the number that names it on the wire and in the reference, and ``retriable``: whether the same call,
repeated unchanged, may succeed. Codes are never reused.
"""

from __future__ import annotations

from typing import ClassVar

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
    """The root: catch this to catch everything that LiteMQ raises on purpose."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False


class InvalidArgumentError(LiteMQError):
    """A value cannot be used. The message names the value, the rule and what would be accepted."""

    code = 2


class ConfigurationError(InvalidArgumentError):
    """A setting is unknown or cannot be used. The message names the key, where it came from, and the key that was most likely meant."""

    code = 4


class FilterSyntaxError(InvalidArgumentError):
    """A filter cannot be read. The message says what is wrong with it; nothing was delivered by it."""

    code = 6


class CronSyntaxError(InvalidArgumentError):
    """A schedule cannot be read, or never matches. The message says which field is wrong and what is accepted."""

    code = 75


class MissingExtraError(LiteMQError):
    """An optional library is not installed. Install the extra that the message names."""

    code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional library: pip install 'litemq[{extra}]'")
        self.what = what
        self.extra = extra

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.extra)


class UnsupportedFeatureError(LiteMQError):
    """This version, or this engine, cannot do what was asked, and will not pretend to. The message says what to do instead."""

    code = 5


class RecordFormatError(LiteMQError):
    """Bytes that are not a record. They were damaged or cut, or were never a record: read them again from another copy.

    ``position`` is where the record begins in the bytes that were given; ``problem`` is a short constant word for programs.
    """

    code = 10

    def __init__(self, problem: str, position: int, detail: str = "") -> None:
        super().__init__(f"record at byte {position}: {problem}" + (f" ({detail})" if detail else ""))
        self.problem = problem
        self.position = position
        self.detail = detail

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem, self.position, self.detail)


class BodyCodecError(LiteMQError):
    """A body could not be compressed or decompressed. It was damaged before it was sent, or names a codec it does not use."""

    code = 11


class BodyTooLargeError(BodyCodecError):
    """A body grows beyond the limit when decompressed. Raise the limit if the sender is trusted."""

    code = 12


class StorageError(LiteMQError):
    """The store cannot do what was asked of it. The message says what stands in the way."""

    code = 20


class StoreLockedError(StorageError):
    """Another process has this data directory open. Stop it, or choose another directory."""

    code = 21


class StoreFailedError(StorageError):
    """A write or fsync failed, and what the disk holds is no longer certain. Writes stop for good; restart, and the store recovers."""

    code = 22


class DiskFullError(StorageError):
    """The disk has no room for this write, which left no trace. Free some space, and send again."""

    code = 23
    retriable = True


class CorruptStoreError(StorageError):
    """Bytes that were safely stored are damaged. Nothing was cut off: heal them from a copy, or set the file aside.

    ``path`` and ``offset`` name the place.
    """

    code = 24

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.offset, self.reason)


class OffsetOutOfRangeError(StorageError):
    """There is nothing at this offset: it was taken by retention, or is not confirmed yet. The message names the range there is."""

    code = 25


class NetworkError(LiteMQError):
    """Two sides could not talk to each other. The message says who, and why."""

    code = 30


class ProtocolError(NetworkError):
    """The other side sent what the protocol does not know. Most likely it is no LiteMQ at all: check the address and the port."""

    code = 31


class UnsupportedVersionError(NetworkError):
    """Client and server have no version of the protocol in common. Upgrade the older one."""

    code = 32


class ConnectionLostError(NetworkError):
    """The connection could not be made, or ended. Whether a request that was on its way was carried out is not known."""

    code = 33
    retriable = True


class RequestTimeoutError(NetworkError):
    """No answer came in time. Whether the request was carried out is not known."""

    code = 34
    retriable = True


class RemoteError(NetworkError):
    """The other side answered with an error that has no class here, or only a message: ``remote_code`` names it in the reference."""

    code = 35

    def __init__(self, remote_code: int, message: str) -> None:
        super().__init__(message)
        self.remote_code = remote_code
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.remote_code, self.message)


class AddressInUseError(NetworkError):
    """Another program listens at this address. If it is a LiteMQ, use it as it is; else choose another port."""

    code = 36


class BrokerError(LiteMQError):
    """A broker refused a request. The message says why; nothing was changed."""

    code = 40


class TopicNotFoundError(BrokerError):
    """There is no such topic. Create it with ``litemq topic create``, or let the broker create topics by itself (``auto_create_topics``)."""

    code = 41


class OverloadedError(BrokerError):
    """A broker has as much to do as it can take. Send again after ``retry_after_ms``; the client does so by itself."""

    code = 42
    retriable = True

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.retry_after_ms)


class QuotaExceededError(OverloadedError):
    """A client has sent more than its quota allows. Send again after ``retry_after_ms``, or raise the quota."""

    code = 43


class SequenceGapError(BrokerError):
    """A send was refused because one before it is missing: ``expected`` is the sequence that the queue waits for. The client handles this."""

    code = 44

    def __init__(self, message: str, expected: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.expected)


class NotGroupMemberError(BrokerError):
    """This client does not own the queue that it reads or commits for a group. Join the group again; the consumer does so by itself."""

    code = 45
    retriable = True


class OffsetExpiredError(BrokerError):
    """Retention took messages that this group had not read yet. Raised once; reading goes on at the oldest message that is left."""

    code = 46
    retriable = True


class LeaseLostError(BrokerError):
    """A message was settled or extended after its lease had ended: others may have it by now. Take a longer lease, or ``process()``, which renews it."""

    code = 47


class BacklogFullError(BrokerError):
    """A queue has as many messages behind its slowest group as it may. Let the group catch up, delete it, or raise the topic's ``max_backlog``."""

    code = 48
    retriable = True


class GroupBusyError(BrokerError):
    """A group's offsets cannot be set while somebody reads for it. Stop its consumers, or say ``force``: they lose their places and begin anew."""

    code = 49


class TransactionRefusedError(BrokerError):
    """A transaction can be neither continued nor committed: it was decided or rolled back before, or records of it are missing. Write it anew."""

    code = 58


class TimerEndedError(BrokerError):
    """A delayed message waits no longer: it was delivered, or cancelled. Send another one."""

    code = 70


class TimerNotFoundError(BrokerError):
    """No delayed message has this id in the topic. Check the topic and the receipt's id; what was delivered or cancelled long ago is not known any more."""

    code = 71


class TooManyTimerChangesError(BrokerError):
    """So many delayed messages were moved, or batches cancelled, that a broker remembers no more. Cancel by id, and send anew what is to come later."""

    code = 72


class TransactionEndedError(BrokerError):
    """A transaction has ended, and not as it was to end now. The message says how; what was decided first stands."""

    code = 77


class TransactionNotFoundError(BrokerError):
    """No broker knows this transaction. It was never begun, or it ended so long ago that its outcome is forgotten."""

    code = 78


class JobNotFoundError(BrokerError):
    """There is no job of that id. ``litemq job list`` shows those that there are."""

    code = 73


class JobExistsError(BrokerError):
    """There is a job of that id already. Choose another id, or change the one that is there with ``update``."""

    code = 74


class ClientError(LiteMQError):
    """The client could not do what was asked of it, before or after talking to a broker. The message says what to do."""

    code = 50


class SendOutcomeUnknownError(ClientError):
    """Whether the message was stored is not known, and will not be found out by itself. Look for its id, or send it again and expect two."""

    code = 51


class NoRouteError(ClientError):
    """No broker that has the topic can be reached. Check that the brokers run, and that they know this NameServer."""

    code = 52
    retriable = True


class BufferFullError(ClientError):
    """So much waits to be sent that no more is taken. Await ``send``, await ``flush``, or raise ``buffer_bytes``."""

    code = 54
    retriable = True


class AlreadySettledError(ClientError):
    """A message was settled twice. Settle it once, by hand or with ``process()``."""

    code = 55


class SerializationError(ClientError):
    """A body could not be written or read by the topic's serializer. The message names both."""

    code = 56


class ClientClosedError(ClientError):
    """The client was closed, or never opened: use it inside ``with`` or ``async with``."""

    code = 57


class ArchiveUnreadableError(ClientError):
    """Messages that only a topic's archive has cannot be read there now. Nothing is passed by: read again once the table can be reached."""

    code = 69
    retriable = True


class HandlerTimeoutError(ClientError):
    """A handler ran longer than its ``time_limit``: this try has failed. Make it quicker, or raise the limit."""

    code = 62


class HandlerStuckError(ClientError):
    """Handlers overran their time limit and could not be stopped. Replace the process; ``litemq worker`` does so by itself."""

    code = 63


class DataLossError(ClientError):
    """Messages that a query was to read are gone. Set ``failOnDataLoss`` to false to go on without them, or read from where there are some."""

    code = 64


class CheckpointMismatchError(ClientError):
    """A query's checkpoint tells of other queues than those it is pointed at. Give the query a new checkpoint, or its old cluster."""

    code = 65


class PipelineFailedError(ClientError):
    """A pipeline's Spark job failed. The message has Spark's first words; what was done is safe, and the next start goes on behind it."""

    code = 68
    retriable = True
