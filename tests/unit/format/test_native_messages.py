"""C encoding and decoding agrees with the scalar codec: bytes, values and errors."""

from __future__ import annotations

import gc
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format import native
from litemq.format.batches.scan import scan
from litemq.format.limits import RecordLimits
from litemq.format.messages import MessageFields, decode_messages
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate, encode_record
from litemq.types import LATEST_TIME_MS, BodyCodec, Durability, MessageType, Record, RecordKind, Stamp
from support.records import RECORDS, STAMPS, with_right_crcs

MEMBERS = (tuple(RecordKind), tuple(BodyCodec), tuple(Durability), tuple(MessageType))


@pytest.fixture(autouse=True, scope="module")
def loops() -> None:
    """Run these tests once: they call the C loops directly."""
    if not native.enabled:
        pytest.skip("the extension was not built, or LITEMQ_PURE is set")


def _outcome(call: Callable[[], object]) -> object:
    """Return the result of ``call``, or its error."""
    try:
        return call()
    except (InvalidArgumentError, RecordFormatError, TypeError, KeyError) as error:
        return (type(error), str(error))


def _without_loops(call: Callable[[], object]) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        return _outcome(call)


# Encoding -----------------------------------------------------------------------------------------


@given(RECORDS)
def test_c_and_python_encode_the_same_bytes(record: Record) -> None:
    assert encode_record(record) == _without_loops(lambda: encode_record(record))


@given(RECORDS)
def test_every_plain_record_is_encoded_in_c(record: Record) -> None:
    template = RecordTemplate("orders", tags=record.tags, properties=record.properties, born_host=record.born_host)
    values = (
        record.keys,
        record.born_timestamp,
        record.sequence,
        record.delay_time,
        record.expire_at,
        record.transaction_id,
    )
    rest = (record.sharding_key, record.type, record.codec, record.encrypted)
    assert native.loops.encode(template._shape, 1 << 22, record.body, record.message_id, *values, *rest) is not None


class _Text(str):
    """A subclass of str with overridden methods."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002
        return b"another"


class _OtherType(IntEnum):
    ORDER = 4
    UNKNOWN = 5


ODD: list[tuple[str, Any]] = [
    *(
        (name, value)
        for name in ("born_timestamp", "delay_time", "expire_at")
        for value in (-1, LATEST_TIME_MS, LATEST_TIME_MS + 1, 2**64)
    ),
    *(
        (name, value)
        for name in ("born_timestamp", "sequence")
        for value in (1.0, True, "1", None, np.int64(1), -(2**70))
    ),
    *(("sequence", value) for value in (-1, 2**64 - 1, 2**64)),
    *(("body", value) for value in (bytearray(b"x"), bytearray(), memoryview(b"x"), "x", None, b"x" * 2000)),
    *(
        ("message_id", value)
        for value in ("i" * 64, "i" * 65, "é" * 32, "é" * 33, "\ud800", b"x", None, 5, "\0", _Text("x"))
    ),
    *(
        ("keys", value)
        for value in ((), [], None, "k", "", ["k"], ("k",) * 64, ("k",) * 65, ("k" * 255,), ("k" * 256,), ("é" * 128,))
    ),
    *(("keys", value) for value in (("\ud800",), (b"k",), (1,), ("",), {"k": 1}, range(0), ("a", "订"), [_Text("x")])),
    *(
        (name, value)
        for name in ("transaction_id", "sharding_key")
        for value in ("x", "é", "\ud800", "x" * 500, None, 0, 5, b"x")
    ),
    *(
        ("message_type", value)
        for value in (4, 5, -1, True, 2.0, None, "x", MessageType.ORDER, _OtherType.ORDER, _OtherType.UNKNOWN)
    ),
    *(("codec", value) for value in (2, 3, -1, True, None, "x", BodyCodec.ZSTD)),
    *(("encrypted", value) for value in (True, False, 1, 0, None, "x")),
]


@pytest.mark.parametrize(("name", "value"), ODD, ids=[f"{name}-{number}" for number, (name, _) in enumerate(ODD)])
def test_odd_values_are_accepted_or_refused_as_in_python(name: str, value: Any) -> None:
    template = RecordTemplate(
        "orders", tags=("a", "b"), properties={"p": "q"}, producer_id=7, born_host="h", limits=RecordLimits(1024)
    )
    values = {"body": b"body", name: value}

    def encode() -> object:
        return template.encode(**values)

    assert _outcome(encode) == _without_loops(encode)


@pytest.mark.parametrize("length", [*range(856, 881), 2**20])
def test_the_size_at_its_limit(length: int) -> None:
    template = RecordTemplate("t", limits=RecordLimits(1024))
    assert _outcome(lambda: template.encode(bytes(length))) == _without_loops(lambda: template.encode(bytes(length)))


def test_a_long_body() -> None:
    """The body is long enough to release the interpreter's lock."""
    body = bytes(range(256)) * 4096
    assert decode_record(encode_record(Record("orders", body)), stage=Stage.SENT).record.body == body


