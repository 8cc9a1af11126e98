"""Reading a store: confirmed records only; by queue, key and time; cold reads in threads."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import OffsetOutOfRangeError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.disk_store import DiskStore
from litemq.storage.queues import queues
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.gated_disk import GatedDisk
from support.stores import CONFIG, open_store, read_bodies, send, send_bodies
from support.waiting import HANG_S


def test_unconfirmed_records_are_not_read(tmp_path: Path) -> None:
    disk = GatedDisk()
    store = open_store(tmp_path, disk=disk)
    topic = store.create_topic("orders", 1)
    send_bodies(store, "orders", [b"safe"])
    disk.gate.clear()
    appended = store.append(bytearray(encode_record(Record("orders", b"not yet"))), topic.topic_id, 0)
    assert read_bodies(store, "orders") == [b"safe"]
    with pytest.raises(OffsetOutOfRangeError, match="the readable log is"):
        store.read_record(int(appended.log_offsets[0]))
    disk.gate.set()
    store.wait_confirmed(appended.end, HANG_S)
    assert read_bodies(store, "orders") == [b"safe", b"not yet"]
    store.close()


def _send_keyed(store: DiskStore, numbers: range) -> None:
    facts = store.state.topic("orders")
    assert facts is not None
    records = [Record("orders", b"x" * 200, f"id-{n}", keys=(f"key-{n % 10}", "every")) for n in numbers]
    store.wait_confirmed(store.append(bytearray(b"".join(map(encode_record, records))), facts.topic_id, 0).end, HANG_S)


def _ids(store: DiskStore, key: str, limit: int = 1000) -> list[str]:
    return [stored.record.message_id for stored in store.find("orders", key, limit)]


@pytest.mark.parametrize("how", ["open", "closed", "crashed", "index gone", "damaged"])
def test_messages_are_found_by_key_and_by_id(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    for begin in range(0, 500, 50):
        _send_keyed(store, range(begin, begin + 50))
        if begin == 200:
            store.checkpoint()
    if how == "closed":
        store.close()
    elif how != "open":
        store.abandon()
    if how == "index gone":
        shutil.rmtree(tmp_path / "index")
    if how == "damaged":
        sealed = min((tmp_path / "index").glob("*[0-9]"))
        data = bytearray(sealed.read_bytes())
        data[5000] ^= 1
        sealed.write_bytes(data)
    if how != "open":
        store = open_store(tmp_path)
    assert _ids(store, "id-7") == ["id-7"]
    assert _ids(store, "key-3") == [f"id-{n}" for n in range(493, 0, -10)]
    assert len(_ids(store, "every")) == 500
    assert _ids(store, "every", 3) == ["id-499", "id-498", "id-497"]
    assert store.find("payments", "id-7") == []
    assert _ids(store, "nothing") == []
    assert len(list((tmp_path / "index").glob("*[0-9]"))) > 3
    assert ("rebuilding the key index" in caplog.text) == (how == "damaged")
    _send_keyed(store, range(500, 501))
    assert _ids(store, "key-0", 2) == ["id-500", "id-490"]
    store.close()


def test_dropped_messages_are_not_found(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    for begin in range(0, 2000, 50):
        _send_keyed(store, range(begin, begin + 50))
    store.checkpoint()
    files = len(list((tmp_path / "index").iterdir()))
    store.retain(max_bytes=2 * CONFIG.segment_bytes)
    assert _ids(store, "id-7") == []
    assert _ids(store, "id-1999") == ["id-1999"]
    assert len(list((tmp_path / "index").iterdir())) < files
    store.close()


def test_seek_by_time(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000)
    store = open_store(tmp_path, clock)
    topic = store.create_topic("orders", 1)
    key = QueueKey(topic.topic_id, 0)
    assert store.offset_at_time(key, 0) == 0
    for n in range(20):
        clock.advance(1)
        send_bodies(store, "orders", [b"x"] * (n % 3 + 1))
    stamps = [decode_record(store.read_queue(key, n, 1)).stamp for n in range(store.state.end_offsets[key])]
    times = [stamp.store_timestamp for stamp in stamps if stamp is not None]
    for moment in (0, 1_001_000, 1_001_001, 1_010_500, 1_020_000, 1_020_001):
        expected = next((n for n, time in enumerate(times) if time >= moment), len(times))
        assert store.offset_at_time(key, moment) == expected
    store.close()


def test_cold_reads_do_not_run_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_MAX_CACHED", 0)  # no entries of files in memory
    store = open_store(tmp_path)
    send(store, [Record("orders", bytes(10))] * 5)
    store.checkpoint(max_seconds=HANG_S)
    threads: list[str] = []
    read_queue = store._reader.read_queue

    def recorded(*arguments: int) -> bytes | memoryview:
        threads.append(threading.current_thread().name)
        return read_queue(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store._reader, "read_queue", recorded)
    assert len(asyncio.run(store.pull(QueueKey(16, 0), 0, 10))) > 0
    assert threads[0].startswith("litemq-cold-read")
    threads.clear()
    send(store, [Record("orders", bytes(10))])
    assert len(asyncio.run(store.pull(QueueKey(16, 0), 5, 10))) > 0
    assert not any(name.startswith("litemq-cold-read") for name in threads)
    store.close()
