from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Control(_message.Message):
    __slots__ = ("topic_created", "topic_deleted", "offsets_committed", "retention_crossed", "lease_tick", "try_failed", "topic_changed", "group_changed", "offsets_reset", "timer_ended", "dead_letters_dropped", "sink_committed", "halves_rolled_back", "archived_through", "halves_skipped", "snapshot_begin", "snapshot_rows", "snapshot_end", "timers_ended", "timer_moved", "timer_batch_cancelled", "jobs_put", "jobs_deleted", "ticks_passed", "transactions_decided", "transactions_checked", "epoch_started")
    TOPIC_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_DELETED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_CROSSED_FIELD_NUMBER: _ClassVar[int]
    LEASE_TICK_FIELD_NUMBER: _ClassVar[int]
    TRY_FAILED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_CHANGED_FIELD_NUMBER: _ClassVar[int]
    GROUP_CHANGED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_RESET_FIELD_NUMBER: _ClassVar[int]
    TIMER_ENDED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    SINK_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    HALVES_ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    HALVES_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ROWS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    TIMERS_ENDED_FIELD_NUMBER: _ClassVar[int]
    TIMER_MOVED_FIELD_NUMBER: _ClassVar[int]
    TIMER_BATCH_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    JOBS_PUT_FIELD_NUMBER: _ClassVar[int]
    JOBS_DELETED_FIELD_NUMBER: _ClassVar[int]
    TICKS_PASSED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_DECIDED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_CHECKED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_STARTED_FIELD_NUMBER: _ClassVar[int]
    topic_created: TopicCreated
    topic_deleted: TopicDeleted
    offsets_committed: OffsetsCommitted
    retention_crossed: RetentionCrossed
    lease_tick: LeaseTick
    try_failed: TryFailed
    topic_changed: TopicChanged
    group_changed: GroupChanged
    offsets_reset: OffsetsReset
    timer_ended: TimerEnded
    dead_letters_dropped: DeadLettersDropped
    sink_committed: SinkCommitted
    halves_rolled_back: HalvesRolledBack
    archived_through: ArchivedThrough
    halves_skipped: HalvesSkipped
    snapshot_begin: SnapshotBegin
    snapshot_rows: SnapshotRows
    snapshot_end: SnapshotEnd
    timers_ended: TimersEnded
    timer_moved: TimerMoved
    timer_batch_cancelled: TimerBatchCancelled
    jobs_put: JobsPut
    jobs_deleted: JobsDeleted
    ticks_passed: TicksPassed
    transactions_decided: TransactionsDecided
    transactions_checked: TransactionsChecked
    epoch_started: EpochStarted
    def __init__(self, topic_created: _Optional[_Union[TopicCreated, _Mapping]] = ..., topic_deleted: _Optional[_Union[TopicDeleted, _Mapping]] = ..., offsets_committed: _Optional[_Union[OffsetsCommitted, _Mapping]] = ..., retention_crossed: _Optional[_Union[RetentionCrossed, _Mapping]] = ..., lease_tick: _Optional[_Union[LeaseTick, _Mapping]] = ..., try_failed: _Optional[_Union[TryFailed, _Mapping]] = ..., topic_changed: _Optional[_Union[TopicChanged, _Mapping]] = ..., group_changed: _Optional[_Union[GroupChanged, _Mapping]] = ..., offsets_reset: _Optional[_Union[OffsetsReset, _Mapping]] = ..., timer_ended: _Optional[_Union[TimerEnded, _Mapping]] = ..., dead_letters_dropped: _Optional[_Union[DeadLettersDropped, _Mapping]] = ..., sink_committed: _Optional[_Union[SinkCommitted, _Mapping]] = ..., halves_rolled_back: _Optional[_Union[HalvesRolledBack, _Mapping]] = ..., archived_through: _Optional[_Union[ArchivedThrough, _Mapping]] = ..., halves_skipped: _Optional[_Union[HalvesSkipped, _Mapping]] = ..., snapshot_begin: _Optional[_Union[SnapshotBegin, _Mapping]] = ..., snapshot_rows: _Optional[_Union[SnapshotRows, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ..., timers_ended: _Optional[_Union[TimersEnded, _Mapping]] = ..., timer_moved: _Optional[_Union[TimerMoved, _Mapping]] = ..., timer_batch_cancelled: _Optional[_Union[TimerBatchCancelled, _Mapping]] = ..., jobs_put: _Optional[_Union[JobsPut, _Mapping]] = ..., jobs_deleted: _Optional[_Union[JobsDeleted, _Mapping]] = ..., ticks_passed: _Optional[_Union[TicksPassed, _Mapping]] = ..., transactions_decided: _Optional[_Union[TransactionsDecided, _Mapping]] = ..., transactions_checked: _Optional[_Union[TransactionsChecked, _Mapping]] = ..., epoch_started: _Optional[_Union[EpochStarted, _Mapping]] = ...) -> None: ...

class EpochStarted(_message.Message):
    __slots__ = ("epoch", "store_id", "unclean")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    store_id: bytes
    unclean: bool
    def __init__(self, epoch: _Optional[int] = ..., store_id: _Optional[bytes] = ..., unclean: bool = ...) -> None: ...

class TopicCreated(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class TopicDeleted(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    def __init__(self, topic_id: _Optional[int] = ...) -> None: ...

class TopicChanged(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ...) -> None: ...

class OffsetsCommitted(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ...) -> None: ...

class RetentionCrossed(_message.Message):
    __slots__ = ("log_start", "queues", "losses", "unarchived", "at")
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    UNARCHIVED_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    log_start: int
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    losses: _containers.RepeatedCompositeFieldContainer[GroupLoss]
    unarchived: _containers.RepeatedCompositeFieldContainer[ArchiveLoss]
    at: int
    def __init__(self, log_start: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., losses: _Optional[_Iterable[_Union[GroupLoss, _Mapping]]] = ..., unarchived: _Optional[_Iterable[_Union[ArchiveLoss, _Mapping]]] = ..., at: _Optional[int] = ...) -> None: ...

class ArchiveLoss(_message.Message):
    __slots__ = ("topic_id", "queue_id", "from_offset", "to_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue_id: int
    from_offset: int
    to_offset: int
    def __init__(self, topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., from_offset: _Optional[int] = ..., to_offset: _Optional[int] = ...) -> None: ...

class GroupLoss(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "from_offset", "to_offset", "messages")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    from_offset: int
    to_offset: int
    messages: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., from_offset: _Optional[int] = ..., to_offset: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class GroupLost(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "messages", "at")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    messages: int
    at: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., messages: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...

class SnapshotBegin(_message.Message):
    __slots__ = ("as_of",)
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    as_of: int
    def __init__(self, as_of: _Optional[int] = ...) -> None: ...

class SnapshotRows(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("begin_offset", "row_count", "digest")
    BEGIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    begin_offset: int
    row_count: int
    digest: int
    def __init__(self, begin_offset: _Optional[int] = ..., row_count: _Optional[int] = ..., digest: _Optional[int] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("topic", "queue", "group_offset", "producer_runs", "leases", "waiting_try", "dead_letters", "timers", "group", "offsets_reset", "halves", "sink", "archived_through", "moved_timer", "cancelled_batch", "job", "outcomes", "group_lost")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GROUP_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_RUNS_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    WAITING_TRY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_RESET_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    MOVED_TIMER_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_BATCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    GROUP_LOST_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    queue: Queue
    group_offset: GroupOffset
    producer_runs: ProducerRuns
    leases: LeaseRow
    waiting_try: TryRow
    dead_letters: DeadRow
    timers: TimerTotals
    group: Group
    offsets_reset: OffsetsReset
    halves: HalvesRow
    sink: SinkRow
    archived_through: ArchivedThrough
    moved_timer: MovedTimer
    cancelled_batch: CancelledBatch
    job: JobRow
    outcomes: OutcomesRow
    group_lost: GroupLost
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., queue: _Optional[_Union[Queue, _Mapping]] = ..., group_offset: _Optional[_Union[GroupOffset, _Mapping]] = ..., producer_runs: _Optional[_Union[ProducerRuns, _Mapping]] = ..., leases: _Optional[_Union[LeaseRow, _Mapping]] = ..., waiting_try: _Optional[_Union[TryRow, _Mapping]] = ..., dead_letters: _Optional[_Union[DeadRow, _Mapping]] = ..., timers: _Optional[_Union[TimerTotals, _Mapping]] = ..., group: _Optional[_Union[Group, _Mapping]] = ..., offsets_reset: _Optional[_Union[OffsetsReset, _Mapping]] = ..., halves: _Optional[_Union[HalvesRow, _Mapping]] = ..., sink: _Optional[_Union[SinkRow, _Mapping]] = ..., archived_through: _Optional[_Union[ArchivedThrough, _Mapping]] = ..., moved_timer: _Optional[_Union[MovedTimer, _Mapping]] = ..., cancelled_batch: _Optional[_Union[CancelledBatch, _Mapping]] = ..., job: _Optional[_Union[JobRow, _Mapping]] = ..., outcomes: _Optional[_Union[OutcomesRow, _Mapping]] = ..., group_lost: _Optional[_Union[GroupLost, _Mapping]] = ...) -> None: ...

class LeaseRow(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "done", "grants", "page")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    done: _containers.RepeatedScalarFieldContainer[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    page: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., done: _Optional[_Iterable[int]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., page: _Optional[int] = ...) -> None: ...

class TryRow(_message.Message):
    __slots__ = ("group", "predecessor", "topic_id", "due", "count", "gone", "retry_topic_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PREDECESSOR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    RETRY_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    predecessor: int
    topic_id: int
    due: int
    count: int
    gone: bool
    retry_topic_id: int
    def __init__(self, group: _Optional[str] = ..., predecessor: _Optional[int] = ..., topic_id: _Optional[int] = ..., due: _Optional[int] = ..., count: _Optional[int] = ..., gone: bool = ..., retry_topic_id: _Optional[int] = ...) -> None: ...

class DeadRow(_message.Message):
    __slots__ = ("topic_id", "queue_id", "log_offset_steps", "queue_offset_steps", "page")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_STEPS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_STEPS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue_id: int
    log_offset_steps: _containers.RepeatedScalarFieldContainer[int]
    queue_offset_steps: _containers.RepeatedScalarFieldContainer[int]
    page: int
    def __init__(self, topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., log_offset_steps: _Optional[_Iterable[int]] = ..., queue_offset_steps: _Optional[_Iterable[int]] = ..., page: _Optional[int] = ...) -> None: ...

class TimerTotals(_message.Message):
    __slots__ = ("count", "bytes")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    count: int
    bytes: int
    def __init__(self, count: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("group", "paused", "gone")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    group: str
    paused: bool
    gone: bool
    def __init__(self, group: _Optional[str] = ..., paused: bool = ..., gone: bool = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("topic_id", "name", "queues", "deleted", "has_priorities", "ttl_ms", "max_backlog", "backlog_dead_letters", "weighted_priorities", "archived", "archive_wait_ms", "check_after_ms", "check_every_ms", "max_checks", "created_at", "schemas", "compatibility", "visibility", "replica_ack", "min_in_sync", "retention_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    HAS_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CHECK_EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACK_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    RETENTION_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    queues: int
    deleted: bool
    has_priorities: bool
    ttl_ms: int
    max_backlog: int
    backlog_dead_letters: bool
    weighted_priorities: bool
    archived: int
    archive_wait_ms: int
    check_after_ms: int
    check_every_ms: int
    max_checks: int
    created_at: int
    schemas: _containers.RepeatedScalarFieldContainer[str]
    compatibility: int
    visibility: int
    replica_ack: int
    min_in_sync: int
    retention_ms: int
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., queues: _Optional[int] = ..., deleted: bool = ..., has_priorities: bool = ..., ttl_ms: _Optional[int] = ..., max_backlog: _Optional[int] = ..., backlog_dead_letters: bool = ..., weighted_priorities: bool = ..., archived: _Optional[int] = ..., archive_wait_ms: _Optional[int] = ..., check_after_ms: _Optional[int] = ..., check_every_ms: _Optional[int] = ..., max_checks: _Optional[int] = ..., created_at: _Optional[int] = ..., schemas: _Optional[_Iterable[str]] = ..., compatibility: _Optional[int] = ..., visibility: _Optional[int] = ..., replica_ack: _Optional[int] = ..., min_in_sync: _Optional[int] = ..., retention_ms: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("topic_id", "queue_id", "least", "next")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    LEAST_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue_id: int
    least: int
    next: int
    def __init__(self, topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., least: _Optional[int] = ..., next: _Optional[int] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    offset: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ProducerRuns(_message.Message):
    __slots__ = ("producer_id", "topic_id", "queue_id", "first", "lengths", "offset_steps", "time_steps")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_STEPS_FIELD_NUMBER: _ClassVar[int]
    TIME_STEPS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    topic_id: int
    queue_id: int
    first: int
    lengths: _containers.RepeatedScalarFieldContainer[int]
    offset_steps: _containers.RepeatedScalarFieldContainer[int]
    time_steps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, producer_id: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., first: _Optional[int] = ..., lengths: _Optional[_Iterable[int]] = ..., offset_steps: _Optional[_Iterable[int]] = ..., time_steps: _Optional[_Iterable[int]] = ...) -> None: ...

class LeaseTick(_message.Message):
    __slots__ = ("group", "queues", "failed")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    group: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueLeases]
    failed: _containers.RepeatedCompositeFieldContainer[TryFailed]
    def __init__(self, group: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueLeases, _Mapping]]] = ..., failed: _Optional[_Iterable[_Union[TryFailed, _Mapping]]] = ...) -> None: ...

class QueueLeases(_message.Message):
    __slots__ = ("topic_id", "queue_id", "done", "released", "grants")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue_id: int
    done: _containers.RepeatedScalarFieldContainer[int]
    released: _containers.RepeatedScalarFieldContainer[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    def __init__(self, topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., done: _Optional[_Iterable[int]] = ..., released: _Optional[_Iterable[int]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("offsets", "token", "deadline", "count")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    token: int
    deadline: int
    count: int
    def __init__(self, offsets: _Optional[_Iterable[int]] = ..., token: _Optional[int] = ..., deadline: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class TryFailed(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "queue_offset", "predecessor", "due", "count", "tried_topic_id", "retry_topic_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PREDECESSOR_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TRIED_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    queue_offset: int
    predecessor: int
    due: int
    count: int
    tried_topic_id: int
    retry_topic_id: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., predecessor: _Optional[int] = ..., due: _Optional[int] = ..., count: _Optional[int] = ..., tried_topic_id: _Optional[int] = ..., retry_topic_id: _Optional[int] = ...) -> None: ...

class GroupChanged(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: Group
    def __init__(self, group: _Optional[_Union[Group, _Mapping]] = ...) -> None: ...

class OffsetsReset(_message.Message):
    __slots__ = ("group", "reset_id", "before", "after", "undoes", "number", "at")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RESET_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    group: str
    reset_id: str
    before: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    after: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    undoes: str
    number: int
    at: int
    def __init__(self, group: _Optional[str] = ..., reset_id: _Optional[str] = ..., before: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ..., undoes: _Optional[str] = ..., number: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...

class TimerEnded(_message.Message):
    __slots__ = ("pending", "due", "size", "moved_due")
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MOVED_DUE_FIELD_NUMBER: _ClassVar[int]
    pending: int
    due: int
    size: int
    moved_due: int
    def __init__(self, pending: _Optional[int] = ..., due: _Optional[int] = ..., size: _Optional[int] = ..., moved_due: _Optional[int] = ...) -> None: ...

class TimersEnded(_message.Message):
    __slots__ = ("timers", "cancelled")
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    timers: _containers.RepeatedCompositeFieldContainer[TimerEnded]
    cancelled: bool
    def __init__(self, timers: _Optional[_Iterable[_Union[TimerEnded, _Mapping]]] = ..., cancelled: bool = ...) -> None: ...

class TimerMoved(_message.Message):
    __slots__ = ("pending", "delay_time", "due_before", "due", "size")
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DELAY_TIME_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    pending: int
    delay_time: int
    due_before: int
    due: int
    size: int
    def __init__(self, pending: _Optional[int] = ..., delay_time: _Optional[int] = ..., due_before: _Optional[int] = ..., due: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class TimerBatchCancelled(_message.Message):
    __slots__ = ("topic", "batch_id", "before", "at")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    batch_id: str
    before: int
    at: int
    def __init__(self, topic: _Optional[str] = ..., batch_id: _Optional[str] = ..., before: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...

class MovedTimer(_message.Message):
    __slots__ = ("pending", "due", "size", "gone", "ended")
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    pending: int
    due: int
    size: int
    gone: bool
    ended: bool
    def __init__(self, pending: _Optional[int] = ..., due: _Optional[int] = ..., size: _Optional[int] = ..., gone: bool = ..., ended: bool = ...) -> None: ...

class CancelledBatch(_message.Message):
    __slots__ = ("topic", "batch_id", "before", "at")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    batch_id: str
    before: int
    at: int
    def __init__(self, topic: _Optional[str] = ..., batch_id: _Optional[str] = ..., before: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...

class DeadLettersDropped(_message.Message):
    __slots__ = ("log_offset_steps",)
    LOG_OFFSET_STEPS_FIELD_NUMBER: _ClassVar[int]
    log_offset_steps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, log_offset_steps: _Optional[_Iterable[int]] = ...) -> None: ...

class SinkCommitted(_message.Message):
    __slots__ = ("query", "batch", "winners", "plan", "dropped")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    WINNERS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    query: str
    batch: int
    winners: _containers.RepeatedCompositeFieldContainer[SinkWinner]
    plan: bytes
    dropped: int
    def __init__(self, query: _Optional[str] = ..., batch: _Optional[int] = ..., winners: _Optional[_Iterable[_Union[SinkWinner, _Mapping]]] = ..., plan: _Optional[bytes] = ..., dropped: _Optional[int] = ...) -> None: ...

class SinkWinner(_message.Message):
    __slots__ = ("partition", "attempt")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    attempt: int
    def __init__(self, partition: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class HalvesRolledBack(_message.Message):
    __slots__ = ("transactions", "reason")
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, transactions: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class HalvesSkipped(_message.Message):
    __slots__ = ("transaction", "count", "reason")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    count: int
    reason: str
    def __init__(self, transaction: _Optional[str] = ..., count: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class HalvesRow(_message.Message):
    __slots__ = ("transaction", "latest_at", "runs", "number", "copied", "gone", "page", "first_at", "check_after_ms", "max_checks", "checks", "story", "dead")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    LATEST_AT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    CHECK_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    STORY_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    latest_at: int
    runs: _containers.RepeatedCompositeFieldContainer[HalfRun]
    number: int
    copied: int
    gone: bool
    page: int
    first_at: int
    check_after_ms: int
    max_checks: int
    checks: int
    story: _containers.RepeatedCompositeFieldContainer[TransactionCheckRow]
    dead: bool
    def __init__(self, transaction: _Optional[str] = ..., latest_at: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[HalfRun, _Mapping]]] = ..., number: _Optional[int] = ..., copied: _Optional[int] = ..., gone: bool = ..., page: _Optional[int] = ..., first_at: _Optional[int] = ..., check_after_ms: _Optional[int] = ..., max_checks: _Optional[int] = ..., checks: _Optional[int] = ..., story: _Optional[_Iterable[_Union[TransactionCheckRow, _Mapping]]] = ..., dead: bool = ...) -> None: ...

class TransactionCheckRow(_message.Message):
    __slots__ = ("at", "asked", "unknown")
    AT_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    at: int
    asked: str
    unknown: bool
    def __init__(self, at: _Optional[int] = ..., asked: _Optional[str] = ..., unknown: bool = ...) -> None: ...

class OutcomesRow(_message.Message):
    __slots__ = ("page", "transactions", "outcomes")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    page: int
    transactions: _containers.RepeatedScalarFieldContainer[str]
    outcomes: bytes
    def __init__(self, page: _Optional[int] = ..., transactions: _Optional[_Iterable[str]] = ..., outcomes: _Optional[bytes] = ...) -> None: ...

class TransactionsDecided(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactions: _Optional[_Iterable[str]] = ...) -> None: ...

class TransactionsChecked(_message.Message):
    __slots__ = ("at", "checks")
    AT_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    at: int
    checks: _containers.RepeatedCompositeFieldContainer[TransactionCheck]
    def __init__(self, at: _Optional[int] = ..., checks: _Optional[_Iterable[_Union[TransactionCheck, _Mapping]]] = ...) -> None: ...

class TransactionCheck(_message.Message):
    __slots__ = ("transaction", "asked", "before", "unknown")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    asked: str
    before: str
    unknown: bool
    def __init__(self, transaction: _Optional[str] = ..., asked: _Optional[str] = ..., before: _Optional[str] = ..., unknown: bool = ...) -> None: ...

class HalfRun(_message.Message):
    __slots__ = ("topic_id", "queue_id", "first_log_offset", "last_log_offset", "first_half_offset", "length", "bytes")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FIRST_HALF_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    queue_id: int
    first_log_offset: int
    last_log_offset: int
    first_half_offset: int
    length: int
    bytes: int
    def __init__(self, topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., first_log_offset: _Optional[int] = ..., last_log_offset: _Optional[int] = ..., first_half_offset: _Optional[int] = ..., length: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SinkRow(_message.Message):
    __slots__ = ("query", "committed_batch", "plan")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_BATCH_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    query: str
    committed_batch: int
    plan: bytes
    def __init__(self, query: _Optional[str] = ..., committed_batch: _Optional[int] = ..., plan: _Optional[bytes] = ...) -> None: ...

class ArchivedThrough(_message.Message):
    __slots__ = ("topic_id", "location", "queues", "at", "replaces", "page")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    location: str
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    at: int
    replaces: bool
    page: int
    def __init__(self, topic_id: _Optional[int] = ..., location: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., at: _Optional[int] = ..., replaces: bool = ..., page: _Optional[int] = ...) -> None: ...

class JobsPut(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobPut]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobPut, _Mapping]]] = ...) -> None: ...

class JobPut(_message.Message):
    __slots__ = ("number", "definition", "through", "skipped")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    number: int
    definition: bytes
    through: int
    skipped: int
    def __init__(self, number: _Optional[int] = ..., definition: _Optional[bytes] = ..., through: _Optional[int] = ..., skipped: _Optional[int] = ...) -> None: ...

class JobsDeleted(_message.Message):
    __slots__ = ("numbers",)
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class TicksPassed(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[TickPassed]
    def __init__(self, jobs: _Optional[_Iterable[_Union[TickPassed, _Mapping]]] = ...) -> None: ...

class TickPassed(_message.Message):
    __slots__ = ("number", "through", "skipped", "missed", "queued")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    number: int
    through: int
    skipped: int
    missed: int
    queued: int
    def __init__(self, number: _Optional[int] = ..., through: _Optional[int] = ..., skipped: _Optional[int] = ..., missed: _Optional[int] = ..., queued: _Optional[int] = ...) -> None: ...

class JobRow(_message.Message):
    __slots__ = ("number", "definition", "through", "queued", "sent", "skipped", "missed", "failed", "last_tick", "last_at", "topic_id", "queue_id", "queue_offset", "log_offset", "retry_topic_id", "gone")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LAST_TICK_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RETRY_TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    number: int
    definition: bytes
    through: int
    queued: int
    sent: int
    skipped: int
    missed: int
    failed: int
    last_tick: int
    last_at: int
    topic_id: int
    queue_id: int
    queue_offset: int
    log_offset: int
    retry_topic_id: int
    gone: bool
    def __init__(self, number: _Optional[int] = ..., definition: _Optional[bytes] = ..., through: _Optional[int] = ..., queued: _Optional[int] = ..., sent: _Optional[int] = ..., skipped: _Optional[int] = ..., missed: _Optional[int] = ..., failed: _Optional[int] = ..., last_tick: _Optional[int] = ..., last_at: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., queue_offset: _Optional[int] = ..., log_offset: _Optional[int] = ..., retry_topic_id: _Optional[int] = ..., gone: bool = ...) -> None: ...