@pytest.mark.parametrize(
    "shape", [b"", bytes(143), bytes(145), b"\xff" * 144, b"\xff" * 500, bytearray(144), None, "x"]
)
def test_a_shape_that_does_not_add_up_makes_no_record(shape: Any) -> None:
    assert native.loops.encode(shape, 1 << 20, b"", "", (), 0, 0, 0, 0, "", "", 0, 0, False) is None


def test_a_record_needs_all_its_values() -> None:
    with pytest.raises(TypeError, match="14 values"):
        native.loops.encode(bytes(144), 1 << 20)  # type: ignore[call-arg]


# Decoding -----------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 255)), max_size=4),
    st.booleans(),
    st.binary(max_size=20),
)
def test_c_and_python_decode_the_same_messages(
    batch: list[tuple[Record, Stamp]], changes: list[tuple[int, int]], repaired: bool, behind: bytes
) -> None:
    whole = bytearray(b"".join(encode_record(record, stamp) for record, stamp in batch))
    found = scan(whole).starts.tolist()
    for at, value in changes:
        whole[at % len(whole)] = value
    if repaired:
        for begin, end in zip(found, [*found[1:], len(whole)], strict=True):
            whole[begin:end] = with_right_crcs(whole[begin:end], stamped=True)
    for data in (bytes(whole), bytes(whole) + behind, bytearray(whole)):
        decode = partial(decode_messages, data)
        assert _outcome(decode) == _without_loops(decode)


@given(
    st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=4),
    st.lists(st.sampled_from([16, 104, 116, 130, 144, 150]), max_size=2),
)
def test_the_loop_stops_at_the_first_doubtful_record(batch: list[tuple[Record, Stamp]], damage: list[int]) -> None:
    sound = b"".join(encode_record(record, stamp) for record, stamp in batch)
    last = bytearray(encode_record(Record("orders", b"body", "id"), Stamp()))
    for at in damage:
        last[at] ^= 1
    messages: list[MessageFields] = []
    stopped = native.loops.decode_messages(sound + last, 0, 1 << 22, MessageFields, MEMBERS, {}, messages)
    intact = len(set(damage)) == 0 or damage in ([at, at] for at in set(damage))
    assert stopped == len(sound) + len(last) * intact
    assert messages == decode_messages(sound + last * intact)


def test_messages_share_equal_values() -> None:
    record = encode_record(
        Record("orders", b"", "id", ("tag",), born_host="host", born_timestamp=10**12), Stamp(store_timestamp=10**12)
    )
    one, other = decode_messages(record * 2)
    for name in ("topic", "tags", "keys", "born_host", "born_timestamp", "store_timestamp", "properties"):
        assert getattr(one, name) is getattr(other, name), name


@pytest.mark.parametrize("begin", [-(2**62), -144, -1, 1, 8, 10**6])
def test_an_invalid_begin_is_refused(begin: int) -> None:
    messages: list[MessageFields] = []
    assert (
        native.loops.decode_messages(
            encode_record(Record("t"), Stamp()), begin, 1 << 20, MessageFields, MEMBERS, {}, messages
        )
        == begin
    )
    assert not messages


def test_messages_need_their_types() -> None:
    record: Any = encode_record(Record("t"), Stamp())
    for wrong in (tuple, int, list, None):
        with pytest.raises(TypeError):
            native.loops.decode_messages(record, 0, 1 << 20, wrong, MEMBERS, {}, [])  # type: ignore[arg-type]
    for members in ((), ((),) * 3, ((),) * 4, (1, 2, 3, 4), None):
        with pytest.raises((TypeError, IndexError)):
            native.loops.decode_messages(record, 0, 1 << 20, MessageFields, members, {}, [])  # type: ignore[arg-type]


def test_a_buffer_that_the_garbage_collector_changes() -> None:
    """Creating objects may run the garbage collector, which may run any code: it must not crash."""
    clean = b"".join(
        encode_record(Record("orders", bytes(60), f"{n}", ("a",), ("k",) * 9, {"p": "é" * 9, "q": "r"}), Stamp())
        for n in range(99)
    )
    buffer = bytearray(clean)
    randomness = np.random.default_rng(1)
    view = np.frombuffer(buffer, np.uint8)

    def scribble(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            view[randomness.integers(0, view.size, 200)] = randomness.integers(0, 256, 200, np.uint8)

    threshold = gc.get_threshold()
    gc.callbacks.append(scribble)
    gc.set_threshold(3, 1000, 1000)
    try:
        for _ in range(200):
            view[:] = np.frombuffer(clean, np.uint8)
            native.loops.decode_messages(buffer, 0, 1 << 20, MessageFields, MEMBERS, {}, [])
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(scribble)
