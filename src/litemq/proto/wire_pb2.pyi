from litemq.proto import jobs_pb2 as _jobs_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Opcode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPCODE_UNKNOWN: _ClassVar[Opcode]
    HELLO: _ClassVar[Opcode]
    PING: _ClassVar[Opcode]
    SEND: _ClassVar[Opcode]
    PULL: _ClassVar[Opcode]
    JOIN_GROUP: _ClassVar[Opcode]
    LEAVE_GROUP: _ClassVar[Opcode]
    COMMIT_OFFSETS: _ClassVar[Opcode]
    OFFSET_AT_TIME: _ClassVar[Opcode]
    FIND: _ClassVar[Opcode]
    LEASE: _ClassVar[Opcode]
    SETTLE: _ClassVar[Opcode]
    EXTEND: _ClassVar[Opcode]
    GROUP_HEARTBEAT: _ClassVar[Opcode]
    RELEASE_QUEUES: _ClassVar[Opcode]
    CREATE_TOPIC: _ClassVar[Opcode]
    DELETE_TOPIC: _ClassVar[Opcode]
    DESCRIBE_TOPIC: _ClassVar[Opcode]
    LIST_TOPICS: _ClassVar[Opcode]
    DESCRIBE_GROUP: _ClassVar[Opcode]
    LIST_GROUPS: _ClassVar[Opcode]
    PLAN_RESET: _ClassVar[Opcode]
    RESET: _ClassVar[Opcode]
    UNDO_RESET: _ClassVar[Opcode]
    PAUSE_GROUP: _ClassVar[Opcode]
    DELETE_GROUP: _ClassVar[Opcode]
    ALTER_TOPIC: _ClassVar[Opcode]
    LIST_DEAD_TOPICS: _ClassVar[Opcode]
    LIST_DEAD_LETTERS: _ClassVar[Opcode]
    REDRIVE: _ClassVar[Opcode]
    REDRIVE_RECORDS: _ClassVar[Opcode]
    FOLLOW_REDRIVE: _ClassVar[Opcode]
    CANCEL_REDRIVE: _ClassVar[Opcode]
    WHY: _ClassVar[Opcode]
    SEND_HALVES: _ClassVar[Opcode]
    COMMIT_SINK: _ClassVar[Opcode]
    ABORT_SINK: _ClassVar[Opcode]
    DESCRIBE_SINK: _ClassVar[Opcode]
    ARCHIVED_THROUGH: _ClassVar[Opcode]
    DESCRIBE_ARCHIVE: _ClassVar[Opcode]
    SEND_HALF: _ClassVar[Opcode]
    END_TRANSACTIONS: _ClassVar[Opcode]
    CHECK_TRANSACTIONS: _ClassVar[Opcode]
    DESCRIBE_TRANSACTION: _ClassVar[Opcode]
    LIST_TRANSACTIONS: _ClassVar[Opcode]
    CANCEL_TIMERS: _ClassVar[Opcode]
    CANCEL_TIMER_BATCH: _ClassVar[Opcode]
    RESCHEDULE_TIMER: _ClassVar[Opcode]
    DESCRIBE_TIMER: _ClassVar[Opcode]
    LIST_TIMERS: _ClassVar[Opcode]
    PUT_JOBS: _ClassVar[Opcode]
    GET_JOBS: _ClassVar[Opcode]
    LIST_JOBS: _ClassVar[Opcode]
    DELETE_JOBS: _ClassVar[Opcode]
    PAUSE_JOBS: _ClassVar[Opcode]
    TRIGGER_JOB: _ClassVar[Opcode]
    BACKFILL_JOB: _ClassVar[Opcode]
    JOB_HISTORY: _ClassVar[Opcode]
    FOLLOW_LOG: _ClassVar[Opcode]
    FETCH_LOG: _ClassVar[Opcode]
    REPORT_LOG: _ClassVar[Opcode]
    READ_STRETCH: _ClassVar[Opcode]
    SWITCH_MASTER: _ClassVar[Opcode]
    REGISTER_BROKER: _ClassVar[Opcode]
    HEARTBEAT: _ClassVar[Opcode]
    DEREGISTER_BROKER: _ClassVar[Opcode]
    FETCH_ROUTE: _ClassVar[Opcode]
    LIST_BROKERS: _ClassVar[Opcode]
    REPORT_REPLICA: _ClassVar[Opcode]
    RENEW_MASTER: _ClassVar[Opcode]
    CHANGE_IN_SYNC: _ClassVar[Opcode]
    LIST_REPLICA_GROUPS: _ClassVar[Opcode]
    HAND_OVER: _ClassVar[Opcode]
    RECOVER_GROUP: _ClassVar[Opcode]
    ELECT_UNCLEAN: _ClassVar[Opcode]

class TransactionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TX_NOT_KNOWN: _ClassVar[TransactionState]
    TX_UNDECIDED: _ClassVar[TransactionState]
    TX_COMMITTED: _ClassVar[TransactionState]
    TX_ROLLED_BACK: _ClassVar[TransactionState]
    TX_DEAD: _ClassVar[TransactionState]
    TX_INCOMPLETE: _ClassVar[TransactionState]
OPCODE_UNKNOWN: Opcode
HELLO: Opcode
PING: Opcode
SEND: Opcode
PULL: Opcode
JOIN_GROUP: Opcode
LEAVE_GROUP: Opcode
COMMIT_OFFSETS: Opcode
OFFSET_AT_TIME: Opcode
FIND: Opcode
LEASE: Opcode
SETTLE: Opcode
EXTEND: Opcode
GROUP_HEARTBEAT: Opcode
RELEASE_QUEUES: Opcode
CREATE_TOPIC: Opcode
DELETE_TOPIC: Opcode
DESCRIBE_TOPIC: Opcode
LIST_TOPICS: Opcode
DESCRIBE_GROUP: Opcode
LIST_GROUPS: Opcode
PLAN_RESET: Opcode
RESET: Opcode
UNDO_RESET: Opcode
PAUSE_GROUP: Opcode
DELETE_GROUP: Opcode
ALTER_TOPIC: Opcode
LIST_DEAD_TOPICS: Opcode
LIST_DEAD_LETTERS: Opcode
REDRIVE: Opcode
REDRIVE_RECORDS: Opcode
FOLLOW_REDRIVE: Opcode
CANCEL_REDRIVE: Opcode
WHY: Opcode
SEND_HALVES: Opcode
COMMIT_SINK: Opcode
ABORT_SINK: Opcode
DESCRIBE_SINK: Opcode
ARCHIVED_THROUGH: Opcode
DESCRIBE_ARCHIVE: Opcode
SEND_HALF: Opcode
END_TRANSACTIONS: Opcode
CHECK_TRANSACTIONS: Opcode
DESCRIBE_TRANSACTION: Opcode
LIST_TRANSACTIONS: Opcode
CANCEL_TIMERS: Opcode
CANCEL_TIMER_BATCH: Opcode
RESCHEDULE_TIMER: Opcode
DESCRIBE_TIMER: Opcode
LIST_TIMERS: Opcode
PUT_JOBS: Opcode
GET_JOBS: Opcode
LIST_JOBS: Opcode
DELETE_JOBS: Opcode
PAUSE_JOBS: Opcode
TRIGGER_JOB: Opcode
BACKFILL_JOB: Opcode
JOB_HISTORY: Opcode
FOLLOW_LOG: Opcode
FETCH_LOG: Opcode
REPORT_LOG: Opcode
READ_STRETCH: Opcode
SWITCH_MASTER: Opcode
REGISTER_BROKER: Opcode
HEARTBEAT: Opcode
DEREGISTER_BROKER: Opcode
FETCH_ROUTE: Opcode
LIST_BROKERS: Opcode
REPORT_REPLICA: Opcode
RENEW_MASTER: Opcode
CHANGE_IN_SYNC: Opcode
LIST_REPLICA_GROUPS: Opcode
HAND_OVER: Opcode
RECOVER_GROUP: Opcode
ELECT_UNCLEAN: Opcode
TX_NOT_KNOWN: TransactionState
TX_UNDECIDED: TransactionState
TX_COMMITTED: TransactionState
TX_ROLLED_BACK: TransactionState
TX_DEAD: TransactionState
TX_INCOMPLETE: TransactionState

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Hello(_message.Message):
    __slots__ = ("least_version", "most_version", "client_id", "user", "secret", "reads_replica", "lasting_id", "attempt")
    LEAST_VERSION_FIELD_NUMBER: _ClassVar[int]
    MOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    READS_REPLICA_FIELD_NUMBER: _ClassVar[int]
    LASTING_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    least_version: int
    most_version: int
    client_id: str
    user: str
    secret: bytes
    reads_replica: bool
    lasting_id: bytes
    attempt: int
    def __init__(self, least_version: _Optional[int] = ..., most_version: _Optional[int] = ..., client_id: _Optional[str] = ..., user: _Optional[str] = ..., secret: _Optional[bytes] = ..., reads_replica: bool = ..., lasting_id: _Optional[bytes] = ..., attempt: _Optional[int] = ...) -> None: ...

