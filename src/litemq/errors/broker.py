"""Errors that a broker answers."""

from __future__ import annotations

from litemq.errors.base import LiteMQError

__all__ = [
    "BacklogFullError",
    "BrokerError",
    "GroupBusyError",
    "GroupNotFoundError",
    "JobExistsError",
    "JobNotFoundError",
    "LeaseLostError",
    "NotEnoughReplicasError",
    "NotGroupMemberError",
    "NotMasterError",
    "OffsetExpiredError",
    "OverloadedError",
    "QuotaExceededError",
    "SequenceGapError",
    "TimerEndedError",
    "TimerNotFoundError",
    "TooManyTimerChangesError",
    "TopicNotFoundError",
    "TransactionEndedError",
    "TransactionNotFoundError",
    "TransactionRefusedError",
]


class BrokerError(LiteMQError):
    """The broker refused a request and changed nothing. The message gives the reason."""

    code = 40


class TopicNotFoundError(BrokerError):
    """The topic does not exist. Run ``litemq topic create``, or set ``topics.auto_create``."""

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


class IncompatibleSchemaError(BrokerError):
    """Stored messages may not be readable with the new schema. The message names the fields."""

    code = 82


class GroupBusyError(BrokerError):
    """The group has active consumers, so its offsets are fixed. Stop them, or pass ``force``."""

    code = 49


class GroupNotFoundError(BrokerError):
    """No broker knows the consumer group. ``litemq group list`` shows all groups."""

    code = 80


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


class NotMasterError(BrokerError):
    """The broker is not the master of its group, and wrote nothing. Clients ask the master."""

    code = 85
    retriable = True


class NotEnoughReplicasError(BrokerError):
    """Too few replicas of the group are in sync for durability ``replicas``. Nothing was written.

    The client sends again for ``delivery_timeout_ms`` first. Start the replicas that the message
    names, or send with durability ``disk``.
    """

    code = 97
    retriable = True
