from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class StoredGroup(_message.Message):
    __slots__ = ("name", "epoch", "holder", "members", "min_in_sync", "segment_bytes", "unclean_epoch", "confirmed", "confirmed_epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    holder: bytes
    members: _containers.RepeatedScalarFieldContainer[bytes]
    min_in_sync: int
    segment_bytes: int
    unclean_epoch: int
    confirmed: int
    confirmed_epoch: int
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., holder: _Optional[bytes] = ..., members: _Optional[_Iterable[bytes]] = ..., min_in_sync: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., unclean_epoch: _Optional[int] = ..., confirmed: _Optional[int] = ..., confirmed_epoch: _Optional[int] = ...) -> None: ...

class StoredLease(_message.Message):
    __slots__ = ("epoch", "holder")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    holder: bytes
    def __init__(self, epoch: _Optional[int] = ..., holder: _Optional[bytes] = ...) -> None: ...