class HelloAnswer(_message.Message):
    __slots__ = ("version", "max_frame_bytes", "software")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    version: int
    max_frame_bytes: int
    software: str
    def __init__(self, version: _Optional[int] = ..., max_frame_bytes: _Optional[int] = ..., software: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "retry_after_ms", "expected_sequence")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_ms: int
    expected_sequence: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., expected_sequence: _Optional[int] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("topic", "queue_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ...) -> None: ...

class SendAnswer(_message.Message):
    __slots__ = ("queue_offset", "store_timestamp", "earlier")
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    queue_offset: int
    store_timestamp: int
    earlier: _containers.RepeatedCompositeFieldContainer[SentEarlier]
    def __init__(self, queue_offset: _Optional[int] = ..., store_timestamp: _Optional[int] = ..., earlier: _Optional[_Iterable[_Union[SentEarlier, _Mapping]]] = ...) -> None: ...

class SentEarlier(_message.Message):
    __slots__ = ("queue_offset", "store_timestamp")
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    queue_offset: int
    store_timestamp: int
    def __init__(self, queue_offset: _Optional[int] = ..., store_timestamp: _Optional[int] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("topic", "queue_id", "offset", "max_messages", "max_bytes", "wait_ms", "group", "is_retry", "filter", "filter_is_sql", "generation", "in_parts")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    FILTER_IS_SQL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    IN_PARTS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    offset: int
    max_messages: int
    max_bytes: int
    wait_ms: int
    group: str
    is_retry: bool
    filter: str
    filter_is_sql: bool
    generation: int
    in_parts: bool
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ..., group: _Optional[str] = ..., is_retry: bool = ..., filter: _Optional[str] = ..., filter_is_sql: bool = ..., generation: _Optional[int] = ..., in_parts: bool = ...) -> None: ...

class PullAnswer(_message.Message):
    __slots__ = ("next_offset", "range", "damaged")
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    next_offset: int
    range: QueueRange
    damaged: str
    def __init__(self, next_offset: _Optional[int] = ..., range: _Optional[_Union[QueueRange, _Mapping]] = ..., damaged: _Optional[str] = ...) -> None: ...

class QueueRange(_message.Message):
    __slots__ = ("queue_id", "least", "next", "archived_from", "confirmed")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FROM_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    least: int
    next: int
    archived_from: int
    confirmed: int
    def __init__(self, queue_id: _Optional[int] = ..., least: _Optional[int] = ..., next: _Optional[int] = ..., archived_from: _Optional[int] = ..., confirmed: _Optional[int] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("group", "topic", "member", "session_timeout_ms", "strategy", "zone", "held", "held_retry")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_RETRY_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    member: str
    session_timeout_ms: int
    strategy: str
    zone: str
    held: _containers.RepeatedScalarFieldContainer[int]
    held_retry: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., member: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., strategy: _Optional[str] = ..., zone: _Optional[str] = ..., held: _Optional[_Iterable[int]] = ..., held_retry: bool = ...) -> None: ...

class GroupAssignment(_message.Message):
    __slots__ = ("session", "version", "unchanged", "queues", "release", "reset_id", "session_timeout_ms")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    session: int
    version: int
    unchanged: bool
    queues: _containers.RepeatedCompositeFieldContainer[GroupQueue]
    release: _containers.RepeatedScalarFieldContainer[int]
    reset_id: str
    session_timeout_ms: int
    def __init__(self, session: _Optional[int] = ..., version: _Optional[int] = ..., unchanged: bool = ..., queues: _Optional[_Iterable[_Union[GroupQueue, _Mapping]]] = ..., release: _Optional[_Iterable[int]] = ..., reset_id: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class GroupQueue(_message.Message):
    __slots__ = ("range", "committed", "is_retry", "generation")
    RANGE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    range: QueueRange
    committed: int
    is_retry: bool
    generation: int
    def __init__(self, range: _Optional[_Union[QueueRange, _Mapping]] = ..., committed: _Optional[int] = ..., is_retry: bool = ..., generation: _Optional[int] = ...) -> None: ...

class GroupHeartbeat(_message.Message):
    __slots__ = ("group", "topic", "member", "session", "version", "wait_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    member: str
    session: int
    version: int
    wait_ms: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., member: _Optional[str] = ..., session: _Optional[int] = ..., version: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("group", "topic", "member", "session", "generations")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    member: str
    session: int
    generations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., member: _Optional[str] = ..., session: _Optional[int] = ..., generations: _Optional[_Iterable[int]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("group", "topic", "member")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    member: str
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., member: _Optional[str] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("group", "topic", "offsets")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    offsets: _containers.RepeatedCompositeFieldContainer[QueueOffset]
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[QueueOffset, _Mapping]]] = ...) -> None: ...

class QueueOffset(_message.Message):
    __slots__ = ("queue_id", "offset", "is_retry", "generation")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    offset: int
    is_retry: bool
    generation: int
    def __init__(self, queue_id: _Optional[int] = ..., offset: _Optional[int] = ..., is_retry: bool = ..., generation: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("topic", "group", "max_messages", "max_bytes", "wait_ms", "lease_ms", "max_retries", "filter", "filter_is_sql", "from_latest")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    FILTER_IS_SQL_FIELD_NUMBER: _ClassVar[int]
    FROM_LATEST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    max_messages: int
    max_bytes: int
    wait_ms: int
    lease_ms: int
    max_retries: int
    filter: str
    filter_is_sql: bool
    from_latest: bool
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., max_retries: _Optional[int] = ..., filter: _Optional[str] = ..., filter_is_sql: bool = ..., from_latest: bool = ...) -> None: ...

class LeaseAnswer(_message.Message):
    __slots__ = ("token", "deadline", "counts")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    token: int
    deadline: int
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, token: _Optional[int] = ..., deadline: _Optional[int] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("topic", "group", "acked", "failed")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    acked: _containers.RepeatedCompositeFieldContainer[Leased]
    failed: _containers.RepeatedCompositeFieldContainer[FailedTry]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., acked: _Optional[_Iterable[_Union[Leased, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[FailedTry, _Mapping]]] = ...) -> None: ...

class Leased(_message.Message):
    __slots__ = ("queue_id", "is_retry", "token", "offsets")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    is_retry: bool
    token: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, queue_id: _Optional[int] = ..., is_retry: bool = ..., token: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class FailedTry(_message.Message):
    __slots__ = ("queue_id", "is_retry", "token", "offset", "delay_ms", "max_retries", "is_final", "reason", "error", "stack", "consumer", "count", "detail", "is_untried")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    IS_UNTRIED_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    is_retry: bool
    token: int
    offset: int
    delay_ms: int
    max_retries: int
    is_final: bool
    reason: int
    error: str
    stack: str
    consumer: str
    count: int
    detail: str
    is_untried: bool
    def __init__(self, queue_id: _Optional[int] = ..., is_retry: bool = ..., token: _Optional[int] = ..., offset: _Optional[int] = ..., delay_ms: _Optional[int] = ..., max_retries: _Optional[int] = ..., is_final: bool = ..., reason: _Optional[int] = ..., error: _Optional[str] = ..., stack: _Optional[str] = ..., consumer: _Optional[str] = ..., count: _Optional[int] = ..., detail: _Optional[str] = ..., is_untried: bool = ...) -> None: ...

class SettleAnswer(_message.Message):
    __slots__ = ("unsettled",)
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    unsettled: _containers.RepeatedCompositeFieldContainer[Unsettled]
    def __init__(self, unsettled: _Optional[_Iterable[_Union[Unsettled, _Mapping]]] = ...) -> None: ...

class Unsettled(_message.Message):
    __slots__ = ("queue_id", "is_retry", "offset", "code", "message")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    is_retry: bool
    offset: int
    code: int
    message: str
    def __init__(self, queue_id: _Optional[int] = ..., is_retry: bool = ..., offset: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("topic", "group", "lease_ms", "leases")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    group: str
    lease_ms: int
    leases: _containers.RepeatedCompositeFieldContainer[Leased]
    def __init__(self, topic: _Optional[str] = ..., group: _Optional[str] = ..., lease_ms: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[Leased, _Mapping]]] = ...) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GroupAnswer(_message.Message):
    __slots__ = ("known", "paused", "queues", "members", "resets", "waiting_tries")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    WAITING_TRIES_FIELD_NUMBER: _ClassVar[int]
    known: bool
    paused: bool
    queues: _containers.RepeatedCompositeFieldContainer[GroupQueueState]
    members: _containers.RepeatedCompositeFieldContainer[GroupMember]
    resets: _containers.RepeatedCompositeFieldContainer[GroupReset]
    waiting_tries: int
    def __init__(self, known: bool = ..., paused: bool = ..., queues: _Optional[_Iterable[_Union[GroupQueueState, _Mapping]]] = ..., members: _Optional[_Iterable[_Union[GroupMember, _Mapping]]] = ..., resets: _Optional[_Iterable[_Union[GroupReset, _Mapping]]] = ..., waiting_tries: _Optional[int] = ...) -> None: ...

