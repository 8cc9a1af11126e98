"""Export: all readable messages as version 1 records; the directory is not changed."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.compression import compress
from litemq.format.record import FIXED_BYTES
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record, stamp_record
from litemq.proto.control_pb2 import Control, Queue, RetentionCrossed
from litemq.storage.offline import export_v1
from litemq.storage.offline.export_v1 import Exported, export_messages
from litemq.types import BodyCodec, ConsumerInfo, MessageStatus, MessageType, Record, RecordKind
from support.stores import bytes_of, open_store, records_of, send


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_every_message_with_its_queue_and_offset(data: Path, file: Path) -> None:
    clock = FakeClock()
    for host in ("one", "another"):
        store = open_store(data, clock, host)
        send(
            store,
            [Record("orders", b"body", f"{host}-{n}", ("a", "b"), ("k",), {"p": "q"}) for n in range(3)],
            [2, 0, 2],
        )
        send(store, [Record("news", type=MessageType.BROADCAST)], 1)
        store.close()
        clock.advance(1)
    exported = export_messages(data, file)
    found = records_of(file)
    assert exported == Exported(8, 2, file.stat().st_size)
    assert [one.record.message_id for one in found] == [
        "one-0",
        "one-1",
        "one-2",
        "",
        "another-0",
        "another-1",
        "another-2",
        "",
    ]
    stamps = [one.stamp for one in found if one.stamp is not None]
    assert [(stamp.queue_id, stamp.queue_offset) for stamp in stamps] == [
        (2, 0),
        (0, 0),
        (2, 1),
        (1, 0),
        (2, 2),
        (0, 1),
        (2, 3),
        (1, 1),
    ]
    assert [stamp.store_timestamp for stamp in stamps] == [1_700_000_000_000] * 4 + [1_700_000_001_000] * 4
    assert found[4].record == Record("orders", b"body", "another-0", ("a", "b"), ("k",), {"p": "q"})
    assert found[4].facts == ConsumerInfo(store_host="another", store_size=found[4].size)
    assert found[3].facts == ConsumerInfo(broadcast=True, store_host="one", store_size=found[3].size)


def test_the_file_is_a_version_1_log(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders", b"x" * n) for n in range(300)])
    store.close()
    export_messages(data, file)
    at = 0
    for one in records_of(file):
        assert one.stamp is not None
        assert one.stamp.commitlog_offset == at
        at += one.size


def test_an_open_directory_is_only_read(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders", b"old")])
    store.checkpoint()
    send(store, [Record("orders", b"not confirmed in any checkpoint")])
    before = bytes_of(data)
    assert export_messages(data, file).messages == 1
    assert bytes_of(data) == before
    assert records_of(file)[0].record.body == b"old"
    store.close()


def test_one_topic(data: Path, file: Path) -> None:
    store = open_store(data)
    for name in ("orders", "news", "empty"):
        send(store, [Record(name, b"%d" % n) for n in range(2)])
    store.close()
    assert export_messages(data, file, topic="news").topics == 1
    assert [(one.record.topic, one.record.body) for one in records_of(file)] == [("news", b"0"), ("news", b"1")]
    with pytest.raises(InvalidArgumentError, match=r"no topic 'other' in .*: it has empty, news, orders"):
        export_messages(data, file, topic="other", overwrite=True)
    with pytest.raises(InvalidArgumentError, match="the broker's own"):
        export_messages(data, file, topic="LITEMQ_SYS_CONTROL", overwrite=True)


def test_deleted_topics_and_dropped_messages_are_not_exported(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("gone", b"gone")])
    send(store, [Record("again", b"before it was deleted")])
    for name in ("gone", "again"):
        store.delete_topic(name)
    send(store, [Record("again", b"again")])
    send(store, [Record("orders", b"%d" % n) for n in range(10)], [n % 2 for n in range(10)])
    # Retention has recorded the drop, and was stopped before it removed the segment.
    orders = store.create_topic("orders")
    queues = [Queue(topic_id=orders.topic_id, queue_id=1, least=3)]
    store.append_control(Control(retention_crossed=RetentionCrossed(log_start=0, queues=queues)))
    store.close()
    export_messages(data, file)
    assert [one.record.body for one in records_of(file)] == [b"again", *(b"%d" % n for n in (0, 2, 4, 6, 7, 8, 9))]
    assert records_of(file)[0].stamp is not None
    assert [one.stamp.queue_offset for one in records_of(file) if one.stamp is not None][:1] == [1]


def test_after_retention(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders", b"x" * 1000, f"m-{n}") for n in range(200)])
    store.retain(max_bytes=150_000)
    first = max(store.state.start_offsets.values())
    assert first > 0
    store.close()
    export_messages(data, file)
    assert [one.record.message_id for one in records_of(file)] == [f"m-{n}" for n in range(first, 200)]


def test_an_empty_store_is_an_empty_file(data: Path, file: Path) -> None:
    open_store(data).close()
    assert export_messages(data, file) == Exported(0, 0, 0)
    assert file.read_bytes() == b""


@pytest.mark.parametrize("run_bytes", [1, 5000, 16 << 20])
def test_compressed_bodies_are_decompressed(
    data: Path, file: Path, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_v1, "_PLAIN_BYTES", run_bytes)
    bodies = [bytes([n]) * 1000 for n in range(9)]
    codecs = list(BodyCodec) * 3
    store = open_store(data)
    send(
        store,
        [Record("orders", compress(body, codec), codec=codec) for body, codec in zip(bodies, codecs, strict=True)],
    )
    store.close()
    export_messages(data, file)
    assert [one.record.body for one in records_of(file)] == bodies


def test_messages_of_transactions_are_marked_committed(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders", type=MessageType.TRANSACTION)] * 2)
    store.close()
    _change(data, 1, kind=RecordKind.COMMITTED)
    export_messages(data, file)
    assert [one.facts.status for one in records_of(file) if one.facts is not None] == [
        MessageStatus.NORMAL,
        MessageStatus.COMMITTED,
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("orders", b"secret", encrypted=True), "its body is encrypted"),
        (Record("orders", b"no frame", codec=BodyCodec.ZSTD), "zstd"),
        (
            Record("orders", compress(bytes(65 << 20), BodyCodec.ZSTD)[:3000], codec=BodyCodec.ZSTD),
            "exceeds",
        ),  # its head says so
    ],
)
def test_unrepresentable_messages_are_reported_by_position(data: Path, file: Path, record: Record, reason: str) -> None:
    store = open_store(data)
    send(store, [Record("orders"), record])
    store.close()
    segment = data / "commitlog" / f"{0:020d}"
    position = segment.read_bytes().index(record.body) - len("orders") - FIXED_BYTES
    with pytest.raises(
        InvalidArgumentError, match=f"{segment}, byte {position}: version 1 cannot represent .*{reason}"
    ):
        export_messages(data, file)
    assert sorted(path.name for path in data.parent.iterdir()) == ["data"]


def test_damage_is_reported_and_leaves_no_file(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders", b"x" * 100)] * 10)
    store.close()
    segment = data / "commitlog" / f"{0:020d}"
    raw = bytearray(segment.read_bytes())
    raw[1000] ^= 1
    segment.write_bytes(raw)
    with pytest.raises(CorruptStoreError) as caught:
        export_messages(data, file)
    assert caught.value.path == str(segment)
    assert list(data.parent.iterdir()) == [data]


def test_a_record_that_belongs_elsewhere_is_damage(data: Path, file: Path) -> None:
    store = open_store(data)
    send(store, [Record("orders")] * 2)
    store.close()
    position = _change(data, 0, commitlog_offset=8)
    with pytest.raises(CorruptStoreError, match="belongs elsewhere") as caught:
        export_messages(data, file)
    assert caught.value.offset == position


def _change(
    data: Path, number: int, *, kind: RecordKind = RecordKind.MESSAGE, commitlog_offset: int | None = None
) -> int:
    """Overwrite the stamp of message ``number``; return its position."""
    segment = data / "commitlog" / f"{0:020d}"
    raw = bytearray(segment.read_bytes())
    at = raw.index(b"LMQ\x02", 8) - 4  # after the record that creates the topic
    size = len(encode_record(Record("orders")))
    position = at + number * size
    stamp = decode_record(raw, position).stamp
    assert stamp is not None
    stamp_record(
        raw,
        position,
        stamp._replace(kind=kind, commitlog_offset=position if commitlog_offset is None else commitlog_offset),
    )
    segment.write_bytes(raw)
    return position


@pytest.mark.parametrize("inside", ["file", "commitlog/00000000000000000000", "../data/file"])
def test_the_file_must_not_be_in_the_directory(data: Path, inside: str) -> None:
    open_store(data).close()
    before = bytes_of(data)
    with pytest.raises(InvalidArgumentError, match="only read"):
        export_messages(data, data / inside, overwrite=True)
    assert bytes_of(data) == before


def test_an_interrupt_leaves_no_file(data: Path, file: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    store = open_store(data)
    send(store, [Record("orders")])
    store.close()
    with pytest.raises(KeyboardInterrupt):
        export_messages(data, file, on_progress=interrupt)
    assert list(data.parent.iterdir()) == [data]


def test_progress_ends_at_the_end_of_the_log(data: Path, file: Path) -> None:
    seen: list[tuple[int, int]] = []
    store = open_store(data)
    send(store, [Record("orders", b"x" * 1000)] * 300)
    store.close()
    export_messages(data, file, on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
