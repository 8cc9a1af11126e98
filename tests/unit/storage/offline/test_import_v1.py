"""Import: every message in its queue, or none at all; an export comes back byte for byte."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, DiskFullError, InvalidArgumentError, StoreLockedError
from litemq.format.compression import compress
from litemq.format.record_decode import decode_record
from litemq.format.v1.record import encode_record_v1
from litemq.storage.disk_store import Appended, DiskStore
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.offline import file_v1
from litemq.storage.offline.export_v1 import export_messages
from litemq.storage.offline.import_v1 import Imported, import_messages
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from litemq.types import LATEST_TIME_MS, BodyCodec, ConsumerInfo, Durability, MessageStatus, MessageType, Record, Stamp
from support.records import RECORDS
from support.stores import CONFIG, bytes_of, open_store, records_of, send

GOLDEN = Path(__file__).parents[3] / "golden" / "export-v1.bin"
NOW = 1_700_000_000_000

# The topic, queue and offset of each message after an import into an empty directory.
MESSAGES = [
    (
        0,
        0,
        Record("orders", b"Hello LiteMQ! Message #1", "1766547877259022000-0", ("paid",), ("o-1",), {"region": "eu"}),
    ),
    (3, 0, Record("orders", bytes(range(256)), "二", ("a", "订单"), ("k1", "k2"), {"": "", "é": "ü"}, priority=255)),
    (
        0,
        1,
        Record(
            "orders",
            type=MessageType.ORDER,
            sharding_key="customer-7",
            reliability=Durability.REPLICAS,
            born_host="10.0.0.1:50000",
        ),
    ),
    (5, 0, Record("news.eu", b"to all", type=MessageType.BROADCAST, born_timestamp=NOW - 5)),
    (0, 2, Record("orders", b"due", type=MessageType.DELAY, delay_time=NOW, reliability=Durability.NONE, priority=0)),
    (
        5,
        1,
        Record("news.eu", b"tx", type=MessageType.TRANSACTION, transaction_id="tx-1", reliability=Durability.MEMORY),
    ),
]


def golden_bytes() -> bytes:
    """Return the messages above as ``export`` writes them at that time on host ``broker-1``."""
    data = b""
    for queue_id, queue_offset, record in MESSAGES:
        stamp = Stamp(commitlog_offset=len(data), queue_offset=queue_offset, store_timestamp=NOW, queue_id=queue_id)
        facts = ConsumerInfo(broadcast=record.type is MessageType.BROADCAST, store_host="broker-1")
        data += encode_record_v1(record, stamp, facts)
    return data


def _import(
    file: Path, directory: Path, clock: FakeClock | None = None, host: str = "here", queues: int = 4
) -> Imported:
    return import_messages(file, directory, clock or FakeClock(NOW), queues=queues, config=CONFIG, host=host)


def test_the_golden_file_comes_back_byte_for_byte(tmp_path: Path) -> None:
    assert GOLDEN.read_bytes() == golden_bytes()
    assert _import(GOLDEN, tmp_path / "data", FakeClock(NOW), "broker-1") == Imported(6, 2, len(golden_bytes()))
    export_messages(tmp_path / "data", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == golden_bytes()


def _without_store_fields(file: Path) -> bytes:
    """Return the file with neutral values in the fields that the store sets."""
    return b"".join(
        encode_record_v1(
            one.record, one.stamp._replace(store_timestamp=0, commitlog_offset=0), one.facts._replace(store_host="")
        )
        for one in records_of(file)
        if one.stamp is not None and one.facts is not None
    )


def _compressed(record: Record) -> Record:
    return record._replace(body=compress(record.body, record.codec), encrypted=False)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["orders", "news", "a-b_c.d"]),
            st.lists(st.tuples(RECORDS, st.integers(0, 5)), min_size=1, max_size=8),
        ),
        max_size=5,
    )
)
def test_export_and_import_are_inverse(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[str, list[tuple[Record, int]]]]
) -> None:
    folder = tmp_path_factory.mktemp("round-trip")
    store = open_store(folder / "first", FakeClock(NOW), "first-host")
    sent = []
    for topic, many in batches:
        records = [record._replace(topic=topic) for record, _ in many]
        send(store, [_compressed(record) for record in records], [queue_id for _, queue_id in many], queues=6)
        sent += [(record, queue_id) for record, (_, queue_id) in zip(records, many, strict=True)]
    store.close()
    export_messages(folder / "first", folder / "first.v1")

    # At this time every message is due.
    _import(folder / "first.v1", folder / "second", FakeClock(LATEST_TIME_MS), "another")
    export_messages(folder / "second", folder / "second.v1")
    kept = [
        record._replace(codec=BodyCodec.NONE, encrypted=False, expire_at=0, producer_id=0, sequence=0)
        for record, _ in sent
    ]
    found = records_of(folder / "second.v1")
    assert [one.record for one in found] == kept
    assert [one.stamp.queue_id for one in found if one.stamp is not None] == [queue_id for _, queue_id in sent]
    assert _without_store_fields(folder / "second.v1") == _without_store_fields(folder / "first.v1")

    # At the same time on the same host there is no difference at all.
    _import(folder / "second.v1", folder / "third", FakeClock(LATEST_TIME_MS), "another")
    export_messages(folder / "third", folder / "third.v1")
    assert (folder / "third.v1").read_bytes() == (folder / "second.v1").read_bytes()


def test_messages_are_read_from_their_queues(tmp_path: Path) -> None:
    _import(GOLDEN, tmp_path / "data")
    store = open_store(tmp_path / "data")
    topics = {facts.name: facts for facts in store.state.topics.values()}
    assert (topics["orders"].queues, topics["news.eu"].queues) == (4, 6)
    for queue_id, queue_offset, record in MESSAGES:
        stored = decode_record(store.read_queue(QueueKey(topics[record.topic].topic_id, queue_id), queue_offset, 1))
        assert stored.record == record
        assert stored.stamp is not None
        assert (stored.stamp.queue_offset, stored.stamp.store_timestamp) == (queue_offset, NOW)
    assert [one.record.message_id for one in store.find("orders", "k2")] == ["二"]
    store.close()
    assert not verify_directory(tmp_path / "data").findings


def test_an_import_appends_to_an_existing_directory(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    send(store, [Record("orders", b"x" * 1000, f"old-{n}") for n in range(100)])
    store.close()
    segment = min((tmp_path / "data" / "commitlog").iterdir())
    import_messages(GOLDEN, tmp_path / "data", FakeClock(NOW), host="here")  # default settings
    assert segment.stat().st_size == CONFIG.segment_bytes
    export_messages(tmp_path / "data", tmp_path / "file", topic="orders")
    found = records_of(tmp_path / "file")
    assert [one.record.message_id for one in found][99:] == ["old-99", "1766547877259022000-0", "二", "", ""]
    assert [one.stamp.queue_offset for one in found if one.stamp is not None][100:] == [100, 0, 101, 102]


def test_a_single_segment_keeps_its_size(tmp_path: Path) -> None:
    open_store(tmp_path / "data").close()
    import_messages(GOLDEN, tmp_path / "data", FakeClock(NOW), host="here")
    assert [path.stat().st_size for path in (tmp_path / "data" / "commitlog").iterdir()] == [CONFIG.segment_bytes]


def test_many_records_are_one_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appends: list[int] = []
    append = DiskStore.append

    def counting(
        self: DiskStore, batch: bytearray, topic_id: int, queue_ids: np.ndarray[tuple[int], np.dtype[np.int64]] | int
    ) -> Appended:
        appended = append(self, batch, topic_id, queue_ids)
        appends.append(appended.log_offsets.size)
        return appended

    monkeypatch.setattr(DiskStore, "append", counting)
    file = tmp_path / "file"
    topics = ["orders"] * 3000 + ["news"] * 2 + ["orders"] * 2000
    file.write_bytes(
        b"".join(encode_record_v1(Record(topic, b"%d" % n), Stamp(queue_id=n % 4)) for n, topic in enumerate(topics))
    )
    assert _import(file, tmp_path / "data").messages == 5002
    assert appends == [3000, 2, 2000]


def _records(*records: tuple[Record, Stamp, ConsumerInfo]) -> tuple[bytes, int]:
    """Return a valid record, ``records`` and a valid one, and the position of the second."""
    sound = encode_record_v1(Record("orders"), Stamp())
    return b"".join([sound, *(encode_record_v1(record, stamp, facts) for record, stamp, facts in records), sound]), len(
        sound
    )


@pytest.mark.parametrize(
    ("record", "stamp", "facts", "reason"),
    [
        (Record("%DLQ%orders"), Stamp(), ConsumerInfo(), "the broker's own"),
        (Record("LITEMQ_SYS_TIMER"), Stamp(), ConsumerInfo(), "the broker's own"),
        (Record(""), Stamp(), ConsumerInfo(), "topic"),
        (Record("订单"), Stamp(), ConsumerInfo(), "use A-Z"),
        (Record("../x"), Stamp(), ConsumerInfo(), "use A-Z"),
        (Record("t" * 128), Stamp(), ConsumerInfo(), "at most 127"),
        (Record("t", message_id="x" * 65), Stamp(), ConsumerInfo(), "limit .message_id"),
        (Record("t", tags=("x",) * 65), Stamp(), ConsumerInfo(), "65 tags"),
        (Record("t", keys=("x" * 256,)), Stamp(), ConsumerInfo(), "256 bytes"),
        (Record("t", b"x" * 4096), Stamp(), ConsumerInfo(), "size"),
        (Record("t"), Stamp(), ConsumerInfo(MessageStatus.PREPARED), "not committed"),
        (Record("t"), Stamp(), ConsumerInfo(MessageStatus.ROLLBACK), "not committed"),
        (Record("t"), Stamp(), ConsumerInfo(broadcast=True), "broadcast"),
        (Record("t", type=MessageType.BROADCAST), Stamp(), ConsumerInfo(), "broadcast"),
        (Record("t", delay_time=NOW + 1), Stamp(), ConsumerInfo(), "not due yet"),
        (Record("t"), Stamp(queue_id=65536), ConsumerInfo(), "at most 65536 queues"),
    ],
)
def test_refused_records_are_reported_by_position(
    tmp_path: Path, record: Record, stamp: Stamp, facts: ConsumerInfo, reason: str
) -> None:
    file = tmp_path / "file"
    data, position = _records((record, stamp, facts))
    file.write_bytes(data)
    with pytest.raises(
        InvalidArgumentError, match=f"{file}: the record at byte {position} cannot be imported: .*{reason}"
    ):
        _import(file, tmp_path / "data")
    assert list(tmp_path.iterdir()) == [file]


def test_the_first_refused_record_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    late = (Record("t", delay_time=NOW + 1), Stamp(), ConsumerInfo())
    half = (Record("t"), Stamp(), ConsumerInfo(MessageStatus.PREPARED))
    data, position = _records(late, half)
    file.write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=f"byte {position} .*not due"):
        _import(file, tmp_path / "data")


def test_consumed_and_committed_messages_are_imported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    facts = ConsumerInfo(MessageStatus.COMMITTED, store_host="x", consume_start_time=5, consume_end_time=6)
    file.write_bytes(_records((Record("t"), Stamp(queue_offset=9, consume_count=70_000), facts))[0])
    assert _import(file, tmp_path / "data").messages == 3
    export_messages(tmp_path / "data", tmp_path / "again", topic="t")
    (found,) = records_of(tmp_path / "again")
    assert found.stamp == Stamp(queue_offset=0, store_timestamp=NOW)
    assert found.facts == ConsumerInfo(store_host="here", store_size=found.size)


@pytest.mark.parametrize("window", [200, 4 << 20])
def test_a_damaged_file_changes_nothing(tmp_path: Path, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_v1, "_WINDOW", window)
    data = tmp_path / "data"
    open_store(data).close()
    before = bytes_of(data)
    file = tmp_path / "file"
    last = golden_bytes().rindex(b"LMQ\x01") - 4
    for damaged in (golden_bytes()[:-1], golden_bytes()[:last] + b"\0" + golden_bytes()[last:]):
        file.write_bytes(damaged)
        with pytest.raises(CorruptStoreError) as caught:
            _import(file, data)
        assert (caught.value.path, caught.value.offset) == (str(file), last)
    assert bytes_of(data) == before


def test_a_topic_with_too_few_queues_gets_no_message(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    send(store, [Record("orders", b"old")], queues=2)
    store.close()
    second = len(encode_record_v1(MESSAGES[0][2], Stamp(), ConsumerInfo(store_host="broker-1")))
    with pytest.raises(InvalidArgumentError, match=f"'orders' has 2 queues, but the record at byte {second} of"):
        _import(GOLDEN, tmp_path / "data")
    export_messages(tmp_path / "data", tmp_path / "file")
    assert [one.record.body for one in records_of(tmp_path / "file")] == [b"old"]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    with pytest.raises(StoreLockedError):
        _import(GOLDEN, tmp_path / "data")
    store.close()


def test_a_missing_file_and_bad_queues_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidArgumentError, match="cannot read"):
            _import(path, tmp_path / "data")
    for queues in (0, 65537):
        with pytest.raises(InvalidArgumentError, match="choose 1 … 65536"):
            _import(GOLDEN, tmp_path / "data", queues=queues)
    assert not (tmp_path / "data").exists()


def test_trailing_zeros_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(golden_bytes() + bytes(100_000))
    assert _import(tmp_path / "file", tmp_path / "data") == Imported(6, 2, len(golden_bytes()))


def test_an_empty_file_creates_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert _import(tmp_path / "file", tmp_path / "data") == Imported(0, 0, 0)
    assert not verify_directory(tmp_path / "data").findings


@pytest.mark.parametrize("before", [1, 2, 4])
def test_an_interrupt_leaves_a_valid_directory(tmp_path: Path, before: int) -> None:
    def interrupt(step: str, done: int, total: int) -> None:
        nonlocal before
        before -= step == "import"
        if before == 0:
            raise KeyboardInterrupt

    expected = before + 2  # the first batch has three messages
    with pytest.raises(KeyboardInterrupt):
        import_messages(GOLDEN, tmp_path / "data", FakeClock(NOW), config=CONFIG, host="here", on_progress=interrupt)
    open_store(tmp_path / "data").close()
    assert not verify_directory(tmp_path / "data").findings
    assert export_messages(tmp_path / "data", tmp_path / "file").messages == expected


def test_a_full_disk_reports_the_imported_messages(tmp_path: Path) -> None:
    class SmallDisk(Disk):
        def reserve(self, file: OpenFile, size: int) -> None:
            if file.path.name != f"{0:020d}":
                raise DiskFullError("no space left")
            super().reserve(file, size)

    file = tmp_path / "file"
    topics = ["orders", "news"] * 500
    file.write_bytes(b"".join(encode_record_v1(Record(topic, b"%d" % n), Stamp()) for n, topic in enumerate(topics)))
    with pytest.raises(DiskFullError, match=r"no space left; the first \d+ messages of .* were appended") as caught:
        import_messages(file, tmp_path / "data", FakeClock(NOW), config=CONFIG, disk=SmallDisk(), host="here")
    appended = int(str(caught.value).split("the first ")[1].split()[0])
    assert 100 < appended < 1000
    open_store(tmp_path / "data").close()
    assert export_messages(tmp_path / "data", tmp_path / "again").messages == appended


def test_a_disk_full_at_the_end_reports_all_messages(tmp_path: Path) -> None:
    class FullAtTheEnd(Disk):
        def sync_all(self, path: Path) -> None:
            raise DiskFullError(f"no space left for {path}")

    with pytest.raises(
        DiskFullError, match=f"the first 6 messages of {GOLDEN}, those before byte {len(golden_bytes())}, were appended"
    ):
        import_messages(GOLDEN, tmp_path / "data", FakeClock(NOW), config=CONFIG, disk=FullAtTheEnd(), host="here")
    open_store(tmp_path / "data").close()
    assert export_messages(tmp_path / "data", tmp_path / "file").messages == 6