class GroupQueueState(_message.Message):
    __slots__ = ("topic", "range", "is_retry", "committed", "lag", "in_flight", "member", "oldest", "lost", "lost_at")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LOST_AT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    range: QueueRange
    is_retry: bool
    committed: int
    lag: int
    in_flight: int
    member: str
    oldest: int
    lost: int
    lost_at: int
    def __init__(self, topic: _Optional[str] = ..., range: _Optional[_Union[QueueRange, _Mapping]] = ..., is_retry: bool = ..., committed: _Optional[int] = ..., lag: _Optional[int] = ..., in_flight: _Optional[int] = ..., member: _Optional[str] = ..., oldest: _Optional[int] = ..., lost: _Optional[int] = ..., lost_at: _Optional[int] = ...) -> None: ...

class GroupMember(_message.Message):
    __slots__ = ("member", "peer", "topic", "queues", "zone", "is_connected")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    IS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    member: str
    peer: str
    topic: str
    queues: int
    zone: str
    is_connected: bool
    def __init__(self, member: _Optional[str] = ..., peer: _Optional[str] = ..., topic: _Optional[str] = ..., queues: _Optional[int] = ..., zone: _Optional[str] = ..., is_connected: bool = ...) -> None: ...

class GroupReset(_message.Message):
    __slots__ = ("reset_id", "undoes", "at", "queues")
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    reset_id: str
    undoes: str
    at: int
    queues: int
    def __init__(self, reset_id: _Optional[str] = ..., undoes: _Optional[str] = ..., at: _Optional[int] = ..., queues: _Optional[int] = ...) -> None: ...

class GroupsAnswer(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupSummary]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupSummary, _Mapping]]] = ...) -> None: ...

class GroupSummary(_message.Message):
    __slots__ = ("group", "paused", "members", "lag", "topics")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group: str
    paused: bool
    members: int
    lag: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., paused: bool = ..., members: _Optional[int] = ..., lag: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("group", "topic", "to", "value", "queue_ids", "planned", "reset_id", "force")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    to: str
    value: int
    queue_ids: _containers.RepeatedScalarFieldContainer[int]
    planned: _containers.RepeatedCompositeFieldContainer[QueueOffset]
    reset_id: str
    force: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., to: _Optional[str] = ..., value: _Optional[int] = ..., queue_ids: _Optional[_Iterable[int]] = ..., planned: _Optional[_Iterable[_Union[QueueOffset, _Mapping]]] = ..., reset_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class UndoRequest(_message.Message):
    __slots__ = ("group", "topic", "reset_id", "undo_id", "dry_run", "force")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    UNDO_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    reset_id: str
    undo_id: str
    dry_run: bool
    force: bool
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., reset_id: _Optional[str] = ..., undo_id: _Optional[str] = ..., dry_run: bool = ..., force: bool = ...) -> None: ...

class ResetAnswer(_message.Message):
    __slots__ = ("reset_id", "steps", "members", "in_flight")
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    reset_id: str
    steps: _containers.RepeatedCompositeFieldContainer[ResetStep]
    members: int
    in_flight: int
    def __init__(self, reset_id: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[ResetStep, _Mapping]]] = ..., members: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class ResetStep(_message.Message):
    __slots__ = ("queue_id", "before", "after", "least", "next")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    before: int
    after: int
    least: int
    next: int
    def __init__(self, queue_id: _Optional[int] = ..., before: _Optional[int] = ..., after: _Optional[int] = ..., least: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("group", "paused")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    group: str
    paused: bool
    def __init__(self, group: _Optional[str] = ..., paused: bool = ...) -> None: ...

class OffsetAtTimeRequest(_message.Message):
    __slots__ = ("topic", "queue_id", "store_timestamp")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    STORE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    store_timestamp: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., store_timestamp: _Optional[int] = ...) -> None: ...

