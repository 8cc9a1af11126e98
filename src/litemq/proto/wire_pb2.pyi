from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Opcode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPCODE_UNKNOWN: _ClassVar[Opcode]
    HELLO: _ClassVar[Opcode]
    PING: _ClassVar[Opcode]
OPCODE_UNKNOWN: Opcode
HELLO: Opcode
PING: Opcode

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Hello(_message.Message):
    __slots__ = ("least_version", "most_version", "client_id", "user", "secret")
    LEAST_VERSION_FIELD_NUMBER: _ClassVar[int]
    MOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    least_version: int
    most_version: int
    client_id: str
    user: str
    secret: bytes
    def __init__(self, least_version: _Optional[int] = ..., most_version: _Optional[int] = ..., client_id: _Optional[str] = ..., user: _Optional[str] = ..., secret: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("code", "message", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...
