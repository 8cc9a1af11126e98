"""The hot path in C: a store that uses it has the same bytes and gives the same answers as one that
does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.clock import FakeClock
from litemq.errors import LiteMQError
from litemq.format import native
from litemq.format.record_encode import encode_record
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.storage.writing import StoreWriter
from litemq.types import Record
from support.stores import bytes_of, open_store, rows_of
from support.waiting import HANG_S

pytestmark = pytest.mark.skipif(native.loops is None, reason="the extension is not built")

_QUEUES = 4
_RECORDS = st.builds(
    lambda **fields: Record(**fields),
    topic=st.sampled_from(["orders"] * 12 + ["refunds"]),
    body=st.binary(max_size=900),
    message_id=st.text(max_size=8),
    tags=st.lists(st.text(min_size=1, max_size=4), max_size=2, unique=True).map(tuple),
    properties=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    producer_id=st.integers(0, 2),
    sequence=st.integers(0, 6),
)
# A batch: records with their queues, and perhaps a byte to damage.
_BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(_RECORDS, st.sampled_from([*range(_QUEUES)] * 5 + [_QUEUES])), min_size=1, max_size=20),
        st.none() | st.integers(0, 1 << 20),
    ),
    max_size=6,
)
_READS = st.lists(
    st.tuples(st.integers(0, _QUEUES - 1), st.integers(0, 40), st.integers(1, 40), st.integers(1, 20_000)), max_size=12
)


@contextmanager
def _natively(enabled: bool) -> Iterator[None]:
    before, native.enabled = native.enabled, enabled
    try:
        yield
    finally:
        native.enabled = before


def _outcome(call: Any, *arguments: Any) -> object:
    try:
        result = call(*arguments)
    except LiteMQError as error:
        return type(error), str(error).replace("pure", "native")
    return bytes(result) if isinstance(result, memoryview) else result


def _append(store: DiskStore, topic_id: int, records: list[tuple[Record, int]], damage: int | None) -> object:
    batch = bytearray(b"".join(encode_record(record) for record, _ in records))
    if damage is not None:
        batch[damage % len(batch)] ^= 1
    return _outcome(store.append_sends, batch, topic_id, [queue_id for _, queue_id in records])


def _play(folder: Path, batches: Any, reads: Any) -> tuple[list[object], list[bytes], dict[Path, bytes]]:
    clock = FakeClock()
    store = open_store(folder, clock)
    topic_id = store.create_topic("orders", _QUEUES).topic_id
    outcomes = []
    for number, (records, damage) in enumerate(batches):
        clock.advance(1)
        outcomes.append(_append(store, topic_id, records, damage))
        if number % 3 == 2:
            store.wait_confirmed(store.log_end, HANG_S)
            store.checkpoint(max_seconds=HANG_S)  # the entries go to their files
    store.wait_confirmed(store.log_end, HANG_S)
    for queue_id, first, most, size in reads:
        outcomes.append(_outcome(store.read_if_hot, QueueKey(topic_id, queue_id), first, most, size))
    rows = rows_of(store)
    store.close()
    return outcomes, rows, {path.relative_to(folder): data for path, data in bytes_of(folder / "commitlog").items()}


@settings(max_examples=40, deadline=None)
@given(batches=_BATCHES, reads=_READS)
def test_a_store_is_the_same_with_and_without_c(batches: Any, reads: Any) -> None:
    with TemporaryDirectory() as folder:
        results = []
        for name, enabled in (("native", True), ("pure", False)):
            with _natively(enabled):
                results.append(_play(Path(folder) / name, batches, reads))
    assert results[0] == results[1]


def test_a_small_batch_takes_the_hot_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "enabled", True)
    store = open_store(tmp_path)
    store.create_topic("orders", _QUEUES)
    monkeypatch.setattr(StoreWriter, "write", lambda *_, **__: pytest.fail("the general path was taken"))
    sent = store.append_sends(bytearray(encode_record(Record("orders", b"x"))) * 3, 16, [0, 1, 0])
    assert sent.queue_offsets == [0, 0, 1]
    store.wait_confirmed(sent.end, HANG_S)
    monkeypatch.setattr(store._reader, "read_queue", lambda *_: pytest.fail("the general path was taken"))
    found = store.read_if_hot(QueueKey(16, 0), 0, 10)
    assert found is not None
    assert len(found) == 2 * len(encode_record(Record("orders", b"x")))
    monkeypatch.undo()
    store.close()


def test_a_batch_at_the_end_of_a_segment_begins_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic_id = store.create_topic("orders", 1).topic_id
    record = encode_record(Record("orders", bytes(3000)))
    while store.log_end < 3 * 69_632:
        store.append_sends(bytearray(record) * 3, topic_id, [0, 0, 0])
    store.wait_confirmed(store.log_end, HANG_S)
    end = store.state.end_offsets[QueueKey(topic_id, 0)]
    assert all(len(store.read_queue(QueueKey(topic_id, 0), offset, 1)) == len(record) for offset in range(end))
    found = store.read_if_hot(QueueKey(topic_id, 0), 0, 1000, 1 << 20)
    assert found is not None
    assert len(found) == end * len(record)
    store.close()


def test_a_damaged_record_is_not_read_from_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic_id = store.create_topic("orders", 1).topic_id
    record = encode_record(Record("orders", bytes(100), "m"))
    begin = store.log_end
    sent = store.append_sends(bytearray(record) * 3, topic_id, [0, 0, 0])
    store.wait_confirmed(sent.end, HANG_S)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(begin + len(record) + 150)
        file.write(b"\xff")
    found = store.read_if_hot(QueueKey(topic_id, 0), 0, 10)
    assert found is not None
    assert len(found) == len(record)  # the records before the damage
    with pytest.raises(LiteMQError, match="crc"):
        store.read_if_hot(QueueKey(topic_id, 0), 1, 10)
    store.close()


def test_no_record_is_read_before_it_is_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    topic_id = store.create_topic("orders", 1).topic_id
    record = encode_record(Record("orders", b"x"))
    first = store.append_sends(bytearray(record), topic_id, [0])
    store.append_sends(bytearray(record), topic_id, [0])
    store.wait_confirmed(store.log_end, HANG_S)
    monkeypatch.setattr(store._reader, "_below", lambda _key: first.end)
    found = store.read_if_hot(QueueKey(topic_id, 0), 0, 10)
    assert found is not None
    assert len(found) == len(record)
    assert store.read_if_hot(QueueKey(topic_id, 0), 1, 10) == b""
    store.close()
