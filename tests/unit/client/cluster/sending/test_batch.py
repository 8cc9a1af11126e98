"""Batches: the C type and its twin in Python do the same."""

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client import native
from litemq.client.cluster.sending.batch import Batch, PythonBatch
from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.send_buffer import ByteCount, PythonByteCount
from litemq.client.identity import MESSAGE_ID_BYTES, MessageIds, PythonMessageIds
from litemq.client.messages.outgoing import SendReceipt
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate
from litemq.types import Durability
from support.on_loop import on_loop

NEEDS_C = pytest.mark.skipif(not native.enabled, reason="the extension is not built")
RANDOM = "0123456789"
RECEIPT = SendReceipt("orders", "", "broker-a", 3, 0, 99)

Kind = tuple[type[Any], type[Any], type[Any]]
IN_PYTHON: Kind = (PythonBatch, PythonByteCount, PythonMessageIds)
IN_C: Kind = (Batch, ByteCount, MessageIds)
KINDS = [IN_PYTHON, *([IN_C] if native.enabled else [])]


class Setting:
    """A batch of one kind that takes plain messages."""

    def __init__(
        self,
        kind: Kind,
        *,
        first: int = 5,
        limit: int = 1 << 20,
        max_record: int = 1 << 16,
        max_bytes: int = 1 << 18,
        max_messages: int = 100,
        sequenced: bool = True,
        template: RecordTemplate | None = None,
    ) -> None:
        batch, count, ids = kind
        self.batch = batch()
        self.batch.first = first
        self.buffer = count()
        self.buffer.used, self.buffer.limit = 0, limit
        self.futures = 0
        head = (template or RecordTemplate("orders", producer_id=7)).head(MESSAGE_ID_BYTES)
        self.batch.take_plain(
            head, ids(RANDOM), self.buffer, self._new_future, max_record, max_bytes, max_messages, sequenced
        )

    def _new_future(self) -> "asyncio.Future[SendReceipt]":
        self.futures += 1
        return asyncio.get_running_loop().create_future()

    def state(self) -> tuple[Any, ...]:
        """Everything but the times, which the two kinds read one after the other."""
        records = [decode_record(record, stage=Stage.SENT).record for record in self.batch.records]
        fields = [record._replace(message_id=record.message_id[12:], born_timestamp=0) for record in records]
        ids = [message_id[12:] for message_id in self.batch.ids]
        assert [record.message_id for record in records] == self.batch.ids
        assert all(record.born_timestamp == int(record.message_id[:12], 16) for record in records)
        return fields, ids, self.batch.size, self.buffer.used, self.batch.sealed


bodies = st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([None, "text", bytearray(b"x")])), max_size=30)
limits = st.fixed_dictionaries(
    {
        "first": st.integers(0, 2**63),
        "limit": st.integers(0, 4_000),
        "max_record": st.integers(150, 500),
        "max_bytes": st.integers(0, 4_000),
        "max_messages": st.integers(1, 20),
        "sequenced": st.booleans(),
    }
)


@NEEDS_C
@given(bodies, limits)
@on_loop
async def test_both_kinds_add_the_same_messages(messages: list[Any], settings: dict[str, Any]) -> None:
    one, other = Setting(IN_PYTHON, **settings), Setting(IN_C, **settings)
    for body in messages:
        assert (one.batch.add(body) is None) is (other.batch.add(body) is None)
        assert one.state() == other.state()
    assert one.futures == other.futures


@NEEDS_C
@given(st.integers(-1, 2**62), st.sets(st.integers(0, 9)))
@on_loop
async def test_both_kinds_settle_alike(offset: int, cancelled: set[int]) -> None:
    results = []
    for kind in (IN_PYTHON, IN_C):
        setting = Setting(kind)
        waiters = [setting.batch.add(b"body") for _ in range(10)]
        for number in cancelled:
            waiters[number].cancel()
        setting.batch.settle(SendReceipt, "orders", "broker-a", 3, offset, 99)
        results.append([None if each.cancelled() else each.result() for each in waiters])
        assert [type(each) for each in results[-1] if each is not None] == [SendReceipt] * (10 - len(cancelled))
    assert [each and each._replace(message_id="") for each in results[0]] == [
        each and each._replace(message_id="") for each in results[1]
    ]
    step = 1 if offset >= 0 else 0
    for number, receipt in enumerate(results[1]):
        assert receipt is None or receipt[4:] == (offset + number * step, 99)


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_a_plain_record_is_what_the_template_encodes(kind: Kind) -> None:
    template = RecordTemplate("orders", producer_id=7, properties={"a": "b"}, reliability=Durability.MEMORY)
    setting = Setting(kind, template=template, first=8)
    for body in (b"", b"x", bytes(range(256))):
        assert setting.batch.add(body) is not None
    for number, (body, record) in enumerate(zip((b"", b"x", bytes(range(256))), setting.batch.records, strict=True)):
        message_id = setting.batch.ids[number]
        born = int(message_id[:12], 16)
        assert record == template.encode(body, message_id=message_id, born_timestamp=born, sequence=8 + number)


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_a_sealed_batch_and_one_without_a_head_take_nothing(kind: Kind) -> None:
    setting = Setting(kind)
    setting.batch.sealed = True
    assert setting.batch.add(b"body") is None
    assert kind[0]().add(b"body") is None
    assert setting.futures == 0


@pytest.mark.parametrize("kind", KINDS)
@on_loop
async def test_a_future_that_cannot_be_made_adds_nothing(kind: Kind) -> None:
    batch, count, ids = kind[0](), kind[1](), kind[2](RANDOM)
    count.used, count.limit = 0, 1 << 20
    head = RecordTemplate("orders").head(MESSAGE_ID_BYTES)

    def fail() -> "asyncio.Future[SendReceipt]":
        raise RuntimeError("no loop")

    batch.take_plain(head, ids, count, fail, 1 << 16, 1 << 16, 10, True)
    with pytest.raises(RuntimeError, match="no loop"):
        batch.add(b"body")
    assert (batch.records, batch.ids, batch.waiters, batch.size, count.used) == ([], [], [], 0, 0)


@NEEDS_C
def test_the_c_type_refuses_heads_and_types_that_do_not_fit() -> None:
    head = RecordTemplate("orders").head(MESSAGE_ID_BYTES)
    take = partial(Batch().take_plain)
    rest: tuple[Any, ...] = (MessageIds(RANDOM), ByteCount(), asyncio.Future, 100, 100, 10, True)
    for wrong in (b"", head[:-1], head + b"x", RecordTemplate("orders").head(MESSAGE_ID_BYTES - 1)):
        with pytest.raises(ValueError, match="not the begin of a record"):
            take(wrong, *rest)
    with pytest.raises(TypeError):
        take(head, PythonMessageIds(RANDOM), *rest[1:])  # type: ignore[arg-type]


@NEEDS_C
@on_loop
async def test_a_batch_whose_lists_were_replaced_is_refused() -> None:
    setting = Setting(IN_C)
    setting.batch.waiters = ()
    with pytest.raises(TypeError, match="lists"):
        setting.batch.add(b"body")
    with pytest.raises(TypeError, match="lists"):
        setting.batch.settle(SendReceipt, "t", "b", 0, 0, 0)


@on_loop
async def test_a_request_is_a_batch() -> None:
    request = Request(7, 3, 0.0)
    assert isinstance(request, Batch)
    assert (request.first, request.records, request.size, request.sealed) == (3, [], 0, False)