class OffsetAnswer(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class FindRequest(_message.Message):
    __slots__ = ("topic", "key", "most")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    key: str
    most: int
    def __init__(self, topic: _Optional[str] = ..., key: _Optional[str] = ..., most: _Optional[int] = ...) -> None: ...

class DeadTopicsAnswer(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[DeadTopic]
    def __init__(self, topics: _Optional[_Iterable[_Union[DeadTopic, _Mapping]]] = ...) -> None: ...

class DeadTopic(_message.Message):
    __slots__ = ("topic", "letters")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    letters: int
    def __init__(self, topic: _Optional[str] = ..., letters: _Optional[int] = ...) -> None: ...

class DeadSelection(_message.Message):
    __slots__ = ("message_ids", "since", "until", "reasons", "group", "fingerprint", "undecodable")
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    UNDECODABLE_FIELD_NUMBER: _ClassVar[int]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    since: int
    until: int
    reasons: _containers.RepeatedScalarFieldContainer[int]
    group: str
    fingerprint: str
    undecodable: bool
    def __init__(self, message_ids: _Optional[_Iterable[str]] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., reasons: _Optional[_Iterable[int]] = ..., group: _Optional[str] = ..., fingerprint: _Optional[str] = ..., undecodable: bool = ...) -> None: ...

class DeadLettersRequest(_message.Message):
    __slots__ = ("topic", "selection", "after", "most", "whole")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    selection: DeadSelection
    after: int
    most: int
    whole: bool
    def __init__(self, topic: _Optional[str] = ..., selection: _Optional[_Union[DeadSelection, _Mapping]] = ..., after: _Optional[int] = ..., most: _Optional[int] = ..., whole: bool = ...) -> None: ...

class DeadLettersAnswer(_message.Message):
    __slots__ = ("letters", "is_end", "next_after")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    IS_END_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetterFacts]
    is_end: bool
    next_after: int
    def __init__(self, letters: _Optional[_Iterable[_Union[DeadLetterFacts, _Mapping]]] = ..., is_end: bool = ..., next_after: _Optional[int] = ...) -> None: ...

class DeadLetterFacts(_message.Message):
    __slots__ = ("log_offset", "queue_offset", "message_id", "keys", "reason", "detail", "group", "consumer", "error", "tries", "dead_at", "fingerprint", "size")
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_AT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    log_offset: int
    queue_offset: int
    message_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    reason: int
    detail: str
    group: str
    consumer: str
    error: str
    tries: int
    dead_at: int
    fingerprint: str
    size: int
    def __init__(self, log_offset: _Optional[int] = ..., queue_offset: _Optional[int] = ..., message_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., reason: _Optional[int] = ..., detail: _Optional[str] = ..., group: _Optional[str] = ..., consumer: _Optional[str] = ..., error: _Optional[str] = ..., tries: _Optional[int] = ..., dead_at: _Optional[int] = ..., fingerprint: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("topic", "selection", "messages_per_s", "dry_run", "drop")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_PER_S_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    selection: DeadSelection
    messages_per_s: int
    dry_run: bool
    drop: bool
    def __init__(self, topic: _Optional[str] = ..., selection: _Optional[_Union[DeadSelection, _Mapping]] = ..., messages_per_s: _Optional[int] = ..., dry_run: bool = ..., drop: bool = ...) -> None: ...

class FollowRedriveRequest(_message.Message):
    __slots__ = ("redrive_id", "wait_ms")
    REDRIVE_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    redrive_id: int
    wait_ms: int
    def __init__(self, redrive_id: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class RedriveAnswer(_message.Message):
    __slots__ = ("redrive_id", "state", "letters", "examined", "selected", "done", "gone", "expired", "problem", "damaged")
    REDRIVE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    EXAMINED_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    redrive_id: int
    state: str
    letters: int
    examined: int
    selected: int
    done: int
    gone: int
    expired: int
    problem: str
    damaged: int
    def __init__(self, redrive_id: _Optional[int] = ..., state: _Optional[str] = ..., letters: _Optional[int] = ..., examined: _Optional[int] = ..., selected: _Optional[int] = ..., done: _Optional[int] = ..., gone: _Optional[int] = ..., expired: _Optional[int] = ..., problem: _Optional[str] = ..., damaged: _Optional[int] = ...) -> None: ...

class RedriveRecordsRequest(_message.Message):
    __slots__ = ("topic", "log_offsets")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    log_offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., log_offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class RedriveRecordsAnswer(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, done: _Optional[_Iterable[bool]] = ...) -> None: ...

class WhyRequest(_message.Message):
    __slots__ = ("topic", "message_id", "group")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_id: str
    group: str
    def __init__(self, topic: _Optional[str] = ..., message_id: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class WhyAnswer(_message.Message):
    __slots__ = ("verdict", "topic", "sentence", "advice", "facts")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    verdict: str
    topic: str
    sentence: str
    advice: str
    facts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verdict: _Optional[str] = ..., topic: _Optional[str] = ..., sentence: _Optional[str] = ..., advice: _Optional[str] = ..., facts: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelTimersRequest(_message.Message):
    __slots__ = ("topic", "message_ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topic: _Optional[str] = ..., message_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CancelTimersAnswer(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, outcomes: _Optional[_Iterable[int]] = ...) -> None: ...

class TimerBatchRequest(_message.Message):
    __slots__ = ("topic", "batch_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    batch_id: str
    def __init__(self, topic: _Optional[str] = ..., batch_id: _Optional[str] = ...) -> None: ...

class RescheduleRequest(_message.Message):
    __slots__ = ("topic", "message_id", "due")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_id: str
    due: int
    def __init__(self, topic: _Optional[str] = ..., message_id: _Optional[str] = ..., due: _Optional[int] = ...) -> None: ...

class TimerRequest(_message.Message):
    __slots__ = ("topic", "message_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    message_id: str
    def __init__(self, topic: _Optional[str] = ..., message_id: _Optional[str] = ...) -> None: ...

class ListTimersRequest(_message.Message):
    __slots__ = ("topic", "since", "until", "key", "batch_id", "after_due", "after_pending", "most", "count_only")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_DUE_FIELD_NUMBER: _ClassVar[int]
    AFTER_PENDING_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    COUNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    topic: str
    since: int
    until: int
    key: str
    batch_id: str
    after_due: int
    after_pending: int
    most: int
    count_only: bool
    def __init__(self, topic: _Optional[str] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., key: _Optional[str] = ..., batch_id: _Optional[str] = ..., after_due: _Optional[int] = ..., after_pending: _Optional[int] = ..., most: _Optional[int] = ..., count_only: bool = ...) -> None: ...

class TimersAnswer(_message.Message):
    __slots__ = ("timers", "is_end", "next_due", "next_pending", "count")
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    IS_END_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PENDING_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    timers: _containers.RepeatedCompositeFieldContainer[TimerFacts]
    is_end: bool
    next_due: int
    next_pending: int
    count: int
    def __init__(self, timers: _Optional[_Iterable[_Union[TimerFacts, _Mapping]]] = ..., is_end: bool = ..., next_due: _Optional[int] = ..., next_pending: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class TimerFacts(_message.Message):
    __slots__ = ("message_id", "state", "due", "delay_time", "keys", "batch_id", "size", "queue_id", "sent_at", "pending")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    DELAY_TIME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    state: int
    due: int
    delay_time: int
    keys: _containers.RepeatedScalarFieldContainer[str]
    batch_id: str
    size: int
    queue_id: int
    sent_at: int
    pending: int
    def __init__(self, message_id: _Optional[str] = ..., state: _Optional[int] = ..., due: _Optional[int] = ..., delay_time: _Optional[int] = ..., keys: _Optional[_Iterable[str]] = ..., batch_id: _Optional[str] = ..., size: _Optional[int] = ..., queue_id: _Optional[int] = ..., sent_at: _Optional[int] = ..., pending: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("topic", "queues", "automatic", "settings")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queues: int
    automatic: bool
    settings: TopicSettings
    def __init__(self, topic: _Optional[str] = ..., queues: _Optional[int] = ..., automatic: bool = ..., settings: _Optional[_Union[TopicSettings, _Mapping]] = ...) -> None: ...

class TopicSettings(_message.Message):
    __slots__ = ("has_priorities", "weighted_priorities", "ttl_ms", "max_backlog", "backlog_dead_letters", "archived", "archive_wait_ms", "check_after_ms", "check_every_ms", "max_checks", "retention_ms", "schemas", "compatibility", "visibility", "replica_ack", "min_in_sync")
    HAS_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACK_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    has_priorities: bool
    weighted_priorities: bool
    ttl_ms: int
    max_backlog: int
    backlog_dead_letters: bool
    archived: int
    archive_wait_ms: int
    check_after_ms: int
    check_every_ms: int
    max_checks: int
    retention_ms: int
    schemas: _containers.RepeatedScalarFieldContainer[str]
    compatibility: int
    visibility: int
    replica_ack: int
    min_in_sync: int
    def __init__(self, has_priorities: bool = ..., weighted_priorities: bool = ..., ttl_ms: _Optional[int] = ..., max_backlog: _Optional[int] = ..., backlog_dead_letters: bool = ..., archived: _Optional[int] = ..., archive_wait_ms: _Optional[int] = ..., check_after_ms: _Optional[int] = ..., check_every_ms: _Optional[int] = ..., max_checks: _Optional[int] = ..., retention_ms: _Optional[int] = ..., schemas: _Optional[_Iterable[str]] = ..., compatibility: _Optional[int] = ..., visibility: _Optional[int] = ..., replica_ack: _Optional[int] = ..., min_in_sync: _Optional[int] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("topic", "weighted_priorities", "ttl_ms", "max_backlog", "backlog_dead_letters", "archived", "archive_wait_ms", "check_after_ms", "check_every_ms", "max_checks", "retention_ms", "schema", "compatibility", "visibility", "replica_ack", "min_in_sync")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACK_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    weighted_priorities: bool
    ttl_ms: int
    max_backlog: int
    backlog_dead_letters: bool
    archived: int
    archive_wait_ms: int
    check_after_ms: int
    check_every_ms: int
    max_checks: int
    retention_ms: int
    schema: str
    compatibility: int
    visibility: int
    replica_ack: int
    min_in_sync: int
    def __init__(self, topic: _Optional[str] = ..., weighted_priorities: bool = ..., ttl_ms: _Optional[int] = ..., max_backlog: _Optional[int] = ..., backlog_dead_letters: bool = ..., archived: _Optional[int] = ..., archive_wait_ms: _Optional[int] = ..., check_after_ms: _Optional[int] = ..., check_every_ms: _Optional[int] = ..., max_checks: _Optional[int] = ..., retention_ms: _Optional[int] = ..., schema: _Optional[str] = ..., compatibility: _Optional[int] = ..., visibility: _Optional[int] = ..., replica_ack: _Optional[int] = ..., min_in_sync: _Optional[int] = ...) -> None: ...

class TopicRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class TopicAnswer(_message.Message):
    __slots__ = ("topic", "queues", "settings", "topic_id", "created_at")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueRange]
    settings: TopicSettings
    topic_id: int
    created_at: int
    def __init__(self, topic: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueRange, _Mapping]]] = ..., settings: _Optional[_Union[TopicSettings, _Mapping]] = ..., topic_id: _Optional[int] = ..., created_at: _Optional[int] = ...) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("include_system",)
    INCLUDE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    include_system: bool
    def __init__(self, include_system: bool = ...) -> None: ...

class TopicsAnswer(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicQueues]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicQueues, _Mapping]]] = ...) -> None: ...

class TopicQueues(_message.Message):
    __slots__ = ("topic", "queues", "has_priorities")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    HAS_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queues: int
    has_priorities: bool
    def __init__(self, topic: _Optional[str] = ..., queues: _Optional[int] = ..., has_priorities: bool = ...) -> None: ...

class BrokerFacts(_message.Message):
    __slots__ = ("name", "host", "port", "started_at", "default_durability", "topics", "software", "epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_DURABILITY_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    started_at: int
    default_durability: int
    topics: _containers.RepeatedCompositeFieldContainer[TopicQueues]
    software: str
    epoch: int
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., started_at: _Optional[int] = ..., default_durability: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[TopicQueues, _Mapping]]] = ..., software: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("name", "started_at", "epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    started_at: int
    epoch: int
    def __init__(self, name: _Optional[str] = ..., started_at: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("known", "heartbeat_ms", "lease_ms")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    known: bool
    heartbeat_ms: int
    lease_ms: int
    def __init__(self, known: bool = ..., heartbeat_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class RouteAnswer(_message.Message):
    __slots__ = ("brokers",)
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerRoute]
    def __init__(self, brokers: _Optional[_Iterable[_Union[BrokerRoute, _Mapping]]] = ...) -> None: ...

class BrokerRoute(_message.Message):
    __slots__ = ("name", "host", "port", "queues", "default_durability", "has_priorities")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_DURABILITY_FIELD_NUMBER: _ClassVar[int]
    HAS_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    queues: int
    default_durability: int
    has_priorities: bool
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., queues: _Optional[int] = ..., default_durability: _Optional[int] = ..., has_priorities: bool = ...) -> None: ...

class BrokersAnswer(_message.Message):
    __slots__ = ("brokers",)
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerState]
    def __init__(self, brokers: _Optional[_Iterable[_Union[BrokerState, _Mapping]]] = ...) -> None: ...

class BrokerState(_message.Message):
    __slots__ = ("facts", "alive", "heard_ms_ago")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    facts: BrokerFacts
    alive: bool
    heard_ms_ago: int
    def __init__(self, facts: _Optional[_Union[BrokerFacts, _Mapping]] = ..., alive: bool = ..., heard_ms_ago: _Optional[int] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("query", "batch", "partition", "attempt")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    partition: int
    attempt: int
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., partition: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class SendHalvesRequest(_message.Message):
    __slots__ = ("topic", "queue_id", "attempt", "first")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_id: int
    attempt: Attempt
    first: int
    def __init__(self, topic: _Optional[str] = ..., queue_id: _Optional[int] = ..., attempt: _Optional[_Union[Attempt, _Mapping]] = ..., first: _Optional[int] = ...) -> None: ...

class SendHalvesAnswer(_message.Message):
    __slots__ = ("next",)
    NEXT_FIELD_NUMBER: _ClassVar[int]
    next: int
    def __init__(self, next: _Optional[int] = ...) -> None: ...

class CommitSinkRequest(_message.Message):
    __slots__ = ("query", "batch", "winners", "plan")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    winners: _containers.RepeatedCompositeFieldContainer[Winner]
    plan: bytes
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., winners: _Optional[_Iterable[_Union[Winner, _Mapping]]] = ..., plan: _Optional[bytes] = ...) -> None: ...

class Winner(_message.Message):
    __slots__ = ("partition", "attempt", "count")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    attempt: int
    count: int
    def __init__(self, partition: _Optional[int] = ..., attempt: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class SinkPlan(_message.Message):
    __slots__ = ("shares",)
    SHARES_FIELD_NUMBER: _ClassVar[int]
    shares: _containers.RepeatedCompositeFieldContainer[SinkShare]
    def __init__(self, shares: _Optional[_Iterable[_Union[SinkShare, _Mapping]]] = ...) -> None: ...

class SinkShare(_message.Message):
    __slots__ = ("broker", "winners")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    broker: str
    winners: _containers.RepeatedCompositeFieldContainer[Winner]
    def __init__(self, broker: _Optional[str] = ..., winners: _Optional[_Iterable[_Union[Winner, _Mapping]]] = ...) -> None: ...

class AbortSinkRequest(_message.Message):
    __slots__ = ("query", "batch")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ...) -> None: ...

class DescribeSinkRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: str
    def __init__(self, query: _Optional[str] = ...) -> None: ...

class SinkAnswer(_message.Message):
    __slots__ = ("committed_batch", "waiting", "undecided", "plan")
    COMMITTED_BATCH_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    committed_batch: int
    waiting: int
    undecided: int
    plan: bytes
    def __init__(self, committed_batch: _Optional[int] = ..., waiting: _Optional[int] = ..., undecided: _Optional[int] = ..., plan: _Optional[bytes] = ...) -> None: ...

class ArchivedThroughRequest(_message.Message):
    __slots__ = ("topic", "location", "queues", "replaces")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    location: str
    queues: _containers.RepeatedCompositeFieldContainer[ArchivedQueue]
    replaces: bool
    def __init__(self, topic: _Optional[str] = ..., location: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[ArchivedQueue, _Mapping]]] = ..., replaces: bool = ...) -> None: ...

