"""Errors: every exception class that LiteMQ raises on purpose.

The tree, which a test compares with the classes below::

    LiteMQError
    ├── InvalidArgumentError
    │   ├── ConfigurationError
    │   ├── FilterSyntaxError
    │   ├── CronSyntaxError
    │   └── ResetNotFoundError
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
    │   ├── OffsetOutOfRangeError
    │   ├── LogDivergedError
    │   ├── IncompleteCopyError
    │   ├── OutdatedStoreError
    │   └── NotConfirmedError
    ├── NetworkError
    │   ├── ProtocolError
    │   ├── UnsupportedVersionError
    │   ├── ConnectionLostError
    │   │   └── GroupUnavailableError
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
    │   ├── IncompatibleSchemaError
    │   ├── GroupBusyError
    │   ├── GroupNotFoundError
    │   ├── TransactionRefusedError
    │   ├── TimerEndedError
    │   ├── TimerNotFoundError
    │   ├── TooManyTimerChangesError
    │   ├── TransactionEndedError
    │   ├── TransactionNotFoundError
    │   ├── JobNotFoundError
    │   ├── JobExistsError
    │   ├── NotMasterError
    │   └── NotEnoughReplicasError
    ├── ClusterStoreError
    │   ├── ClusterStoreUnavailableError
    │   ├── ChangeOutcomeUnknownError
    │   ├── ChangeRefusedError
    │   │   └── MasterLeasedError
    │   ├── MasterLeaseLostError
    │   └── GroupFactsLostError
    └── ClientError
        ├── SendOutcomeUnknownError
        ├── NoRouteError
        ├── PartialAnswerError
        ├── BufferFullError
        ├── AlreadySettledError
        ├── SerializationError
        ├── ClientClosedError
        ├── ArchiveUnreadableError
        ├── TaskFailedError
        ├── ResultTimeoutError
        ├── HandlerTimeoutError
        ├── HandlerStuckError
        ├── DataLossError
        ├── CheckpointMismatchError
        └── PipelineFailedError
"""

from __future__ import annotations

from litemq.errors.base import (
    BodyCodecError,
    BodyTooLargeError,
    ConfigurationError,
    CronSyntaxError,
    FilterSyntaxError,
    InvalidArgumentError,
    LiteMQError,
    MissingExtraError,
    RecordFormatError,
    ResetNotFoundError,
    UnsupportedFeatureError,
)
from litemq.errors.broker import (
    BacklogFullError,
    BrokerError,
    GroupBusyError,
    GroupNotFoundError,
    IncompatibleSchemaError,
    JobExistsError,
    JobNotFoundError,
    LeaseLostError,
    NotEnoughReplicasError,
    NotGroupMemberError,
    NotMasterError,
    OffsetExpiredError,
    OverloadedError,
    QuotaExceededError,
    SequenceGapError,
    TimerEndedError,
    TimerNotFoundError,
    TooManyTimerChangesError,
    TopicNotFoundError,
    TransactionEndedError,
    TransactionNotFoundError,
    TransactionRefusedError,
)
from litemq.errors.client import (
    AlreadySettledError,
    ArchiveUnreadableError,
    BufferFullError,
    CheckpointMismatchError,
    ClientClosedError,
    ClientError,
    DataLossError,
    HandlerStuckError,
    HandlerTimeoutError,
    NoRouteError,
    PartialAnswerError,
    PipelineFailedError,
    ResultTimeoutError,
    SendOutcomeUnknownError,
    SerializationError,
    TaskFailedError,
)
from litemq.errors.cluster import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    ClusterStoreError,
    ClusterStoreUnavailableError,
    GroupFactsLostError,
    MasterLeasedError,
    MasterLeaseLostError,
)
from litemq.errors.network import (
    AddressInUseError,
    ConnectionLostError,
    GroupUnavailableError,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from litemq.errors.storage import (
    CorruptStoreError,
    DiskFullError,
    IncompleteCopyError,
    LogDivergedError,
    NotConfirmedError,
    OffsetOutOfRangeError,
    OutdatedStoreError,
    StorageError,
    StoreFailedError,
    StoreLockedError,
)

__all__ = [
    "AddressInUseError",
    "AlreadySettledError",
    "ArchiveUnreadableError",
    "BacklogFullError",
    "BodyCodecError",
    "BodyTooLargeError",
    "BrokerError",
    "BufferFullError",
    "ChangeOutcomeUnknownError",
    "ChangeRefusedError",
    "CheckpointMismatchError",
    "ClientClosedError",
    "ClientError",
    "ClusterStoreError",
    "ClusterStoreUnavailableError",
    "ConfigurationError",
    "ConnectionLostError",
    "CorruptStoreError",
    "CronSyntaxError",
    "DataLossError",
    "DiskFullError",
    "FilterSyntaxError",
    "GroupBusyError",
    "GroupFactsLostError",
    "GroupNotFoundError",
    "GroupUnavailableError",
    "HandlerStuckError",
    "HandlerTimeoutError",
    "IncompatibleSchemaError",
    "IncompleteCopyError",
    "InvalidArgumentError",
    "JobExistsError",
    "JobNotFoundError",
    "LeaseLostError",
    "LiteMQError",
    "LogDivergedError",
    "MasterLeaseLostError",
    "MasterLeasedError",
    "MissingExtraError",
    "NetworkError",
    "NoRouteError",
    "NotConfirmedError",
    "NotEnoughReplicasError",
    "NotGroupMemberError",
    "NotMasterError",
    "OffsetExpiredError",
    "OffsetOutOfRangeError",
    "OutdatedStoreError",
    "OverloadedError",
    "PartialAnswerError",
    "PipelineFailedError",
    "ProtocolError",
    "QuotaExceededError",
    "RecordFormatError",
    "RemoteError",
    "RequestTimeoutError",
    "ResetNotFoundError",
    "ResultTimeoutError",
    "SendOutcomeUnknownError",
    "SequenceGapError",
    "SerializationError",
    "StorageError",
    "StoreFailedError",
    "StoreLockedError",
    "TaskFailedError",
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
