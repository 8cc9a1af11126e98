"""Records and the values of Python, by the loops in C: the same bytes and the same values as by the scalar codec, and the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.format.limits import RecordLimits
from litemq.format.record import RecordTemplate, Stage, decode_record, encode_record
from litemq.types import LATEST_TIME_MS, BodyCodec, MessageType, Record
from support.records import RECORDS


@pytest.fixture(autouse=True, scope="module")
def codec() -> None:
    """Once only: this is about the loops themselves."""
    if not native.enabled:
        pytest.skip("the extension was not built, or LITEMQ_PURE is set")


def _outcome(call: Callable[[], object]) -> object:
    """What a call returns, or how it refuses."""
    try:
        return call()
    except (InvalidArgumentError, TypeError, KeyError) as error:
        return (type(error), str(error))


def _without_loops(call: Callable[[], object]) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        return _outcome(call)


# Encoding ---------------------------------------------------------------------------------------------------------------------


@given(RECORDS)
def test_a_record_has_the_same_bytes_both_ways(record: Record) -> None:
    assert encode_record(record) == _without_loops(lambda: encode_record(record))


@given(RECORDS)
def test_every_plain_record_goes_the_quick_way(record: Record) -> None:
    template = RecordTemplate("orders", tags=record.tags, properties=record.properties, born_host=record.born_host)
    values = (record.keys, record.born_timestamp, record.sequence, record.delay_time, record.expire_at, record.transaction_id)
    rest = (record.sharding_key, record.type, record.codec, record.encrypted)
    assert native.loops.encode(template._shape, 1 << 22, record.body, record.message_id, *values, *rest) is not None


class _Text(str):
    """A string that is not what it seems."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002
        return b"another"


class _OtherType(IntEnum):
    ORDER = 4
    UNKNOWN = 5


ODD: list[tuple[str, Any]] = [
    *((name, value) for name in ("born_timestamp", "delay_time", "expire_at") for value in (-1, LATEST_TIME_MS, LATEST_TIME_MS + 1, 2**64)),
    *((name, value) for name in ("born_timestamp", "sequence") for value in (1.0, True, "1", None, np.int64(1), -(2**70))),
    *(("sequence", value) for value in (-1, 2**64 - 1, 2**64)),
    *(("body", value) for value in (bytearray(b"x"), bytearray(), memoryview(b"x"), "x", None, b"x" * 2000)),
    *(("message_id", value) for value in ("i" * 64, "i" * 65, "é" * 32, "é" * 33, "\ud800", b"x", None, 5, "\0", _Text("x"))),
    *(("keys", value) for value in ((), [], None, "k", "", ["k"], ("k",) * 64, ("k",) * 65, ("k" * 255,), ("k" * 256,), ("é" * 128,))),
    *(("keys", value) for value in (("\ud800",), (b"k",), (1,), ("",), {"k": 1}, range(0), ("a", "订"), [_Text("x")])),
    *((name, value) for name in ("transaction_id", "sharding_key") for value in ("x", "é", "\ud800", "x" * 500, None, 0, 5, b"x")),
    *(("message_type", value) for value in (4, 5, -1, True, 2.0, None, "x", MessageType.ORDER, _OtherType.ORDER, _OtherType.UNKNOWN)),
    *(("codec", value) for value in (2, 3, -1, True, None, "x", BodyCodec.ZSTD)),
    *(("encrypted", value) for value in (True, False, 1, 0, None, "x")),
]


@pytest.mark.parametrize(("name", "value"), ODD, ids=lambda value: repr(value)[:40])
def test_odd_values_are_taken_or_refused_as_python_does(name: str, value: Any) -> None:
    template = RecordTemplate("orders", tags=("a", "b"), properties={"p": "q"}, producer_id=7, born_host="h", limits=RecordLimits(1024))
    values = {"body": b"body", name: value}

    def encode() -> object:
        return template.encode(**values)

    assert _outcome(encode) == _without_loops(encode)


@pytest.mark.parametrize("length", [*range(856, 881), 2**20])
def test_the_size_at_its_limit(length: int) -> None:
    template = RecordTemplate("t", limits=RecordLimits(1024))
    assert _outcome(lambda: template.encode(bytes(length))) == _without_loops(lambda: template.encode(bytes(length)))


def test_a_long_body() -> None:
    """So long that the lock is let go of."""
    body = bytes(range(256)) * 4096
    assert decode_record(encode_record(Record("orders", body)), stage=Stage.SENT).record.body == body


@pytest.mark.parametrize("shape", [b"", bytes(143), bytes(145), b"\xff" * 144, b"\xff" * 500, bytearray(144), None, "x"])
def test_a_shape_that_does_not_add_up_makes_no_record(shape: Any) -> None:
    assert native.loops.encode(shape, 1 << 20, b"", "", (), 0, 0, 0, 0, "", "", 0, 0, False) is None


def test_a_record_needs_all_its_values() -> None:
    with pytest.raises(TypeError, match="14 values"):
        native.loops.encode(bytes(144), 1 << 20)  # type: ignore[call-arg]