class ArchivedQueue(_message.Message):
    __slots__ = ("queue_id", "begin", "next", "kept")
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    queue_id: int
    begin: int
    next: int
    kept: int
    def __init__(self, queue_id: _Optional[int] = ..., begin: _Optional[int] = ..., next: _Optional[int] = ..., kept: _Optional[int] = ...) -> None: ...

class ArchiveAnswer(_message.Message):
    __slots__ = ("location", "queues", "reported_at", "topic_id", "ttl_ms")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REPORTED_AT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    location: str
    queues: _containers.RepeatedCompositeFieldContainer[ArchivedQueue]
    reported_at: int
    topic_id: int
    ttl_ms: int
    def __init__(self, location: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[ArchivedQueue, _Mapping]]] = ..., reported_at: _Optional[int] = ..., topic_id: _Optional[int] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class PutJobsRequest(_message.Message):
    __slots__ = ("jobs", "how", "dry_run")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.JobDefinition]
    how: int
    dry_run: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[_jobs_pb2.JobDefinition, _Mapping]]] = ..., how: _Optional[int] = ..., dry_run: bool = ...) -> None: ...

class PutJobsAnswer(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[JobOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[JobOutcome, _Mapping]]] = ...) -> None: ...

class JobOutcome(_message.Message):
    __slots__ = ("done", "code", "problem")
    DONE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    done: str
    code: int
    problem: str
    def __init__(self, done: _Optional[str] = ..., code: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class JobOutcomes(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[JobOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[JobOutcome, _Mapping]]] = ...) -> None: ...

class JobsRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PauseJobsRequest(_message.Message):
    __slots__ = ("ids", "paused")
    IDS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    paused: bool
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., paused: bool = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("after", "most", "topic", "group", "prefix", "paused")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    after: int
    most: int
    topic: str
    group: str
    prefix: str
    paused: bool
    def __init__(self, after: _Optional[int] = ..., most: _Optional[int] = ..., topic: _Optional[str] = ..., group: _Optional[str] = ..., prefix: _Optional[str] = ..., paused: bool = ...) -> None: ...

class JobsAnswer(_message.Message):
    __slots__ = ("jobs", "next_after", "is_end", "count")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    IS_END_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobFacts]
    next_after: int
    is_end: bool
    count: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobFacts, _Mapping]]] = ..., next_after: _Optional[int] = ..., is_end: bool = ..., count: _Optional[int] = ...) -> None: ...

class JobFacts(_message.Message):
    __slots__ = ("number", "definition", "next_tick", "last_tick", "last_at", "sent", "skipped", "missed", "failed", "running", "queued")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_TICK_FIELD_NUMBER: _ClassVar[int]
    LAST_TICK_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    number: int
    definition: _jobs_pb2.JobDefinition
    next_tick: int
    last_tick: int
    last_at: int
    sent: int
    skipped: int
    missed: int
    failed: int
    running: bool
    queued: int
    def __init__(self, number: _Optional[int] = ..., definition: _Optional[_Union[_jobs_pb2.JobDefinition, _Mapping]] = ..., next_tick: _Optional[int] = ..., last_tick: _Optional[int] = ..., last_at: _Optional[int] = ..., sent: _Optional[int] = ..., skipped: _Optional[int] = ..., missed: _Optional[int] = ..., failed: _Optional[int] = ..., running: bool = ..., queued: _Optional[int] = ...) -> None: ...

class TriggerJobRequest(_message.Message):
    __slots__ = ("id", "trigger_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    trigger_id: str
    def __init__(self, id: _Optional[str] = ..., trigger_id: _Optional[str] = ...) -> None: ...

class TriggerJobAnswer(_message.Message):
    __slots__ = ("message_id",)
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    def __init__(self, message_id: _Optional[str] = ...) -> None: ...

class BackfillJobRequest(_message.Message):
    __slots__ = ("id", "since", "until", "dry_run")
    ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    id: str
    since: int
    until: int
    dry_run: bool
    def __init__(self, id: _Optional[str] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., dry_run: bool = ...) -> None: ...

class BackfillJobAnswer(_message.Message):
    __slots__ = ("sent", "there", "next_since")
    SENT_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    NEXT_SINCE_FIELD_NUMBER: _ClassVar[int]
    sent: int
    there: int
    next_since: int
    def __init__(self, sent: _Optional[int] = ..., there: _Optional[int] = ..., next_since: _Optional[int] = ...) -> None: ...

class JobHistoryRequest(_message.Message):
    __slots__ = ("id", "most")
    ID_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    id: str
    most: int
    def __init__(self, id: _Optional[str] = ..., most: _Optional[int] = ...) -> None: ...

class JobHistoryAnswer(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[JobRun]
    def __init__(self, runs: _Optional[_Iterable[_Union[JobRun, _Mapping]]] = ...) -> None: ...

class JobRun(_message.Message):
    __slots__ = ("message_id", "tick", "sent_at", "queue_id", "queue_offset", "state")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    tick: int
    sent_at: int
    queue_id: int
    queue_offset: int
    state: str
    def __init__(self, message_id: _Optional[str] = ..., tick: _Optional[int] = ..., sent_at: _Optional[int] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., state: _Optional[str] = ...) -> None: ...

class SendHalfRequest(_message.Message):
    __slots__ = ("topic", "queue_ids")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_IDS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    queue_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., queue_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class SendHalfAnswer(_message.Message):
    __slots__ = ("store_timestamp", "refused")
    STORE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    store_timestamp: int
    refused: _containers.RepeatedCompositeFieldContainer[HalfRefused]
    def __init__(self, store_timestamp: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[HalfRefused, _Mapping]]] = ...) -> None: ...

