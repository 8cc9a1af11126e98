from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobDefinition(_message.Message):
    __slots__ = ("id", "expression", "timezone", "every_ms", "anchor", "topic", "ordering_key", "queue_id", "body", "properties", "keys", "tags", "group", "overlap", "catch_up", "catch_up_window_ms", "jitter_ms", "paused", "max_retries", "timeout_ms", "start_at", "end_at", "priority")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    JITTER_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    END_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    expression: str
    timezone: str
    every_ms: int
    anchor: int
    topic: str
    ordering_key: str
    queue_id: int
    body: bytes
    properties: _containers.RepeatedCompositeFieldContainer[JobProperty]
    keys: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    group: str
    overlap: int
    catch_up: int
    catch_up_window_ms: int
    jitter_ms: int
    paused: bool
    max_retries: int
    timeout_ms: int
    start_at: int
    end_at: int
    priority: int
    def __init__(self, id: _Optional[str] = ..., expression: _Optional[str] = ..., timezone: _Optional[str] = ..., every_ms: _Optional[int] = ..., anchor: _Optional[int] = ..., topic: _Optional[str] = ..., ordering_key: _Optional[str] = ..., queue_id: _Optional[int] = ..., body: _Optional[bytes] = ..., properties: _Optional[_Iterable[_Union[JobProperty, _Mapping]]] = ..., keys: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ..., overlap: _Optional[int] = ..., catch_up: _Optional[int] = ..., catch_up_window_ms: _Optional[int] = ..., jitter_ms: _Optional[int] = ..., paused: bool = ..., max_retries: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., start_at: _Optional[int] = ..., end_at: _Optional[int] = ..., priority: _Optional[int] = ...) -> None: ...

class JobProperty(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
