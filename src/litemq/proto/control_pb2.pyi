from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Control(_message.Message):
    __slots__ = ("topic_created", "topic_deleted", "offsets_committed", "retention_crossed", "snapshot_begin", "snapshot_rows", "snapshot_end")
    TOPIC_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_DELETED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_CROSSED_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_BEGIN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ROWS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    topic_created: TopicCreated
    topic_deleted: TopicDeleted
    offsets_committed: OffsetsCommitted
    retention_crossed: RetentionCrossed
    snapshot_begin: SnapshotBegin
    snapshot_rows: SnapshotRows
    snapshot_end: SnapshotEnd
    def __init__(self, topic_created: _Optional[_Union[TopicCreated, _Mapping]] = ..., topic_deleted: _Optional[_Union[TopicDeleted, _Mapping]] = ..., offsets_committed: _Optional[_Union[OffsetsCommitted, _Mapping]] = ..., retention_crossed: _Optional[_Union[RetentionCrossed, _Mapping]] = ..., snapshot_begin: _Optional[_Union[SnapshotBegin, _Mapping]] = ..., snapshot_rows: _Optional[_Union[SnapshotRows, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ...) -> None: ...

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

class OffsetsCommitted(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ...) -> None: ...

class RetentionCrossed(_message.Message):
    __slots__ = ("log_start", "queues", "losses")
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    log_start: int
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    losses: _containers.RepeatedCompositeFieldContainer[GroupLoss]
    def __init__(self, log_start: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., losses: _Optional[_Iterable[_Union[GroupLoss, _Mapping]]] = ...) -> None: ...

class GroupLoss(_message.Message):
    __slots__ = ("group", "topic_id", "queue_id", "from_offset", "to_offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: int
    queue_id: int
    from_offset: int
    to_offset: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[int] = ..., queue_id: _Optional[int] = ..., from_offset: _Optional[int] = ..., to_offset: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("topic", "queue", "group_offset", "producer_runs")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    GROUP_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_RUNS_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    queue: Queue
    group_offset: GroupOffset
    producer_runs: ProducerRuns
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., queue: _Optional[_Union[Queue, _Mapping]] = ..., group_offset: _Optional[_Union[GroupOffset, _Mapping]] = ..., producer_runs: _Optional[_Union[ProducerRuns, _Mapping]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("topic_id", "name", "queues", "deleted")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    topic_id: int
    name: str
    queues: int
    deleted: bool
    def __init__(self, topic_id: _Optional[int] = ..., name: _Optional[str] = ..., queues: _Optional[int] = ..., deleted: _Optional[bool] = ...) -> None: ...

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