class HalfRefused(_message.Message):
    __slots__ = ("number", "failure")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    number: int
    failure: Failure
    def __init__(self, number: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class EndTransactionsRequest(_message.Message):
    __slots__ = ("ends",)
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedCompositeFieldContainer[TransactionEnd]
    def __init__(self, ends: _Optional[_Iterable[_Union[TransactionEnd, _Mapping]]] = ...) -> None: ...

class TransactionEnd(_message.Message):
    __slots__ = ("transaction", "outcome", "count")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    outcome: TransactionState
    count: int
    def __init__(self, transaction: _Optional[str] = ..., outcome: _Optional[_Union[TransactionState, str]] = ..., count: _Optional[int] = ...) -> None: ...

class EndTransactionsAnswer(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[TransactionState]
    def __init__(self, states: _Optional[_Iterable[_Union[TransactionState, str]]] = ...) -> None: ...

class CheckTransactionsRequest(_message.Message):
    __slots__ = ("group", "wait_ms", "most")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    group: str
    wait_ms: int
    most: int
    def __init__(self, group: _Optional[str] = ..., wait_ms: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class CheckTransactionsAnswer(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionFacts]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionFacts, _Mapping]]] = ...) -> None: ...

class TransactionFacts(_message.Message):
    __slots__ = ("transaction", "group", "state", "records", "bytes", "stored_at", "checks", "next_check_at", "topics", "story", "is_sink")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_AT_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHECK_AT_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    STORY_FIELD_NUMBER: _ClassVar[int]
    IS_SINK_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    group: str
    state: TransactionState
    records: int
    bytes: int
    stored_at: int
    checks: int
    next_check_at: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    story: _containers.RepeatedCompositeFieldContainer[TransactionCheckFacts]
    is_sink: bool
    def __init__(self, transaction: _Optional[str] = ..., group: _Optional[str] = ..., state: _Optional[_Union[TransactionState, str]] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., stored_at: _Optional[int] = ..., checks: _Optional[int] = ..., next_check_at: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., story: _Optional[_Iterable[_Union[TransactionCheckFacts, _Mapping]]] = ..., is_sink: bool = ...) -> None: ...

class TransactionCheckFacts(_message.Message):
    __slots__ = ("at", "asked", "unknown")
    AT_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    at: int
    asked: str
    unknown: bool
    def __init__(self, at: _Optional[int] = ..., asked: _Optional[str] = ..., unknown: bool = ...) -> None: ...

class DescribeTransactionRequest(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    def __init__(self, transaction: _Optional[str] = ...) -> None: ...

class TransactionAnswer(_message.Message):
    __slots__ = ("facts",)
    FACTS_FIELD_NUMBER: _ClassVar[int]
    facts: TransactionFacts
    def __init__(self, facts: _Optional[_Union[TransactionFacts, _Mapping]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("group", "topic", "stored_before", "state", "include_sinks", "after", "most")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STORED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SINKS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    stored_before: int
    state: TransactionState
    include_sinks: bool
    after: str
    most: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., stored_before: _Optional[int] = ..., state: _Optional[_Union[TransactionState, str]] = ..., include_sinks: bool = ..., after: _Optional[str] = ..., most: _Optional[int] = ...) -> None: ...

class TransactionsAnswer(_message.Message):
    __slots__ = ("transactions", "next_after", "is_end")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    IS_END_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionFacts]
    next_after: str
    is_end: bool
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionFacts, _Mapping]]] = ..., next_after: _Optional[str] = ..., is_end: bool = ...) -> None: ...

class FollowLogRequest(_message.Message):
    __slots__ = ("group", "store_id", "log_start", "log_end", "epochs", "copies")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    group: str
    store_id: bytes
    log_start: int
    log_end: int
    epochs: _containers.RepeatedCompositeFieldContainer[LogEpoch]
    copies: bool
    def __init__(self, group: _Optional[str] = ..., store_id: _Optional[bytes] = ..., log_start: _Optional[int] = ..., log_end: _Optional[int] = ..., epochs: _Optional[_Iterable[_Union[LogEpoch, _Mapping]]] = ..., copies: bool = ...) -> None: ...

class LogEpoch(_message.Message):
    __slots__ = ("number", "start")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    number: int
    start: int
    def __init__(self, number: _Optional[int] = ..., start: _Optional[int] = ...) -> None: ...

class FollowLogAnswer(_message.Message):
    __slots__ = ("epoch", "session", "begin", "log_start", "log_end", "segment_bytes", "confirm", "must_copy", "is_unclean", "checked_at", "checked_crc")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    MUST_COPY_FIELD_NUMBER: _ClassVar[int]
    IS_UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    CHECKED_AT_FIELD_NUMBER: _ClassVar[int]
    CHECKED_CRC_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    session: int
    begin: int
    log_start: int
    log_end: int
    segment_bytes: int
    confirm: int
    must_copy: bool
    is_unclean: bool
    checked_at: int
    checked_crc: int
    def __init__(self, epoch: _Optional[int] = ..., session: _Optional[int] = ..., begin: _Optional[int] = ..., log_start: _Optional[int] = ..., log_end: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., confirm: _Optional[int] = ..., must_copy: bool = ..., is_unclean: bool = ..., checked_at: _Optional[int] = ..., checked_crc: _Optional[int] = ...) -> None: ...

