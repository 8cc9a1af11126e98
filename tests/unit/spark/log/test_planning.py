"""Logs read in parts: every confirmed user message once, and damage reported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.format.record import FIXED_BYTES
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record, stamp_record
from litemq.spark.log import reading as log_reading
from litemq.spark.log.options import LogOptions
from litemq.spark.log.planning import plan_parts
from litemq.spark.log.reading import Damage, RowSelection, read_part
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.offline.export_v1 import export_messages
from litemq.types import Record, Stamp
from support.stores import CONFIG, open_store, send

NAMES = ("topic", "queue_id", "queue_offset", "body")
Row = dict[str, Any]


def read(options: LogOptions, selection: RowSelection | None = None) -> tuple[list[Row], list[Damage]]:
    rows: list[Row] = []
    damage: list[Damage] = []
    topics = frozenset(options.topics) or None
    chosen = selection or RowSelection(NAMES, topics, options.include_system, options.after_ms, options.before_ms)
    for part in plan_parts(options):
        for found in read_part(part, chosen):
            if isinstance(found, Damage):
                damage.append(found)
            else:
                rows += found.to_pylist()
    return rows, damage


def fill(data: Path, count: int = 600, clock: FakeClock | None = None, size: int = 400) -> DiskStore:
    """Create a store of several segments and two topics with records of many sizes."""
    store = open_store(data, clock)
    for first in range(0, count, 50):
        records = [
            Record("orders", b"%d" % n + b"x" * (n * 37 % size), keys=(f"k{n}",)) for n in range(first, first + 50)
        ]
        send(store, records, [n % 4 for n in range(50)])
        send(store, [Record("news", b"news %d" % first)], 1)
        if clock is not None:
            clock.advance(1)
    return store


def key(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["queue_id"], row["queue_offset"]


@pytest.mark.parametrize("parts", [1, 2, 7, 40])
def test_every_message_once_in_however_many_parts(tmp_path: Path, parts: int) -> None:
    store = fill(tmp_path)
    sent = [b"%d" % n + b"x" * (n * 37 % 400) for n in range(600)]
    store.checkpoint()
    for _ in range(2):  # open, and closed
        options = LogOptions((str(tmp_path),), min_partitions=parts)
        planned = plan_parts(options)
        rows, damage = read(options)
        assert not damage
        assert [row["body"] for row in rows if row["topic"] == "orders"] == sent
        assert len({key(row) for row in rows}) == len(rows) == 612
        assert len(planned) >= min(parts, 20)
        store.close()


def test_parts_are_cut_inside_segments(tmp_path: Path) -> None:
    fill(tmp_path).close()
    parts = plan_parts(LogOptions((str(tmp_path),), min_partitions=30))
    starts = {int(path.name) for path in (tmp_path / "commitlog").iterdir()}
    assert len(starts) > 2
    assert any(part.range.begin not in starts for part in parts)


def test_a_queue_file_that_lies_cuts_nothing(tmp_path: Path) -> None:
    fill(tmp_path).close()
    for path in (tmp_path / "consumequeue").rglob("0*"):
        if path.is_file() and path.suffix != ".crc":
            entries = np.frombuffer(path.read_bytes(), ">i8").copy().reshape(-1, 3)
            entries[:, 0] += 8  # into the header of each record
            path.write_bytes(entries.tobytes())
    starts = {int(path.name) for path in (tmp_path / "commitlog").iterdir()}
    options = LogOptions((str(tmp_path),), min_partitions=30)
    assert {part.range.begin for part in plan_parts(options)} <= starts
    assert len(read(options)[0]) == 612


def test_a_record_in_a_body_is_no_border(tmp_path: Path) -> None:
    """A body may contain complete records, stamped for their position: no part begins there."""
    store = open_store(tmp_path)
    send(store, [Record("orders", b"first")])
    start = store.confirm_offset
    at = start + FIXED_BYTES + len("orders")
    at += -at % 8
    forged = bytearray(encode_record(Record("orders", b"forged")))
    stamp_record(forged, 0, Stamp(at, 99, 1_700_000_000_000, -1, 16, 3, 1))
    carrier = Record("orders", bytes(at - start - FIXED_BYTES - len("orders")) + forged + bytes(1000))
    send(store, [carrier])
    send(store, [Record("orders", b"last")])
    store.close()
    log = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    assert decode_record(log, at).record.body == b"forged"  # a valid record at its offset
    for parts in (1, 5, 50):
        rows, damage = read(LogOptions((str(tmp_path),), min_partitions=parts))
        assert [row["queue_offset"] for row in rows] == [0, 1, 2]
        assert not damage


def test_nothing_above_the_confirmed_offset(tmp_path: Path) -> None:
    store = fill(tmp_path, 50)
    store.checkpoint()
    topic = store.create_topic("orders", 4)
    appended = store.append(bytearray(encode_record(Record("orders", b"not in a checkpoint yet"))), topic.topic_id, 0)
    assert len(read(LogOptions((str(tmp_path),)))[0]) == 51
    store.wait_confirmed(appended.end)
    store.checkpoint()
    assert len(read(LogOptions((str(tmp_path),)))[0]) == 52
    store.close()


def test_topics_by_name(tmp_path: Path) -> None:
    store = fill(tmp_path, 100)
    store.delete_topic("news")
    store.close()
    rows, _ = read(LogOptions((str(tmp_path),)))
    assert {row["topic"] for row in rows} == {"orders"}
    with pytest.raises(InvalidArgumentError, match="Did you mean 'orders'"):
        plan_parts(LogOptions((str(tmp_path),), topics=("order",)))
    with pytest.raises(InvalidArgumentError, match="no topic 'news'"):
        plan_parts(LogOptions((str(tmp_path),), topics=("news",)))
    with pytest.raises(InvalidArgumentError, match="includeSystem"):
        plan_parts(LogOptions((str(tmp_path),), topics=("LITEMQ_SYS_CONTROL",)))


def test_a_topic_that_was_made_again_has_only_its_new_messages(tmp_path: Path) -> None:
    store = fill(tmp_path, 50)
    store.delete_topic("news")
    send(store, [Record("news", b"again")], 1)
    store.close()
    rows, _ = read(LogOptions((str(tmp_path),), topics=("news",)))
    assert [(key(row), row["body"]) for row in rows] == [(("news", 1, 1), b"again")]


@pytest.mark.parametrize("what", ["missing", "damaged", "old"])
def test_topics_are_known_without_a_current_topics_json(tmp_path: Path, what: str) -> None:
    """A killed broker has the topic in its log but not in the file."""
    store = open_store(tmp_path)
    store.checkpoint()
    before = (tmp_path / "topics.json").read_bytes()
    applied = store.confirm_offset
    send(store, [Record("orders", b"1")])
    store.close()
    topics_file = tmp_path / "topics.json"
    if what == "missing":
        topics_file.unlink()
    elif what == "damaged":
        topics_file.write_bytes(b"{")
    else:
        topics_file.write_bytes(before)
        file = CheckpointFile(DISK, tmp_path / "checkpoint")
        assert file.latest is not None
        file.write(file.latest._replace(state_applied=applied))
    rows, _ = read(LogOptions((str(tmp_path),)))
    assert [row["body"] for row in rows] == [b"1"]


def test_the_brokers_own_topics_only_when_asked_for(tmp_path: Path) -> None:
    fill(tmp_path, 50).close()
    rows, _ = read(LogOptions((str(tmp_path),), include_system=True))
    assert {row["topic"] for row in rows} == {"orders", "news", "LITEMQ_SYS_CONTROL"}
    rows, _ = read(LogOptions((str(tmp_path),), topics=("LITEMQ_SYS_CONTROL",), include_system=True))
    assert {row["topic"] for row in rows} == {"LITEMQ_SYS_CONTROL"}


def test_a_span_of_time(tmp_path: Path) -> None:
    clock = FakeClock()
    begin = clock.wall_ms()
    fill(tmp_path, 600, clock).close()
    options = LogOptions((str(tmp_path),), after_ms=begin + 2000, before_ms=begin + 4000, topics=("news",))
    rows, _ = read(options, RowSelection(("body", "store_timestamp"), None, False, options.after_ms, options.before_ms))
    assert [row["body"] for row in rows] == [b"news 100", b"news 150"]
    whole = LogOptions((str(tmp_path),))
    late = LogOptions((str(tmp_path),), after_ms=begin + 11_000)
    assert plan_parts(late)[0].range.begin > plan_parts(whole)[0].range.begin  # whole segments are not even opened


def test_the_broker_is_named(tmp_path: Path) -> None:
    DiskStore(tmp_path / "a", CONFIG, FakeClock(), broker_name="broker-a").close()
    send(
        store := DiskStore(tmp_path / "a", CONFIG, FakeClock()), [Record("orders", b"1")]
    )  # who has no name changes none
    store.close()
    send(store := open_store(tmp_path / "b"), [Record("orders", b"1")])
    store.close()
    both = LogOptions((str(tmp_path / "*"),))
    assert [part.broker for part in plan_parts(both)] == ["broker-a", None]
    assert [part.broker for part in plan_parts(LogOptions((str(tmp_path / "b"),), broker="x"))] == ["x"]


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def _record_positions(data: Path, segment: int) -> list[int]:
    path = sorted((data / "commitlog").iterdir())[segment]
    raw, at, found = path.read_bytes(), 0, []
    while raw[at + 4 : at + 8] == b"LMQ\x02":
        found.append(at)
        at += int.from_bytes(raw[at : at + 4], "big")
    return found


@pytest.mark.parametrize("field", [0, 5, 9, 20, 30, 70, FIXED_BYTES + 8])
@pytest.mark.parametrize("parts", [1, 30])
def test_a_damaged_record_is_reported_and_the_others_are_read(tmp_path: Path, field: int, parts: int) -> None:
    fill(tmp_path).close()
    whole, _ = read(LogOptions((str(tmp_path),)))
    path = sorted((tmp_path / "commitlog").iterdir())[1]
    positions = _record_positions(tmp_path, 1)
    at = positions[20]
    lost = decode_record(path.read_bytes(), at).stamp
    assert lost is not None
    _flip(path, at + field)
    rows, damage = read(LogOptions((str(tmp_path),), min_partitions=parts))
    assert [(one.path, one.position, one.size) for one in damage] == [(str(path), at, positions[21] - at)]
    assert damage[0].reason
    missing = [row for row in whole if row not in rows]
    assert [(row["queue_id"], row["queue_offset"]) for row in missing] == [(lost.queue_id, lost.queue_offset)]
    assert isinstance(damage[0].error(), CorruptStoreError)


def test_a_record_that_belongs_elsewhere_is_damage(tmp_path: Path) -> None:
    """Its checksums are valid, but it is at the wrong position."""
    store = open_store(tmp_path)
    send(store, [Record("orders", b"a" * 100) for _ in range(4)])
    store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    _, first, second, third, *_ = (at for at in _record_positions(tmp_path, 0))
    data[second:third] = data[first:second]
    path.write_bytes(data)
    rows, damage = read(LogOptions((str(tmp_path),)))
    assert [row["queue_offset"] for row in rows] == [0, 2, 3]
    assert [(one.position, one.reason) for one in damage] == [(second, "the record belongs elsewhere")]


def test_a_file_that_is_too_short_is_damage(tmp_path: Path) -> None:
    fill(tmp_path, 50).close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        file.truncate(5_000)
    with pytest.raises(CorruptStoreError, match="the log ends here"):
        read(LogOptions((str(tmp_path),)))


def test_what_retention_takes_between_planning_and_reading_is_said(tmp_path: Path) -> None:
    fill(tmp_path).close()
    parts = plan_parts(LogOptions((str(tmp_path),)))
    min((tmp_path / "commitlog").iterdir()).unlink()
    with pytest.raises(StorageError, match="retention deleted it"):
        list(read_part(parts[0], RowSelection(NAMES)))


def test_large_records_and_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "ROWS", 7)
    monkeypatch.setattr(log_reading, "_BATCH_BYTES", 600)
    fill(tmp_path, 100, size=3000).close()
    rows, damage = read(LogOptions((str(tmp_path),)))
    assert (len(rows), damage) == (102, [])


# Version 1 ----------------------------------------------------------------------------------------


@pytest.fixture
def export(tmp_path: Path) -> Path:
    fill(tmp_path / "data", 200).close()
    export_messages(tmp_path / "data", tmp_path / "export")
    return tmp_path / "export"


@pytest.mark.parametrize("parts", [1, 9])
def test_a_file_of_version_1_has_the_same_rows(export: Path, parts: int) -> None:
    rows, damage = read(LogOptions((str(export),), min_partitions=parts))
    assert (rows, damage) == read(LogOptions((str(export.parent / "data"),)))


def test_topics_and_times_of_version_1(export: Path) -> None:
    rows, _ = read(LogOptions((str(export),), topics=("news",)))
    assert len(rows) == 4
    assert read(LogOptions((str(export),), before_ms=1)) == ([], [])


def test_damage_in_version_1(export: Path) -> None:
    data = export.read_bytes()
    at = len(data) // 2
    export.write_bytes(data[:at] + b"\xff" * 100 + data[at + 100 :])
    rows, damage = read(LogOptions((str(export),)))
    assert 0 < len(rows) < 204
    assert len(damage) == 1
    assert damage[0].position + damage[0].size == len(data)


def test_zeros_behind_the_last_record_of_version_1(export: Path) -> None:
    export.write_bytes(export.read_bytes() + bytes(1000))
    assert len(read(LogOptions((str(export),)))[0]) == 204


def test_other_files_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "data", 50).close()
    (tmp_path / "text").write_text("not a log at all")
    with pytest.raises(InvalidArgumentError, match="not a file of version 1"):
        plan_parts(LogOptions((str(tmp_path / "text"),)))
    with pytest.raises(InvalidArgumentError, match="a log segment"):
        plan_parts(LogOptions((str(tmp_path / "data" / "commitlog" / f"{0:020d}"),)))
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        plan_parts(LogOptions((str(tmp_path / "nothing"),)))
