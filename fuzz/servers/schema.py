"""The requests of the protocol as the schema lists them: each opcode with its message types.

The comments of ``wire.proto`` are the list. An opcode without one fails here, so that the fuzzer
cannot miss a later opcode.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final, NamedTuple

from google.protobuf.message import Message

from litemq.proto import wire_pb2
from litemq.proto.wire_pb2 import Opcode

__all__ = ["REQUESTS", "RequestKind"]

_LINE: Final = re.compile(r"^  ([A-Z_]+) = \d+; +// (\w+)(, records)? -> (\w+)", re.MULTILINE)


class RequestKind(NamedTuple):
    """The messages of one opcode, and whether its requests carry records."""

    name: str
    request: type[Message]
    answer: type[Message]
    has_records: bool


def _read() -> dict[int, RequestKind]:
    text = files("litemq.proto").joinpath("wire.proto").read_text("utf-8")
    found = {
        Opcode.Value(name): RequestKind(name, getattr(wire_pb2, request), getattr(wire_pb2, answer), bool(records))
        for name, request, records, answer in _LINE.findall(text)
    }
    missing = [name for name, opcode in Opcode.items() if opcode and opcode not in found]
    assert not missing, f"wire.proto does not name the messages of {missing}: add a comment 'Request -> Answer'"
    return found


REQUESTS: Final = _read()