class FetchLogRequest(_message.Message):
    __slots__ = ("session", "received", "flushed", "max_bytes", "wait_ms")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    session: int
    received: int
    flushed: int
    max_bytes: int
    wait_ms: int
    def __init__(self, session: _Optional[int] = ..., received: _Optional[int] = ..., flushed: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class FetchLogAnswer(_message.Message):
    __slots__ = ("begin", "confirm", "log_end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    confirm: int
    log_end: int
    def __init__(self, begin: _Optional[int] = ..., confirm: _Optional[int] = ..., log_end: _Optional[int] = ...) -> None: ...

class ReportLogRequest(_message.Message):
    __slots__ = ("session", "received", "flushed", "leaves")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    session: int
    received: int
    flushed: int
    leaves: bool
    def __init__(self, session: _Optional[int] = ..., received: _Optional[int] = ..., flushed: _Optional[int] = ..., leaves: bool = ...) -> None: ...

class ReadStretchRequest(_message.Message):
    __slots__ = ("group", "store_id", "begin", "end")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    group: str
    store_id: bytes
    begin: int
    end: int
    def __init__(self, group: _Optional[str] = ..., store_id: _Optional[bytes] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ReplicaReport(_message.Message):
    __slots__ = ("group", "store_id", "broker_id", "host", "port", "last_epoch", "log_end", "priority", "wall_ms", "replicas", "min_in_sync", "segment_bytes", "known_version", "wait_ms", "is_stopping", "flushed", "confirm", "bytes_cut", "damaged_stretches", "cannot_open", "problem", "cut_at_ms", "confirm_epoch", "lacks_space", "known_epoch", "known_revision")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_STOPPING_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    BYTES_CUT_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_STRETCHES_FIELD_NUMBER: _ClassVar[int]
    CANNOT_OPEN_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CUT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LACKS_SPACE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    KNOWN_REVISION_FIELD_NUMBER: _ClassVar[int]
    group: str
    store_id: bytes
    broker_id: str
    host: str
    port: int
    last_epoch: int
    log_end: int
    priority: int
    wall_ms: int
    replicas: int
    min_in_sync: int
    segment_bytes: int
    known_version: int
    wait_ms: int
    is_stopping: bool
    flushed: int
    confirm: int
    bytes_cut: int
    damaged_stretches: int
    cannot_open: bool
    problem: str
    cut_at_ms: int
    confirm_epoch: int
    lacks_space: bool
    known_epoch: int
    known_revision: int
    def __init__(self, group: _Optional[str] = ..., store_id: _Optional[bytes] = ..., broker_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end: _Optional[int] = ..., priority: _Optional[int] = ..., wall_ms: _Optional[int] = ..., replicas: _Optional[int] = ..., min_in_sync: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., known_version: _Optional[int] = ..., wait_ms: _Optional[int] = ..., is_stopping: bool = ..., flushed: _Optional[int] = ..., confirm: _Optional[int] = ..., bytes_cut: _Optional[int] = ..., damaged_stretches: _Optional[int] = ..., cannot_open: bool = ..., problem: _Optional[str] = ..., cut_at_ms: _Optional[int] = ..., confirm_epoch: _Optional[int] = ..., lacks_space: bool = ..., known_epoch: _Optional[int] = ..., known_revision: _Optional[int] = ...) -> None: ...

class ReplicaGroup(_message.Message):
    __slots__ = ("name", "version", "epoch", "holder", "members", "min_in_sync", "segment_bytes", "revision", "is_leased", "replicas", "obstacle", "configured", "unclean_epoch", "facts_lost", "store", "warnings", "confirmed", "confirmed_epoch", "highest_confirm", "highest_confirm_of", "highest_confirm_ms_ago")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IS_LEASED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FACTS_LOST_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_CONFIRM_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_CONFIRM_OF_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_CONFIRM_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    epoch: int
    holder: bytes
    members: _containers.RepeatedScalarFieldContainer[bytes]
    min_in_sync: int
    segment_bytes: int
    revision: int
    is_leased: bool
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaFacts]
    obstacle: str
    configured: int
    unclean_epoch: int
    facts_lost: bool
    store: bytes
    warnings: _containers.RepeatedScalarFieldContainer[str]
    confirmed: int
    confirmed_epoch: int
    highest_confirm: int
    highest_confirm_of: str
    highest_confirm_ms_ago: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., epoch: _Optional[int] = ..., holder: _Optional[bytes] = ..., members: _Optional[_Iterable[bytes]] = ..., min_in_sync: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., revision: _Optional[int] = ..., is_leased: bool = ..., replicas: _Optional[_Iterable[_Union[ReplicaFacts, _Mapping]]] = ..., obstacle: _Optional[str] = ..., configured: _Optional[int] = ..., unclean_epoch: _Optional[int] = ..., facts_lost: bool = ..., store: _Optional[bytes] = ..., warnings: _Optional[_Iterable[str]] = ..., confirmed: _Optional[int] = ..., confirmed_epoch: _Optional[int] = ..., highest_confirm: _Optional[int] = ..., highest_confirm_of: _Optional[str] = ..., highest_confirm_ms_ago: _Optional[int] = ...) -> None: ...

class ReplicaFacts(_message.Message):
    __slots__ = ("store_id", "broker_id", "host", "port", "last_epoch", "log_end", "alive", "heard_ms_ago", "confirm", "bytes_cut", "damaged_stretches", "problem", "cut_at_ms", "lacks_space")
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_AGO_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    BYTES_CUT_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_STRETCHES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CUT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LACKS_SPACE_FIELD_NUMBER: _ClassVar[int]
    store_id: bytes
    broker_id: str
    host: str
    port: int
    last_epoch: int
    log_end: int
    alive: bool
    heard_ms_ago: int
    confirm: int
    bytes_cut: int
    damaged_stretches: int
    problem: str
    cut_at_ms: int
    lacks_space: bool
    def __init__(self, store_id: _Optional[bytes] = ..., broker_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end: _Optional[int] = ..., alive: bool = ..., heard_ms_ago: _Optional[int] = ..., confirm: _Optional[int] = ..., bytes_cut: _Optional[int] = ..., damaged_stretches: _Optional[int] = ..., problem: _Optional[str] = ..., cut_at_ms: _Optional[int] = ..., lacks_space: bool = ...) -> None: ...

class RenewMasterRequest(_message.Message):
    __slots__ = ("group", "epoch", "store_id", "releases")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    group: str
    epoch: int
    store_id: bytes
    releases: bool
    def __init__(self, group: _Optional[str] = ..., epoch: _Optional[int] = ..., store_id: _Optional[bytes] = ..., releases: bool = ...) -> None: ...

class RenewMasterAnswer(_message.Message):
    __slots__ = ("lease_ms",)
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    def __init__(self, lease_ms: _Optional[int] = ...) -> None: ...

class ChangeInSyncRequest(_message.Message):
    __slots__ = ("group", "epoch", "store_id", "revision", "members")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    group: str
    epoch: int
    store_id: bytes
    revision: int
    members: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, group: _Optional[str] = ..., epoch: _Optional[int] = ..., store_id: _Optional[bytes] = ..., revision: _Optional[int] = ..., members: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SwitchMasterRequest(_message.Message):
    __slots__ = ("group", "replica")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    group: str
    replica: str
    def __init__(self, group: _Optional[str] = ..., replica: _Optional[str] = ...) -> None: ...

class SwitchMasterAnswer(_message.Message):
    __slots__ = ("former", "master", "epoch", "paused_us")
    FORMER_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAUSED_US_FIELD_NUMBER: _ClassVar[int]
    former: str
    master: str
    epoch: int
    paused_us: int
    def __init__(self, former: _Optional[str] = ..., master: _Optional[str] = ..., epoch: _Optional[int] = ..., paused_us: _Optional[int] = ...) -> None: ...

class HandOverRequest(_message.Message):
    __slots__ = ("group", "epoch", "store_id", "revision", "successor")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    group: str
    epoch: int
    store_id: bytes
    revision: int
    successor: bytes
    def __init__(self, group: _Optional[str] = ..., epoch: _Optional[int] = ..., store_id: _Optional[bytes] = ..., revision: _Optional[int] = ..., successor: _Optional[bytes] = ...) -> None: ...

class RecoverGroupRequest(_message.Message):
    __slots__ = ("group", "applies", "forces")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    APPLIES_FIELD_NUMBER: _ClassVar[int]
    FORCES_FIELD_NUMBER: _ClassVar[int]
    group: str
    applies: bool
    forces: bool
    def __init__(self, group: _Optional[str] = ..., applies: bool = ..., forces: bool = ...) -> None: ...

class RecoverGroupAnswer(_message.Message):
    __slots__ = ("epoch", "members", "replicas", "configured", "uncertainty", "is_applied")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    UNCERTAINTY_FIELD_NUMBER: _ClassVar[int]
    IS_APPLIED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    members: _containers.RepeatedScalarFieldContainer[bytes]
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaFacts]
    configured: int
    uncertainty: str
    is_applied: bool
    def __init__(self, epoch: _Optional[int] = ..., members: _Optional[_Iterable[bytes]] = ..., replicas: _Optional[_Iterable[_Union[ReplicaFacts, _Mapping]]] = ..., configured: _Optional[int] = ..., uncertainty: _Optional[str] = ..., is_applied: bool = ...) -> None: ...

class ElectUncleanRequest(_message.Message):
    __slots__ = ("group", "replica", "revision")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    group: str
    replica: str
    revision: int
    def __init__(self, group: _Optional[str] = ..., replica: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class ReplicaGroupsAnswer(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ReplicaGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[ReplicaGroup, _Mapping]]] = ...) -> None: ...
